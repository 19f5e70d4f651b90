//! The contract between the core and an engine: a place where locks live.
//!
//! An engine has no timers, no retries and no counting; all of that is written once, above it.
//! What it must do is ten rules, each of them a test of the conformance suite:
//!
//! 1. `attempt` is a whole answer: on a free key it grants.
//! 2. `attempt` again after a lost answer grants, with the same fence: the engine knows us by owner.
//! 3. `renew` never takes anew; a gap is a loss, however short.
//! 4. `release` works in every state, also after a call that got no answer, and more than once; it
//!    never touches another's lock, and says so if a lock that was granted is not ours any more.
//! 5. `changed` may be dropped and called again at any moment: what it waits for lives in the claim.
//! 6. `changed` may come early or not at all; the steward asks again anyway, and `retry_in` can only
//!    shorten the pause.
//! 7. A place in a queue expires too: a dead waiter costs at most its own short lease.
//! 8. A claim that is simply dropped frees itself within its lease.
//! 9. Giving up a server-side wait is told to the server.
//! 10. What the profile promises is kept, and nothing is promised that is not.
//!
//! The futures of a claim are polled by whoever drives them: the caller's task, a thread without
//! any runtime, or the steward's thread. An engine that needs a reactor brings its own.
//!
//! They may also be dropped at any await, and the same or another call made next: a caller goes
//! away, or the answer of an engine that [answers later](Answers::Later) takes longer than
//! [`answer_within`](crate::LocksBuilder::answer_within). Such a call got no answer, and may have
//! been carried out or not: rules 2 and 4 say what holds then.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;

pub use crate::clock::Moment;
use crate::{error::Result, key::Key};

/// A place where locks live.
pub trait Engine: Send + Sync + fmt::Debug + 'static {
    /// What it promises, as data.
    fn profile(&self) -> Profile;

    /// Takes note of a contender; nothing is sent yet.
    fn claim(&self, request: Request) -> Box<dyn Claim>;

    /// Who holds, who waits, what can be cleaned up; where the engine can tell.
    fn inspector(&self) -> Option<&dyn Inspector> {
        None
    }
}

/// One contender's stake in one key, waiting or held.
///
/// `now` is the moment just before the call: engines do not read clocks.
#[async_trait]
pub trait Claim: Send + fmt::Debug {
    /// Asks for the lock: a whole answer, without waiting for others.
    async fn attempt(&mut self, now: Moment) -> Result<Attempt>;

    /// Sends an attempt the quick way, if there is one right now: a single question, to which
    /// [`poll_attempt`](Self::poll_attempt) has the answer, and no future on the heap.
    fn send_attempt(&mut self, _now: Moment) -> bool {
        false
    }

    /// The answer to what was sent the quick way; `None` if that did not do, and it takes an
    /// [`attempt`](Self::attempt) to know. Whoever gives up waiting may go on with any other call.
    fn poll_attempt(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Attempt>>> {
        Poll::Ready(Ok(None))
    }

    /// Makes the lease last longer, or says that it is gone. Never takes anew.
    async fn renew(&mut self, now: Moment) -> Result<Standing>;

    /// Unlocks, or leaves the queue. Works in any state, any number of times, and only on our own.
    async fn release(&mut self) -> Result<Released>;

    /// Sends the release of a lock that is held the quick way, as [`send_attempt`](Self::send_attempt)
    /// does.
    fn send_release(&mut self) -> bool {
        false
    }

    /// The answer to a release that was sent the quick way; `None` if that did not do, and it takes a
    /// [`release`](Self::release) to know.
    fn poll_release(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Released>>> {
        Poll::Ready(Ok(None))
    }

    /// Ends when it is worth asking again: our turn may have come, or our place is gone.
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Whether it can serve another request for the same key, as things stand.
    fn begins_again(&self) -> bool {
        false
    }

    /// Takes up another request for the same key, as a new claim would: keys that are wanted again and
    /// again need not be looked at anew each time.
    ///
    /// # Errors
    /// With the request, if it cannot do that.
    fn begin_again(&mut self, request: Request) -> Result<(), Request> {
        Err(request)
    }

    /// A duplicate of the descriptor that holds the lock in the kernel, where there is one: while
    /// any copy is open, the lock stays held, even when this process dies.
    #[cfg(unix)]
    fn descriptor(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        Ok(None)
    }
}

/// What a claim asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The key.
    pub key: Key,
    /// Unique per claim: what the engine knows us by.
    pub owner: OwnerId,
    /// What people see in `who`.
    pub label: Arc<str>,
    /// How many may hold it together.
    pub mode: Mode,
    /// How long a grant should last without renewal.
    pub ttl: Duration,
    /// Whether this claim means to wait when the key is busy. One that does not must not enter
    /// the queue.
    pub patience: Patience,
    /// Whether it may overtake those who wait.
    pub order: Order,
}

impl Request {
    /// A request that waits its turn; change the fields for anything else.
    pub fn new(key: Key, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            key,
            owner,
            label: "".into(),
            mode: Mode::Exclusive,
            ttl,
            patience: Patience::Waits,
            order: Order::FirstCome,
        }
    }
}

/// Identity of a claim: 128 bits that nobody can guess, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u128);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many may hold a key together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// One.
    Exclusive,
}

