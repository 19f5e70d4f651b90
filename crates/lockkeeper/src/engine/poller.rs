//! Who polls an engine.

use std::cell::Cell;

thread_local! {
    static N_BLOCKS: Cell<u32> = const { Cell::new(0) };
    static IS_UNATTENDED: Cell<bool> = const { Cell::new(false) };
}

/// What an engine may know of whoever polls it, at this moment and on this thread.
///
/// A call changes hands: it may begin in a caller's task and end on the steward's thread. So an engine
/// asks when it matters, inside `poll`, and keeps no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Poller {
    /// The thread stands still until the call is over. An engine must not leave anything to the runtime
    /// that the thread may belong to, because that runtime stands still as well.
    pub is_blocked: bool,
    /// Somebody waits for the answer. Otherwise the call is only looked at now and then: its waker wakes
    /// nobody, and there is no need for haste.
    pub waits: bool,
}

/// Who polls the calling engine right now.
pub fn poller() -> Poller {
    Poller { is_blocked: N_BLOCKS.get() > 0, waits: !IS_UNATTENDED.get() }
}

/// While this lives, the thread stands still until a future is ready.
#[derive(Debug)]
pub(crate) struct Blocks;

impl Blocks {
    pub(crate) fn begin() -> Self {
        N_BLOCKS.set(N_BLOCKS.get() + 1);
        Self
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        N_BLOCKS.set(N_BLOCKS.get() - 1);
    }
}

/// Does something for which nobody waits: no waker that it is given wakes anybody.
pub(crate) fn unattended<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            IS_UNATTENDED.set(self.0);
        }
    }

    let _before = Before(IS_UNATTENDED.replace(true));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poller_is_known_for_as_long_as_it_polls() {
        assert_eq!(poller(), Poller { is_blocked: false, waits: true });
        let outer = Blocks::begin();
        drop(Blocks::begin());
        assert!(poller().is_blocked);
        unattended(|| assert_eq!(poller(), Poller { is_blocked: true, waits: false }));
        assert!(poller().waits);
        drop(outer);
        assert!(!poller().is_blocked);
    }
}
