//! The threads that wait: each serves one claim at a time, and one of them may rest in between.

use std::{
    fmt, io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{super::interrupt::Interrupt, wait::Wait};
use crate::sync::locked;

/// So many threads may wait at once; further claims are asked now and then.
pub(in super::super) const MAX_WAITING_THREADS: usize = 256;

/// Enough for the lock calls and for whatever wakes a task.
const STACK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(in super::super) struct Crew(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    n_permits: AtomicUsize,
    rest: Mutex<Rest>,
    bell: Condvar,
}

/// The resting place, with room for one.
#[derive(Debug, Default)]
struct Rest {
    is_taken: bool,
    next: Option<Arc<Wait>>,
    is_closed: bool,
}

/// The right to one waiting thread.
pub(in super::super) struct Permit {
    shared: Arc<Shared>,
    interrupt: &'static Interrupt,
}

impl Crew {
    pub(in super::super) fn new() -> Self {
        Self(Arc::default())
    }

    /// `None` if there are enough threads already, or if a wait could not be stopped because
    /// every real-time signal is in use.
    pub(in super::super) fn permit(&self) -> Option<Permit> {
        let interrupt = Interrupt::get()?;
        let more = |n_permits| (n_permits < MAX_WAITING_THREADS).then_some(n_permits + 1);
        self.0.n_permits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Permit { shared: Arc::clone(&self.0), interrupt })
    }

    /// Lets a thread serve this wait.
    pub(in super::super) fn serve(
        &self,
        wait: &Arc<Wait>,
        interrupt: &'static Interrupt,
    ) -> io::Result<()> {
        {
            let mut rest = locked(&self.0.rest);
            if rest.is_taken && rest.next.is_none() {
                rest.next = Some(Arc::clone(wait));
                self.0.bell.notify_one();
                return Ok(());
            }
        }
        let (shared, wait) = (Arc::clone(&self.0), Arc::clone(wait));
        thread::Builder::new()
            .name("lockkeeper-wait".into())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work(wait, interrupt))
            .map(drop)
    }

    /// Sends the resting thread home; those at work follow when they are done.
    pub(in super::super) fn close(&self) {
        locked(&self.0.rest).is_closed = true;
        self.0.bell.notify_all();
    }
}

impl Shared {
    fn work(&self, first: Arc<Wait>, interrupt: &Interrupt) {
        let thread = interrupt.prepare_thread();
        let mut next = Some(first);
        while let Some(wait) = next.take() {
            wait.serve(thread);
            // The wait has a descriptor, which must not stay open while we rest.
            drop(wait);
            next = self.rest();
        }
    }

    fn rest(&self) -> Option<Arc<Wait>> {
        let mut rest = locked(&self.rest);
        if rest.is_taken {
            return None;
        }
        rest.is_taken = true;
        while rest.next.is_none() && !rest.is_closed {
            rest = self.bell.wait(rest).unwrap_or_else(PoisonError::into_inner);
        }
        rest.is_taken = false;
        rest.next.take()
    }
}

impl Permit {
    pub(in super::super) fn interrupt(&self) -> &'static Interrupt {
        self.interrupt
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.n_permits.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}
