//! The steward looks after every claim from the first attempt to the release.
//!
//! What it does is an *errand*: a future that owns its claim. An errand is driven by the caller
//! who needs it, in the caller's own task, without a hop between threads; when that caller goes
//! away half-way, or others depend on the errand too, it goes on here, on a thread of our
//! own, whatever the user's runtime does.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    thread,
};

use async_executor::Executor;

use crate::{
    blocking::block_on,
    fork::Origin,
    line::Line,
    sync::{Flag, locked},
};

/// A piece of work that owns a claim.
pub(crate) type Errand<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Drives errands on a thread that starts with the first one.
#[derive(Debug)]
pub(crate) struct Steward {
    executor: Arc<Executor<'static>>,
    stop: Arc<Flag>,
    started: Mutex<bool>,
    origin: Origin,
}

impl Steward {
    pub(crate) fn new() -> Self {
        Self {
            executor: Arc::new(Executor::new()),
            stop: Arc::new(Flag::default()),
            started: Mutex::new(false),
            origin: Origin::here(),
        }
    }

    /// Takes an errand over and sees it through.
    pub(crate) fn adopt<T: Send + 'static>(
        &self,
        errand: impl Future<Output = T> + Send + 'static,
    ) {
        self.executor.spawn(errand).detach();
        let mut started = locked(&self.started);
        if *started {
            return;
        }
        let (executor, stop) = (Arc::clone(&self.executor), Arc::clone(&self.stop));
        // A system that cannot spare a thread now may be able to at the next errand.
        *started = thread::Builder::new()
            .name("lockkeeper".into())
            .spawn(move || {
                // A panic ends the errand it came from, not the others.
                let work = || block_on(executor.run(stop.raised()));
                while catch_unwind(AssertUnwindSafe(work)).is_err() {}
            })
            .is_ok();
    }

    /// Does as much of the errand as can be done at once, here; the rest is adopted.
    pub(crate) fn start(&self, mut errand: Errand) {
        if errand.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.adopt(errand);
        }
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        // In a forked child there is no thread to stop, and its mutexes may be locked for ever.
        if self.origin.is_here() {
            self.stop.raise();
        }
    }
}

/// What can be driven by the caller who needs it, and goes on here without that caller.
pub(crate) trait Drivable: Future<Output: Send> + Unpin + Send + 'static {
    fn line(&self) -> &Line;
}

/// Something in the hands of a caller; if the caller lets go of it, the steward adopts it.
pub(crate) struct Driven<D: Drivable>(Option<D>);

impl<D: Drivable> Driven<D> {
    pub(crate) fn new(driven: D) -> Self {
        Self(Some(driven))
    }
}

impl<D: Drivable> Future for Driven<D> {
    type Output = D::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<D::Output> {
        let Some(driven) = &mut self.0 else { return Poll::Pending };
        let answer = std::task::ready!(Pin::new(driven).poll(context));
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl<D: Drivable> Drop for Driven<D> {
    fn drop(&mut self) {
        if let Some(driven) = self.0.take()
            && driven.line().house.is_this_process()
        {
            let house = Arc::clone(&driven.line().house);
            house.steward.adopt(driven);
        }
    }
}
