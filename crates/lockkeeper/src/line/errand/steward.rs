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
    engine::error::{Call, Error, Result},
    line::Line,
    tools::block_on::block_on,
    tools::{
        fork::{self, Origin},
        sync::{Flag, locked},
    },
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

    /// Makes sure that there is a thread to see errands through. Once there is one, it stays.
    ///
    /// # Errors
    /// If the system has none to spare; it may have at the next errand.
    pub(crate) fn ready(&self) -> Result<()> {
        let mut started = locked(&self.started);
        if *started {
            return Ok(());
        }
        let (executor, stop) = (Arc::clone(&self.executor), Arc::clone(&self.stop));
        let spawned = thread::Builder::new().name("lockkeeper".into()).spawn(move || {
            // A panic ends the errand it came from, not the others.
            let work = || block_on(executor.run(stop.raised()));
            while catch_unwind(AssertUnwindSafe(work)).is_err() {}
        });
        spawned.map_err(|source| Error::no_thread("the thread that looks after locks", source))?;
        *started = true;
        Ok(())
    }

    /// Takes an errand over and sees it through.
    ///
    /// # Errors
    /// If there is no thread for that. The errand is dropped then, and its claim frees itself.
    pub(crate) fn adopt<T: Send + 'static>(
        &self,
        errand: impl Future<Output = T> + Send + 'static,
    ) -> Result<()> {
        self.ready()?;
        self.executor.spawn(errand).detach();
        Ok(())
    }

    /// The same for an errand that nobody depends on.
    pub(crate) fn adopt_if_ready(&self, errand: impl Future<Output = ()> + Send + 'static) {
        // Nobody is left to be told, and a claim that is dropped frees itself within its lease.
        drop(self.adopt(errand));
    }
}

impl Line {
    /// Has the steward see through what is done for this line. If there is no thread for that, everyone in line
    /// is told so.
    pub(crate) fn entrust<T: Send + 'static>(
        &self,
        errand: impl Future<Output = T> + Send + 'static,
    ) {
        if let Err(error) = self.core.steward.adopt(errand) {
            self.give_up(&self.core.error_at(error, self.key(), Call::Acquire));
        }
    }

    /// Does as much of that as can be done at once, here; the rest is the steward's.
    pub(crate) fn start(&self, mut errand: Errand) {
        if errand.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.entrust(errand);
        }
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        // In a forked child there is no thread to stop, and its mutexes may be locked for ever.
        match self.origin.is_here() {
            true => self.stop.raise(),
            false => fork::leave(Arc::clone(&self.executor)),
        }
    }
}

/// What can be driven by the caller who needs it, and goes on here without that caller.
pub(crate) trait Drivable: Future<Output: Send> + Unpin + Send + 'static {
    fn line(&self) -> &Line;

    /// The answer in a forked child, where it is the parent's.
    fn refusal(&self) -> Self::Output;
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
        if !driven.line().core.is_this_process() {
            let refusal = driven.refusal();
            fork::leave(self.0.take());
            return Poll::Ready(refusal);
        }
        let answer = std::task::ready!(Pin::new(driven).poll(context));
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl<D: Drivable> Drop for Driven<D> {
    fn drop(&mut self) {
        let Some(driven) = self.0.take() else { return };
        let line = driven.line().clone();
        match line.core.is_this_process() {
            true => line.entrust(driven),
            // A forked child: what it has in hands is the parent's.
            false => fork::leave(driven),
        }
    }
}
