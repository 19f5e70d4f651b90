//! One task's time with the lock.

use std::sync::{Arc, Weak};

use crate::{give_back, held::Held, line::Ended};

/// A turn: from the moment the line gives it until it is dropped or ended.
///
/// The guards of one owner share a turn: each has one of these, and the last of them ends it.
// No flags in here: it is moved often, and a lone byte makes every move slower.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) held: Arc<Held>,
    number: u64,
    share: Option<Arc<Share>>,
}

/// What the turns of one owner have in common.
#[derive(Debug)]
pub(crate) struct Share;

/// A turn that others of the same owner may join while it lasts.
#[derive(Debug)]
pub(crate) struct Open {
    number: u64,
    share: Weak<Share>,
}

impl Turn {
    /// The turn with this number, counted from the grant.
    pub(crate) fn new(held: Arc<Held>, number: u64) -> Self {
        Self { held, number, share: None }
    }

    /// Opens the turn to others.
    pub(crate) fn open(&mut self) -> Open {
        let share = self.share.get_or_insert_with(|| Arc::new(Share));
        Open { number: self.number, share: Arc::downgrade(share) }
    }

    pub(crate) fn fence(&self) -> u64 {
        self.held.fence_of(self.number)
    }

    /// Ends the turn, if no other shares it. Doing it again does nothing: by then it is another turn, or
    /// none.
    pub(crate) fn end(&mut self) -> Ended {
        if self.share.take().is_some_and(|share| Arc::into_inner(share).is_none()) {
            // Not ours to end, now or when this is dropped.
            self.number = u64::MAX;
        }
        if self.number == u64::MAX || !self.held.line.house.is_this_process() {
            return Ended::GoesOn;
        }
        self.held.line.end_turn(&self.held, self.number)
    }
}

impl Open {
    /// Another share of the same turn, unless it is over.
    pub(crate) fn join(&self, held: &Arc<Held>) -> Option<Turn> {
        let share = self.share.upgrade()?;
        Some(Turn { held: Arc::clone(held), number: self.number, share: Some(share) })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Ended::Last = self.end() {
            give_back::release_soon(Arc::clone(&self.held));
        }
    }
}
