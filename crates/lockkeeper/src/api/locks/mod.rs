//! The entry point: an engine and its defaults.

mod builder;

use std::{sync::Arc, time::Duration};

pub use self::builder::{DEFAULT_ANSWER_WITHIN, DEFAULT_CONNECT_WITHIN, LocksBuilder};
use super::{lock::Lock, owner::Owner, several::Several};
use crate::{
    engine::{
        Engine, Inspector, Listed, Profile, Who,
        error::{Call, Error, Result},
        key::Key,
    },
    line::core::Core,
    time::clock::Moment,
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
    core: Arc<Core>,
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
        crate::tools::block_on::block_on(Self::builder().connect())
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
        Lock::new(&self.core, key, None)
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
        Owner::new(&self.core)
    }

    /// What the engine promises.
    pub fn profile(&self) -> Profile {
        self.core.profile.clone()
    }

    /// Where the locks are, for people to read: a folder or a server, as
    /// [`without_secrets`](crate::without_secrets) shows its URL.
    pub fn place(&self) -> String {
        self.core.engine.place().unwrap_or_else(|| self.core.place.clone())
    }

    /// Who holds this key and who waits for it, without disturbing them.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine cannot tell.
    pub async fn who(&self, key: &str) -> Result<Who> {
        let (key, inspector) = (Key::new(key)?, self.inspector("cannot tell who holds a lock")?);
        let now = self.core.clock.now();
        let who = self.core.limited(|| inspector.who(&key, now)).await;
        who.map_err(|error| self.core.error_at(error, &key, Call::Inspect))
    }

    /// The keys the engine knows.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine cannot tell.
    pub async fn list(&self) -> Result<Vec<Listed>> {
        let (inspector, now) = (self.inspector("cannot list its keys")?, self.core.clock.now());
        let list = self.core.limited(|| inspector.list(now)).await;
        list.map_err(|error| error.at(self.core.profile.engine, None, Call::Inspect))
    }

    /// Cleans up after keys that nobody has used for `idle`, and says how many those were.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine has nothing to tidy.
    pub async fn tidy(&self, idle: Duration) -> Result<usize> {
        let (now, inspector) = (self.core.clock.now(), self.inspector("has nothing to tidy")?);
        let tidied = self.core.limited(|| inspector.tidy(idle, now)).await;
        tidied.map_err(|error| error.at(self.core.profile.engine, None, Call::Inspect))
    }

    /// For programs that chose [`attended`](LocksBuilder::attended): checks, renews and ends holds as
    /// far as that is due, and says how soon to call again; `None` when there is nothing to wait for.
    pub fn attend(&self) -> Option<Duration> {
        let next = self.core.alarms.attend();
        (next != Moment::NEVER).then(|| next.since(self.core.clock.now()))
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
        if self.core.is_this_process() {
            self.core.settle().await;
        }
    }

    /// Where to look; an engine without one `lacks` what was asked for.
    fn inspector(&self, lacks: &str) -> Result<&dyn Inspector> {
        self.core.check_process()?;
        self.core
            .engine
            .inspector()
            .ok_or_else(|| Error::unsupported(format!("{} {lacks}", self.core.profile.engine)))
    }
}
