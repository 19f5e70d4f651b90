//! The entry point: an engine and its defaults.

mod builder;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use self::builder::{DEFAULT_ANSWER_WITHIN, DEFAULT_CONNECT_WITHIN, LocksBuilder};
use super::{lock::Lock, owner::Owner, several::Several};
use crate::{
    engine::{
        Engine, Inspector, Listed, Mode, OwnerId, Profile, Request, Who,
        error::{Call, Error, Result},
        event::Observers,
        key::Key,
    },
    line::{
        LineRecord,
        errand::{steward::Steward, unconfirmed::Partings},
        seat::{Terms, Wish},
    },
    time::{
        alarms::Alarms,
        clock::{Clock, Moment},
    },
    tools::{
        fork::{self, Origin},
        sync::locked,
    },
};

/// The default ttl: how long a lock outlives a holder that dies, on engines that count time and have
/// no [usual one](crate::engine::Profile::usual_ttl).
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// The entry point: an engine and its defaults. Clones share both.
///
/// It may live in a static, be used from several runtimes one after the other or at once, and
/// from none. After `fork`, a child must connect anew.
///
/// ```
/// # fn main() -> lockkeeper::Result<()> { lockkeeper::blocking::block_on(async {
/// let locks = lockkeeper::Locks::connect("memory:").await?;
/// let guard = locks.lock("invoice:42").acquire().await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct Locks {
    house: Arc<House>,
}

impl Locks {
    /// Opens the engine that the URL names, such as `file:///var/lib/app/locks`.
    ///
    /// # Errors
    /// [`ErrorKind::BadOptions`](crate::ErrorKind::BadOptions) for a URL that cannot be meant,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for an engine that is not built in,
    /// and what the engine says when it cannot be opened.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder().url(url).connect().await
    }

    /// Opens the embedded default: the file engine in this user's state folder, no server needed.
    ///
    /// # Errors
    /// What the file engine says when the folder cannot be used.
    pub fn embedded() -> Result<Self> {
        crate::api::blocking::block_on(Self::builder().connect())
    }

    /// Settings for more than a URL.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }

    /// Uses an engine of your own.
    pub fn with_engine(engine: impl Engine) -> Result<Self> {
        Self::builder().build(Box::new(engine))
    }

    /// A request for the lock with this name: any text of 1 to 512 bytes.
    pub fn lock(&self, key: &str) -> Lock {
        Lock::new(&self.house, key, None)
    }

    /// A request for several keys, all or none.
    ///
    /// ```
    /// # fn main() -> lockkeeper::Result<()> { lockkeeper::blocking::block_on(async {
    /// let locks = lockkeeper::Locks::connect("memory:").await?;
    /// let guards = locks.several(["account:7", "account:9"]).acquire().await?;
    /// assert!(guards.is_held());
    /// guards.release().await?;
    /// # Ok(()) }) }
    /// ```
    pub fn several<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Several {
        Several::new(self, keys)
    }

    /// A new owner, for locks that the same party may take more than once.
    pub fn owner(&self) -> Owner {
        Owner::new(&self.house)
    }

    /// What the engine promises.
    pub fn profile(&self) -> Profile {
        self.house.profile.clone()
    }

    /// Where the locks are, for people to read: a folder or a server, as
    /// [`without_secrets`](crate::without_secrets) shows its URL.
    pub fn place(&self) -> String {
        self.house.engine.place().unwrap_or_else(|| self.house.place.clone())
    }

    /// Who holds this key and who waits for it, without disturbing them.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine cannot tell.
    pub async fn who(&self, key: &str) -> Result<Who> {
        let (key, inspector) = (Key::new(key)?, self.inspector("cannot tell who holds a lock")?);
        let now = self.house.clock.now();
        let who = self.house.limited(|| inspector.who(&key, now)).await;
        who.map_err(|error| self.house.error_at(error, &key, Call::Inspect))
    }

    /// The keys the engine knows.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine cannot tell.
    pub async fn list(&self) -> Result<Vec<Listed>> {
        let (inspector, now) = (self.inspector("cannot list its keys")?, self.house.clock.now());
        let list = self.house.limited(|| inspector.list(now)).await;
        list.map_err(|error| error.at(self.house.profile.engine, None, Call::Inspect))
    }

    /// Cleans up after keys that nobody has used for `idle`, and says how many those were.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine has nothing to tidy.
    pub async fn tidy(&self, idle: Duration) -> Result<usize> {
        let (now, inspector) = (self.house.clock.now(), self.inspector("has nothing to tidy")?);
        let tidied = self.house.limited(|| inspector.tidy(idle, now)).await;
        tidied.map_err(|error| error.at(self.house.profile.engine, None, Call::Inspect))
    }

    /// For programs that chose [`attended`](LocksBuilder::attended): checks, renews and ends holds as
    /// far as that is due, and says how soon to call again; `None` when there is nothing to wait for.
    pub fn attend(&self) -> Option<Duration> {
        let next = self.house.alarms.attend();
        (next != Moment::NEVER).then(|| next.since(self.house.clock.now()))
    }

    /// Waits until the engine has confirmed what dropped guards gave back and what was given up half-way, for
    /// as long as [one answer](LocksBuilder::answer_within) may take.
    ///
    /// For a program that is about to end: over a network, all of that goes on in the background, and a program
    /// that ends first leaves the key to its lease. [`blocking::Locks`](crate::api::blocking::Locks) does it when the
    /// last clone is dropped.
    ///
    /// # Cancel safety
    /// May be dropped at any time; what is left goes on in the background.
    pub async fn settle(&self) {
        if self.house.is_this_process() {
            self.house.settle().await;
        }
    }

    /// Where to look; an engine without one `lacks` what was asked for.
    fn inspector(&self, lacks: &str) -> Result<&dyn Inspector> {
        self.house.check_process()?;
        self.house
            .engine
            .inspector()
            .ok_or_else(|| Error::unsupported(format!("{} {lacks}", self.house.profile.engine)))
    }
}

