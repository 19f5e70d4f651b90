//! Small tools: a mutex that outlives a panic, and a flag that can be awaited.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::{
    fork::Origin,
    linked_queue::{LinkedQueue, Place},
};

/// Locks, also after another thread panicked while holding it: the state behind our mutexes is
/// valid between any two statements, and a lock library must go on releasing.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes a task. Its waker may be anybody's code: a panic in there is no matter of whoever wakes, and has
/// been reported.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// Drops what may be anybody's code: a panic in there is no matter of whoever lets it go.
pub(crate) fn let_go<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// Keeps a waker at a place behind a mutex, which is free afterwards: the waker that was kept before may run
/// code of its own when it is dropped, and that may want the mutex.
pub(crate) fn keep_waker<T>(
    mut guarded: MutexGuard<'_, T>,
    place: impl FnOnce(&mut T) -> &mut Option<Waker>,
    waker: &Waker,
) {
    let kept = place(&mut guarded);
    let before = match kept {
        Some(known) if known.will_wake(waker) => None,
        _ => kept.replace(waker.clone()),
    };
    drop(guarded);
    drop(before);
}

/// Goes up once; any number of tasks may wait for it.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    up: AtomicBool,
    /// Made with the first who waits: most flags have nobody.
    waiting: Mutex<Option<Box<LinkedQueue<Waker>>>>,
}

impl Flag {
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub(crate) fn raise(&self) {
        let mut waiting = {
            let mut waiting = locked(&self.waiting);
            self.up.store(true, Ordering::Release);
            waiting.take()
        };
        while let Some(waker) = waiting.as_mut().and_then(|waiting| waiting.pop_first()) {
            wake(waker);
        }
    }

    pub(crate) fn raised(&self) -> Raised<'_> {
        Raised { flag: self, waits: None }
    }
}

/// Ends when the flag is up.
#[derive(Debug)]
pub(crate) struct Raised<'a> {
    flag: &'a Flag,
    waits: Option<(Place, Origin)>,
}

impl Future for Raised<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.flag.is_up() {
            return Poll::Ready(());
        }
        if self.waits.is_some_and(|(_, origin)| !origin.is_here()) {
            // A forked child: the mutex may be locked for ever, and whoever polls looks where it is.
            return Poll::Ready(());
        }
        let mut waiting = locked(&self.flag.waiting);
        if self.flag.is_up() {
            return Poll::Ready(());
        }
        let queue = waiting.get_or_insert_default();
        let before = self.waits.and_then(|(place, _)| queue.remove(place));
        let place = queue.push_back(context.waker().clone());
        // An old waker may run code of its own when dropped: not under our mutex.
        drop(waiting);
        drop(before);
        self.waits = Some((place, Origin::here()));
        Poll::Pending
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        // In a forked child the mutex may be locked for ever, and nobody raises the flag.
        if let Some((place, origin)) = self.waits
            && origin.is_here()
        {
            let _waker = locked(&self.flag.waiting).as_mut().and_then(|queue| queue.remove(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::poll_once;

    use super::*;
    use crate::tools::block_on::block_on;

    #[test]
    fn those_who_stop_waiting_leave_nothing_behind() {
        let flag = Flag::default();
        for _ in 0..3 {
            assert!(block_on(poll_once(flag.raised())).is_none());
        }
        assert!(locked(&flag.waiting).as_ref().is_some_and(|queue| queue.first().is_none()));
        flag.raise();
        block_on(flag.raised());
    }
}
