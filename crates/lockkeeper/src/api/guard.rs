//! What the user holds.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use crate::{
    engine::{
        error::{Error, Result},
        event::Loss,
    },
    line::{
        Ended,
        errand::{release::Release, steward::Driven},
        turn::Turn,
    },
    time::clock::Moment,
};

/// Proof that the lock is held, renewed in the background for as long as it lives.
///
/// Dropping it releases the lock: at once where the engine needs no network; otherwise the release
/// is sent from here and confirmed in the background, again and again if need be.
/// [`release`](Self::release) waits until the engine has confirmed it: the way to go just before
/// the program ends, which otherwise may end first and leave the key to its lease. A leaked guard
/// (for example by `std::mem::forget`) is renewed for ever, unless it has a
/// [maximum hold](crate::Lock::maximum_hold).
///
/// After `fork`, the child's copy is inert: it holds nothing and releases nothing.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(Turn);

impl Guard {
    pub(crate) fn new(turn: Turn) -> Self {
        Self(turn)
    }

    /// The key that is locked.
    pub fn key(&self) -> &str {
        self.0.held.line.key().as_str()
    }

    /// The number of this hold, larger than that of every earlier hold of this key.
    ///
    /// Pass it to what the lock protects, and have it refuse anything smaller than it has seen: only
    /// that stops a holder who was paused for so long that another has taken over. 0 means that the
    /// engine has no such numbers (its [profile](crate::Locks::profile) says so), which every such
    /// check refuses.
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// Whether the lock is held now: arithmetic on a clock that counts suspend, no network. The
    /// [maximum hold](crate::Lock::maximum_hold) of this guard counts.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// How long the lock is held for certain if no renewal succeeds any more, and at most until the end of
    /// this guard's [maximum hold](crate::Lock::maximum_hold): zero when it is lost, `None` when it does not
    /// end by time.
    pub fn remaining(&self) -> Option<Duration> {
        if !self.is_held() {
            return Some(Duration::ZERO);
        }
        let now = self.0.held.line.core.clock.now();
        match self.0.ends_at() {
            Moment::NEVER => None,
            ends_at => Some(ends_at.since(now)),
        }
    }

    /// Ends when the lock is lost, and says why. Never ends if it is not.
    ///
    /// Every poll looks at the clock: after a pause of the process, a lock that ran out meanwhile is told as
    /// lost at once.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        self.0.lost().await
    }

    /// Runs the work, and stops it when the lock is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when the lock was lost before the work was done; the work is dropped then. The same
    /// when the work is done but the lock ran out meanwhile, for example because the process was stopped.
    ///
    /// # Cancel safety
    /// Dropping this future drops the work.
    pub async fn protect<F: Future>(&self, work: F) -> Result<F::Output> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        poll_fn(|context| {
            if let Poll::Ready(loss) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(&loss)));
            }
            let answer = ready!(work.as_mut().poll(context));
            // The process may have been stopped half-way: what is done by then was not protected.
            Poll::Ready(self.0.loss().map_or(Ok(answer), |loss| Err(self.lost_error(&loss))))
        })
        .await
    }

    /// Releases the lock and waits until the engine has confirmed it.
    ///
    /// Other guards of the same [`Owner`](crate::Owner) go on holding it. If another task of this process waits
    /// for the key, the lock is passed on to that task, and the engine is not asked: a loss that only the
    /// engine knows of is told to the next guard then.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if it was lost before, also if only the engine knows that: then it had
    /// another holder, or none, and what was done under the lock may not have been done alone. (The file engine
    /// does not look again when a hold of less than about 100 ms is released; its page says why.)
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if the engine did not answer, in which case the release goes on in
    /// the background. Either way the hold is over.
    ///
    /// # Cancel safety
    /// The lock is released even if this future is dropped.
    pub async fn release(self) -> Result<()> {
        let error = self.0.loss().map(|loss| self.lost_error(&loss));
        let mut turn = self.0;
        let answer = match turn.end() {
            Ended::Last => Driven::new(Release::begin(Arc::clone(&turn.held))).await,
            Ended::GoesOn => Ok(()),
            Ended::Lost => Err(turn.held.lost_error()),
        };
        error.map_or(answer, Err)
    }

    /// A duplicate of the descriptor that holds the lock in the kernel, where the engine has one
    /// (the file engine): while any copy is open, in this process or another, the lock outlives a holder
    /// that dies.
    ///
    /// A copy does not outlive the guard. When the guard is dropped or released, the lock is unlocked for all
    /// copies at once, and the ones that are still open hold nothing any more. So a process that is to keep the
    /// lock by a copy needs a holder that is killed, or that keeps the guard for as long.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if it is not held any more, [`ErrorKind::Refused`](crate::ErrorKind::Refused) in a forked child,
    /// [`ErrorKind::Other`](crate::ErrorKind::Other) if it is being renewed right now (ask again in a moment), if the process has no
    /// descriptor to spare, or if the engine panicked; the lock is held all the same.
    #[cfg(unix)]
    pub fn descriptor(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        self.0.held.descriptor()
    }

    fn lost_error(&self, loss: &Loss) -> Error {
        self.0.held.line.lost_error(loss)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.key())
            .field("fence", &self.fence())
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}
