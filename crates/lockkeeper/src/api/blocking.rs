//! The same without async: a facade that needs no runtime.
//!
//! ```
//! # fn main() -> lockkeeper::Result<()> {
//! let locks = lockkeeper::blocking::Locks::connect("memory:")?;
//! let guard = locks.lock("nightly").acquire()?;
//! assert!(guard.is_held());
//! guard.release()?;
//! # Ok(()) }
//! ```

use std::{sync::Arc, time::Duration};

use crate::engine::{Listed, Profile, Who, error::Result};
pub use crate::tools::block_on::block_on;

/// As [`crate::Locks`].
///
/// When the last clone is dropped, it waits until the engine has confirmed what dropped guards gave
/// back, for as long as [one answer](crate::LocksBuilder::answer_within) may take: a program that
/// ends then leaves no lock behind. A static is never dropped; there, use [`Guard::release`].
#[derive(Clone, Debug)]
pub struct Locks(Arc<Door>);

/// Closes behind the last one.
#[derive(Debug)]
struct Door(crate::Locks);

impl Drop for Door {
    fn drop(&mut self) {
        block_on(self.0.settle());
    }
}

impl Locks {
    /// As [`crate::Locks::connect`].
    ///
    /// # Errors
    /// The same.
    pub fn connect(url: &str) -> Result<Self> {
        block_on(crate::Locks::connect(url)).map(Self::from)
    }

    /// As [`crate::Locks::embedded`].
    ///
    /// # Errors
    /// The same.
    pub fn embedded() -> Result<Self> {
        crate::Locks::embedded().map(Self::from)
    }

    /// As [`crate::Locks::lock`].
    pub fn lock(&self, key: &str) -> Lock {
        Lock(self.as_async().lock(key))
    }

    /// As [`crate::Locks::owner`].
    pub fn owner(&self) -> Owner {
        Owner(self.as_async().owner())
    }

    /// As [`crate::Locks::profile`].
    pub fn profile(&self) -> Profile {
        self.as_async().profile()
    }

    /// Where the locks are, for people to read: a folder or a server, without user and password.
    pub fn place(&self) -> String {
        self.as_async().place()
    }

    /// As [`crate::Locks::who`].
    ///
    /// # Errors
    /// The same.
    pub fn who(&self, key: &str) -> Result<Who> {
        block_on(self.as_async().who(key))
    }

    /// As [`crate::Locks::list`].
    ///
    /// # Errors
    /// The same.
    pub fn list(&self) -> Result<Vec<Listed>> {
        block_on(self.as_async().list())
    }

    /// As [`crate::Locks::tidy`].
    ///
    /// # Errors
    /// The same.
    pub fn tidy(&self, idle: Duration) -> Result<usize> {
        block_on(self.as_async().tidy(idle))
    }

    /// The same locks, for async code.
    pub fn as_async(&self) -> &crate::Locks {
        &self.0.0
    }
}

impl From<crate::Locks> for Locks {
    fn from(locks: crate::Locks) -> Self {
        Self(Arc::new(Door(locks)))
    }
}

/// As [`crate::Owner`].
#[derive(Clone, Debug)]
pub struct Owner(crate::Owner);

impl Owner {
    /// As [`crate::Owner::lock`].
    pub fn lock(&self, key: &str) -> Lock {
        Lock(self.0.lock(key))
    }
}

/// As [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock(crate::Lock);

impl Lock {
    /// As [`crate::Lock::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`crate::Lock::maximum_hold`].
    #[must_use]
    pub fn maximum_hold(self, maximum: Duration) -> Self {
        Self(self.0.maximum_hold(maximum))
    }

    /// As [`crate::Lock::barging`].
    #[must_use]
    pub fn barging(self) -> Self {
        Self(self.0.barging())
    }

    /// As [`crate::Lock::label`].
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// As [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// The same.
    pub fn acquire(&self) -> Result<Guard> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// As [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(block_on(self.0.try_acquire())?.map(Guard))
    }

    /// As [`crate::Lock::acquire_within`].
    ///
    /// # Errors
    /// The same.
    pub fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        block_on(self.0.acquire_within(limit)).map(Guard)
    }
}

impl From<crate::Lock> for Lock {
    fn from(lock: crate::Lock) -> Self {
        Self(lock)
    }
}

/// As [`crate::Guard`].
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(crate::Guard);

impl Guard {
    /// As [`crate::Guard::key`].
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// As [`crate::Guard::fence`].
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// As [`crate::Guard::is_held`].
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// As [`crate::Guard::remaining`].
    pub fn remaining(&self) -> Option<Duration> {
        self.0.remaining()
    }

    /// As [`crate::Guard::release`].
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<()> {
        block_on(self.0.release())
    }

    /// As [`crate::Guard::descriptor`].
    ///
    /// # Errors
    /// The same.
    #[cfg(unix)]
    pub fn descriptor(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        self.0.descriptor()
    }

    /// The same guard, for async code: to await its loss, for example.
    pub fn as_async(&self) -> &crate::Guard {
        &self.0
    }
}