/// How many lines may be idle before the idle ones are forgotten.
const KEPT_LINES: usize = 1024;

/// What everything made from one [`Locks`] shares.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) profile: Profile,
    /// Where the locks are, as the URL says it.
    place: String,
    pub(crate) terms: Terms,
    pub(crate) answer_within: Duration,
    pub(crate) clock: Clock,
    pub(crate) alarms: Alarms,
    pub(crate) steward: Steward,
    pub(crate) partings: Partings,
    pub(crate) observers: Observers,
    lines: Mutex<HashMap<Key, Arc<LineRecord>, foldhash::fast::RandomState>>,
    first_owner: u128,
    n_numbers: AtomicU64,
    origin: Origin,
}

impl House {
    /// A request of a claim of its own.
    pub(crate) fn request(&self, key: &Key, wish: &Wish) -> Request {
        // Nobody can guess the first, and none is used twice.
        let owner = OwnerId(self.first_owner.wrapping_add(self.next_number().into()));
        let terms = wish.terms(self);
        Request {
            key: key.clone(),
            owner,
            label: Arc::clone(&terms.label),
            mode: Mode::Exclusive,
            ttl: terms.ttl,
            patience: wish.patience,
            order: terms.order,
        }
    }

    /// The line of the key with this name.
    pub(crate) fn line_of(&self, name: &str) -> Result<Arc<LineRecord>> {
        // In a forked child the mutex may be locked for ever.
        self.check_process()?;
        // Known names need no new key; the guard must be gone before the other way is taken.
        let known = locked(&self.lines).get(name).map(Arc::clone);
        known.map_or_else(|| Ok(self.line(&Key::new(name)?)), Ok)
    }

    /// The line of this key, opened if there is none.
    pub(crate) fn line(&self, key: &Key) -> Arc<LineRecord> {
        let mut lines = locked(&self.lines);
        if let Some(line) = lines.get(key.as_str()) {
            return Arc::clone(line);
        }
        let mut closed = Vec::new();
        if lines.len() >= lines.capacity().max(KEPT_LINES) {
            // Only when the table would have to grow: so the cost is spread over all the keys
            // that were added since.
            closed.extend(lines.extract_if(|_, line| line.close_if_idle()));
        }
        let line = Arc::new(LineRecord::new(key.clone()));
        lines.insert(key.clone(), Arc::clone(&line));
        // A line may have a claim to spare, and an engine's claim may do anything when dropped.
        drop(lines);
        drop(closed);
        line
    }

    /// Whether something is still done for a key that nobody here wants any more.
    pub(crate) fn is_winding_up(&self) -> bool {
        locked(&self.lines).values().any(|line| line.is_winding_up())
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.n_numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn error_at(&self, error: Error, key: &Key, call: Call) -> Error {
        error.at(self.profile.engine, Some(key), call)
    }

    /// Whether we are in the process that connected, not in a child forked from it: there, the
    /// locks are still the parent's, and our threads do not exist.
    pub(crate) fn is_this_process(&self) -> bool {
        self.origin.is_here()
    }

    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_this_process() {
            return Ok(());
        }
        Err(refused_after_fork())
    }
}

pub(crate) fn refused_after_fork() -> Error {
    Error::refused("these locks were opened before a fork; connect again in the child")
}

impl Drop for House {
    fn drop(&mut self) {
        if self.is_this_process() {
            return;
        }
        // A forked child: everything that an engine made is the parent's, and may be half-way through something.
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        fork::leave(std::mem::take(lines));
        fork::leave(Arc::clone(&self.engine));
        self.partings.leave();
    }
}
