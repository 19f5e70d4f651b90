//! One task's time with the lock.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

use super::{Ended, errand::give_back, held::Held};
use crate::{engine::event::Loss, time::clock::Moment};

/// A turn: from the moment the line gives it until it is dropped or ended.
///
/// The guards of one owner share a turn: each has one of these, and the last of them ends it.
// No flags in here: it is moved often, and a lone byte makes every move slower.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) held: Arc<Held>,
    number: u64,
    /// The end of the maximum hold of this guard.
    ends_at: Moment,
}

/// The number of a turn that was ended: it is not ended again.
const ENDED: u64 = u64::MAX;

impl Turn {
    /// The turn with this number, counted from the grant.
    pub(crate) fn new(held: Arc<Held>, number: u64, ends_at: Moment) -> Self {
        Self { held, number, ends_at }
    }

    pub(crate) fn fence(&self) -> u64 {
        self.held.fence_of(self.number)
    }

    /// Until when it lasts if no renewal succeeds any more.
    pub(crate) fn ends_at(&self) -> Moment {
        self.held.ends_at().min(self.ends_at)
    }

    /// Whether the lock is held now; the clock is only read if the hold ends by time.
    pub(crate) fn is_held(&self) -> bool {
        let core = &self.held.line.core;
        if !core.is_this_process() || self.held.is_lost() {
            return false;
        }
        // First the clock, then the end, which a renewal may move meanwhile.
        self.ends_at() == Moment::NEVER || core.clock.now() < self.ends_at()
    }

    /// Why the lock is not held any more, if it is not: whatever ended it first.
    pub(crate) fn loss(&self) -> Option<Loss> {
        if self.is_held() {
            return None;
        }
        let (loss, lost_at) = self.held.loss();
        let is_over = self.ends_at != Moment::NEVER && self.ends_at <= lost_at;
        Some(if is_over { Loss::MaximumHold } else { loss })
    }

    /// Ends when the lock is lost.
    pub(crate) async fn lost(&self) -> Loss {
        let mut told = pin!(self.held.told());
        // Others of the same owner may go on when this guard is at its end.
        let mut maximum = self.held.line.core.alarms.alarm(self.ends_at);
        poll_fn(|context| {
            // The clock decides, also when nobody has looked at it in time.
            if let Some(loss) = self.loss() {
                return Poll::Ready(loss);
            }
            let is_told = told.as_mut().poll(context).is_ready();
            if is_told || maximum.poll(context.waker()).is_ready() {
                return Poll::Ready(self.loss().unwrap_or(Loss::Expired));
            }
            Poll::Pending
        })
        .await
    }

    /// Ends the turn, if no other guard shares it. Doing it again does nothing.
    pub(crate) fn end(&mut self) -> Ended {
        let number = std::mem::replace(&mut self.number, ENDED);
        if number == ENDED || !self.held.line.core.is_this_process() {
            return Ended::GoesOn;
        }
        self.held.line.end_turn(&self.held, self.ends_at)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Ended::Last = self.end() {
            give_back::release_soon(Arc::clone(&self.held));
        }
    }
}
