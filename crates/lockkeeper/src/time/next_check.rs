//! When the clock's thread looks at a line next: a call may wait in vain, a hold is to be renewed.
//!
//! A key that is wanted again and again is taken and released many times before anything is due. So a
//! line that is entered with the clock stays there, and whoever has something due later does nothing.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::clock::Moment;

/// Something that the clock's thread looks at from time to time: the line of a key.
pub(crate) trait Watched: fmt::Debug + Send + Sync + 'static {
    /// When the next look comes.
    fn next_check(&self) -> &NextCheck;

    /// Does what is due, which must not take long; answers when to look again.
    fn look(self: Arc<Self>, now: Moment) -> Next;
}

/// When to look again at something that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    At(Moment),
    /// Not before somebody who has it in hands just now has it watched again.
    WhenEntered,
    /// There is nothing to look at.
    Never,
}

/// The next look at one line; [`Moment::NEVER`] if it is not entered.
///
/// What is due is set under a mutex, and the look takes that mutex after it [has begun](Self::begins):
/// so either the look sees what was set, or who sets it sees that the look has begun.
#[derive(Debug)]
pub(crate) struct NextCheck(AtomicU64);

impl Default for NextCheck {
    fn default() -> Self {
        Self(AtomicU64::new(Moment::NEVER.as_nanos()))
    }
}

impl NextCheck {
    /// Whether there is a look in time.
    pub(crate) fn comes_by(&self, due: Moment) -> bool {
        self.0.load(Ordering::Acquire) <= due.as_nanos()
    }

    /// Makes this the next look, unless an earlier one is. If so, the line must be entered for it.
    pub(crate) fn bring_forward(&self, due: Moment) -> bool {
        self.0.fetch_min(due.as_nanos(), Ordering::AcqRel) > due.as_nanos()
    }

    /// Begins the look that the line was entered for; not if another came to be the next one.
    pub(crate) fn begins(&self, due: Moment) -> bool {
        let (due, never) = (due.as_nanos(), Moment::NEVER.as_nanos());
        self.0.compare_exchange(due, never, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_the_next_and_the_others_are_none() {
        let (next, at) = (NextCheck::default(), Moment::from_nanos);
        assert!(!next.comes_by(at(50)));
        assert!(next.bring_forward(at(50)));
        assert!(next.comes_by(at(60)) && !next.bring_forward(at(60)));
        assert!(!next.comes_by(at(30)) && next.bring_forward(at(30)));
        assert!(next.begins(at(30)));
        assert!(!next.comes_by(at(50)) && !next.begins(at(50)), "it was given up for the earlier");
        assert!(next.bring_forward(at(50)) && next.begins(at(50)));
        assert!(!next.begins(at(50)), "it was entered twice");
    }
}