/// Whether a claim means to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It waits its turn.
    Waits,
    /// One attempt, and that is all.
    Tries,
}

/// In which order those who wait are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// First come, first served.
    #[default]
    FirstCome,
    /// A free lock may be taken ahead of those who wait.
    Barging,
}

/// The answer to [`Claim::attempt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The claim holds the key.
    Granted(Grant),
    /// Somebody else does, or is before us.
    Busy {
        /// Ask again after this pause at the latest; `None` leaves it to the steward.
        retry_in: Option<Duration>,
    },
}

/// What the engine says when a claim wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Larger than that of every earlier grant of this key; 0 if the engine has none to give.
    pub fence: u64,
    /// How many numbers from `fence` on belong to this grant (at least 1): each turn of the line
    /// takes one.
    pub n_fences: u32,
    /// How long it lasts without renewal.
    pub lease: Lease,
}

/// How long a grant lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// This long, counted from before the request was sent.
    For(Duration),
    /// As long as the process or its session lives; worth a check now and then.
    WithSession {
        /// How often to check.
        check_every: Duration,
    },
}

/// The answer to [`Claim::renew`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Still held, for this long.
    Held(Lease),
    /// Gone; the text says why.
    Lost(String),
}

/// The answer to [`Claim::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// Nothing of the claim is left: the lock was unlocked, the place in the queue given up, or there
    /// was nothing to give back.
    Done,
    /// The claim was granted the lock and had not released it, but the engine has another holder, or
    /// none: the lock was not exclusive all the time. Whoever repeats a release that got no answer
    /// may hear this too, because the first release was carried out.
    NotOurs,
}

/// What an engine promises.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// Its name in errors, events and `who`.
    pub engine: &'static str,
    /// How far its locks reach.
    pub reach: Reach,
    /// What ends a hold nobody renews.
    pub expiry: Expiry,
    /// Whether those who wait are served in the order they came.
    pub fairness: Fairness,
    /// What its fence numbers are worth.
    pub fencing: Fencing,
    /// How a waiter learns that its turn has come.
    pub wake: Wake,
    /// Whether asking and releasing need to wait for anybody.
    pub answers: Answers,
    /// The ttl that others who share its locks use, for locks that ask for none.
    pub usual_ttl: Option<Duration>,
    /// The promise in plain words.
    pub promise: &'static str,
}

impl Profile {
    /// A profile with the weakest promises; raise what the engine keeps.
    pub const fn weakest(engine: &'static str) -> Self {
        Self {
            engine,
            reach: Reach::Process,
            expiry: Expiry::Lease { shortest: Duration::from_millis(100) },
            fairness: Fairness::None,
            fencing: Fencing::None,
            wake: Wake::Asked,
            answers: Answers::Later,
            usual_ttl: None,
            promise: "",
        }
    }
}

/// How far the locks of an engine reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The tasks and threads of one process.
    Process,
    /// The processes of one machine.
    Machine,
    /// Everyone who reaches the server.
    Network,
}

/// What ends a hold that nobody renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Time: a lease of at least `shortest`.
    Lease {
        /// The shortest ttl the engine keeps.
        shortest: Duration,
    },
    /// The end of the process or its session; a paused holder keeps the lock.
    Session,
}

/// Whether those who wait are served in the order they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// Nobody keeps an order.
    None,
    /// First come, first served.
    FirstCome,
}

/// What fence numbers are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// There are none.
    None,
    /// They grow as long as the engine's data lives.
    Grows,
    /// They grow also over crash and power loss.
    Durable,
}

/// How a waiter learns that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It asks again and again.
    Asked,
    /// It is told.
    Told,
}

/// Whether the calls of a claim need to wait for anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// `attempt`, and the `release` of a claim that holds, are ready when first polled.
    AtOnce,
    /// They may take a while; each is dropped when it takes too long.
    Later,
}

/// Looks at locks without disturbing them.
#[async_trait]
pub trait Inspector: Send + Sync {
    /// Who holds this key and who waits for it, in order.
    async fn who(&self, key: &Key) -> Result<Who>;

    /// The keys the engine knows, held or not, in the alphabet's order.
    async fn list(&self) -> Result<Vec<Listed>>;

    /// Cleans up what nobody has used for `idle`, and says how many keys that were.
    async fn tidy(&self, idle: Duration, now: Moment) -> Result<usize>;
}

/// Who holds a key and who waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The holder, if the key is held.
    pub holder: Option<Party>,
    /// Those in line, the next one first.
    pub line: Vec<Party>,
}

/// What is known of a holder or a waiter; fields an engine cannot tell are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Party {
    /// Its process.
    pub pid: Option<u32>,
    /// Its machine.
    pub host: Option<String>,
    /// The label it was given.
    pub label: Option<String>,
    /// Microseconds since 1970 when it began to hold.
    pub since_us: Option<u64>,
    /// Its fence.
    pub fence: Option<u64>,
}

impl Party {
    /// What can be said of this process.
    pub fn of_this_process() -> Self {
        Self { pid: Some(std::process::id()), ..Self::default() }
    }
}

/// One line of [`Inspector::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// Whether it is held now.
    pub held: bool,
    /// How many are in line.
    pub n_waiting: usize,
}
