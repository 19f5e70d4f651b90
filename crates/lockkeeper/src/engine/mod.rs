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
//! any runtime, or the steward's thread; [`poller()`] says which. An engine that needs a reactor brings its own.
//!
//! They may also be dropped at any await, and the same or another call made next: a caller goes
//! away, or the answer of an engine that [answers later](Answers::Later) takes longer than
//! [`answer_within`](crate::LocksBuilder::answer_within). Such a call got no answer, and may have
//! been carried out or not: rules 2 and 4 say what holds then.

mod alert;
pub(crate) mod error;
pub mod event;
mod inspect;
pub(crate) mod key;
mod moment;
mod poller;
mod profile;
mod quick;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::{
    alert::Alert,
    inspect::{Inspector, Listed, Party, Who},
    moment::Moment,
    poller::{Poller, poller},
    profile::{Answers, Expiry, Fairness, Fencing, Profile, Reach, Tells, Wake},
    quick::Quick,
};
pub(crate) use self::{
    alert::Alerted,
    poller::{Blocks, unattended},
};
use self::{
    error::{Error, Result},
    key::Key,
};

/// A place where locks live.
pub trait Engine: Send + Sync + fmt::Debug + 'static {
    /// What it promises, as data.
    fn profile(&self) -> Profile;

    /// Where the locks are, for people to read, if the URL does not say it; without any secret.
    fn place(&self) -> Option<String> {
        None
    }

    /// Whose numbers the fences are: a server, a cluster, a folder. Only fences of one domain can be compared.
    /// `None` if the engine cannot tell.
    fn fence_domain(&self) -> Option<String> {
        None
    }

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

    /// Makes the lease last longer, or says that it is gone. Never takes anew.
    async fn renew(&mut self, now: Moment) -> Result<Standing>;

    /// Has the renewals of a lock that is held ask for this ttl from now on, as if it had been requested so:
    /// the lock is passed on to a task that wants it. Whether that can be done; otherwise the lock is
    /// released, and asked for anew. Nothing is sent yet.
    fn set_ttl(&mut self, _ttl: Duration) -> bool {
        false
    }

    /// Unlocks, or leaves the queue. Works in any state, any number of times, and only on our own.
    async fn release(&mut self, now: Moment) -> Result<Released>;

    /// Ends when it is worth asking again: our turn may have come, or our place is gone.
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Unlocks as [`release`](Self::release) does, but keeps the key from others for this much longer.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine cannot do that; then nothing
    /// has happened.
    async fn release_after(&mut self, _keep_for: Duration, _now: Moment) -> Result<Released> {
        Err(Error::unsupported("this engine cannot keep a key after its release"))
    }

    /// Hands over what to raise when a hold should be looked at, before the first attempt; only for an
    /// engine whose profile says that it [tells](Profile::tells).
    fn watched(&mut self, _alert: Alert) {}

    /// The quick way of this claim, if it has one.
    fn quick(&mut self) -> Option<&mut dyn Quick> {
        None
    }

    /// A duplicate of the descriptor that holds the lock in the kernel, where there is one: while
    /// any copy is open, the lock stays held when this process dies. A [`release`](Self::release) frees it
    /// all the same.
    ///
    /// It only looks, and is called under a mutex of the guard: it must not call that guard.
    #[cfg(unix)]
    fn descriptor(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        Ok(None)
    }
}

/// The longest ttl; a longer one would be a lock that outlives its dead holder for days.
pub const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest ttl; below it, an ordinary pause of the machine would lose the lock.
pub const SHORTEST_TTL: Duration = Duration::from_millis(100);
/// The longest label, in bytes.
pub const LONGEST_LABEL: usize = 256;

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
