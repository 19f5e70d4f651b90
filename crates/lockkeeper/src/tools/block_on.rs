//! Waiting for a future without a runtime.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use crate::engine::Blocks;

/// Blocks this thread until the future is ready. Any future will do that needs no particular
/// runtime; all of this crate's are such.
pub fn block_on<F: Future>(future: F) -> F::Output {
    // What is polled may park this thread too, and so use up an unpark that was meant for us: only the
    // flag tells that we were woken.
    struct Alert {
        thread: Thread,
        is_up: AtomicBool,
    }

    impl Wake for Alert {
        fn wake(self: Arc<Self>) {
            self.is_up.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }

    let _blocks = Blocks::begin();
    let mut future = pin!(future);
    // Most of our futures are ready at once, and then no waker is needed.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let alert = Arc::new(Alert { thread: thread::current(), is_up: AtomicBool::new(false) });
    let waker = Arc::clone(&alert).into();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !alert.is_up.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}
