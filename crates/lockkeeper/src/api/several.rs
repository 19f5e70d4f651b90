//! Several keys at once: all or none.

use std::{collections::BTreeSet, time::Duration};

use super::{guard::Guard, lock::Lock, locks::Locks};
use crate::engine::{
    error::{Error, ErrorKind, Result},
    event::Loss,
};

/// A request for several keys, all or none; made by [`Locks::several`].
///
/// They are taken one after the other in one order, whatever order they were named in, so that two
/// who want the same keys never wait for each other in a circle.
#[derive(Clone, Debug)]
pub struct Several {
    locks: Vec<Lock>,
}

impl Several {
    pub(crate) fn new<'a>(locks: &Locks, keys: impl IntoIterator<Item = &'a str>) -> Self {
        // Sorted, and each key once: the second time we would wait for ourselves.
        let keys: BTreeSet<&str> = keys.into_iter().collect();
        Self { locks: keys.into_iter().map(|key| locks.lock(key)).collect() }
    }

    /// As [`Lock::ttl`], for all of them.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|lock| lock.ttl(ttl))
    }

    /// As [`Lock::maximum_hold`], for each of them from its own beginning.
    #[must_use]
    pub fn maximum_hold(self, maximum: Duration) -> Self {
        self.each(|lock| lock.maximum_hold(maximum))
    }

    /// As [`Lock::label`], for all of them.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        self.each(|lock| lock.label(label))
    }

    /// Waits until it has them all.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; those it had are given back. [`ErrorKind::BadOptions`] without a key.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Guards> {
        let mut guards = self.no_guards_yet()?;
        for lock in &self.locks {
            guards.0.push(lock.acquire().await?);
        }
        guards.all_held()
    }

    /// Takes them all if all are free now.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`]; if one of them is busy, `Ok(None)`, and those it had are given back.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guards>> {
        let mut guards = self.no_guards_yet()?;
        for lock in &self.locks {
            let Some(guard) = lock.try_acquire().await? else { return Ok(None) };
            guards.0.push(guard);
        }
        guards.all_held().map(Some)
    }

    /// Waits until it has them all, for at most `limit` in all. A limit of 0 is one attempt for each.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`], and [`ErrorKind::TimedOut`] when no time was left to ask for one of them;
    /// those it had are given back.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guards> {
        let mut guards = self.no_guards_yet()?;
        let give_up_at = self.locks.first().and_then(|lock| lock.moment_in(limit));
        for lock in &self.locks {
            if !guards.0.is_empty() {
                lock.check_time(give_up_at, limit)?;
            }
            guards.0.push(lock.acquire_until(give_up_at, limit).await?);
        }
        guards.all_held()
    }

    fn each(mut self, change: impl Fn(Lock) -> Lock) -> Self {
        self.locks = self.locks.into_iter().map(change).collect();
        self
    }

    fn no_guards_yet(&self) -> Result<Guards> {
        if self.locks.is_empty() {
            return Err(Error::bad_options("several() needs at least one key"));
        }
        Ok(Guards(Vec::with_capacity(self.locks.len())))
    }
}

/// Proof that several keys are held together.
#[derive(Debug)]
#[must_use = "the locks are released as soon as the guards are dropped"]
pub struct Guards(Vec<Guard>);

impl Guards {
    /// The guard of each key, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }

    /// The fence of this key, if it is one of them.
    pub fn fence(&self, key: &str) -> Option<u64> {
        self.0.iter().find(|guard| guard.key() == key).map(Guard::fence)
    }

    /// Whether all of them are held now.
    pub fn is_held(&self) -> bool {
        self.0.iter().all(Guard::is_held)
    }

    /// Ends when the first of them is lost, and says why.
    pub async fn lost(&self) -> Loss {
        let mut lost: Vec<_> = self.0.iter().map(|guard| Box::pin(guard.lost())).collect();
        std::future::poll_fn(|context| {
            for lost in &mut lost {
                if let std::task::Poll::Ready(loss) = lost.as_mut().poll(context) {
                    return std::task::Poll::Ready(loss);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// Releases all of them, the last one taken first.
    ///
    /// # Errors
    /// The first error; the others are released all the same.
    pub async fn release(self) -> Result<()> {
        let mut answer = Ok(());
        for guard in self.0.into_iter().rev() {
            answer = answer.and(guard.release().await);
        }
        answer
    }

    /// The first ones may have been lost while the last were waited for: that is not "all".
    fn all_held(self) -> Result<Self> {
        match self.0.iter().find(|guard| !guard.is_held()) {
            None => Ok(self),
            Some(guard) => Err(Error::new(
                ErrorKind::Lost,
                format!("lost {:?} while waiting for the other keys", guard.key()),
            )),
        }
    }
}
