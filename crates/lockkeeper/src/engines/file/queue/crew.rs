//! The threads that wait: each serves one claim at a time, and one of them may rest in between. Claims
//! that find no thread ask now and then.

use std::{
    fmt, io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::wait::Wait;
use crate::{engines::file::interrupt::Interrupt, tools::sync::locked};

/// So many threads may wait at once: blocked in the kernel they use no processor time, but some memory.
/// Further claims ask now and then.
const MAX_WAITING_THREADS: usize = 1_024;

/// How often a claim asks that no thread waits for. Many ask less often, so that all of them together
/// never ask more than 2,000 times a second.
const ASK_EVERY: Duration = Duration::from_millis(20);
const ASK_EVERY_FOR_EACH: Duration = Duration::from_micros(500);

/// Enough for the lock calls and for whatever wakes a task.
const STACK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(in super::super) struct Crew(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    n_permits: AtomicUsize,
    n_asking: AtomicUsize,
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

/// How a claim in line comes to know of its turn.
#[derive(Debug)]
pub(in super::super) enum Way {
    /// A thread waits for it.
    Thread(Permit),
    /// It asks, until a thread can be had.
    Asking(Asking),
    /// It asks to the end: no thread could be started for it.
    Alone(Asking),
}

/// The right to one waiting thread.
pub(in super::super) struct Permit {
    shared: Arc<Shared>,
    interrupt: &'static Interrupt,
}

/// One claim that asks.
pub(in super::super) struct Asking {
    shared: Arc<Shared>,
}

impl Way {
    /// How soon to ask; `None` if there will be word.
    pub(in super::super) fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Thread(_) => None,
            Self::Asking(asking) | Self::Alone(asking) => Some(asking.pause()),
        }
    }
}

impl Crew {
    pub(in super::super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The way for a claim that came just now, or that has been going this way.
    pub(in super::super) fn way(&self, so_far: Option<Way>) -> Way {
        match so_far {
            Some(way @ (Way::Thread(_) | Way::Alone(_))) => way,
            so_far => match (self.permit(), so_far) {
                (Some(permit), _) => Way::Thread(permit),
                (None, Some(way)) => way,
                (None, None) => Way::Asking(self.asking()),
            },
        }
    }

    /// The way for a claim for which no thread could be started.
    pub(in super::super) fn alone(&self) -> Way {
        Way::Alone(self.asking())
    }

    fn asking(&self) -> Asking {
        self.0.n_asking.fetch_add(1, Ordering::Relaxed);
        Asking { shared: Arc::clone(&self.0) }
    }

    /// `None` if there are enough threads already, or if a wait could not be stopped because
    /// every real-time signal is in use.
    fn permit(&self) -> Option<Permit> {
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

impl Asking {
    fn pause(&self) -> Duration {
        let n_asking = self.shared.n_asking.load(Ordering::Relaxed);
        let n_asking = u32::try_from(n_asking).unwrap_or(u32::MAX);
        ASK_EVERY.max(ASK_EVERY_FOR_EACH.saturating_mul(n_asking))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.shared.n_asking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_find_no_thread_ask_less_often_the_more_they_are() {
        let crew = Crew::new();
        let mut ways: Vec<Way> = (0..MAX_WAITING_THREADS).map(|_| crew.way(None)).collect();
        assert!(ways.iter().all(|way| way.retry_in().is_none()), "all have a thread");
        let first = crew.way(None);
        assert_eq!(first.retry_in(), Some(ASK_EVERY));
        let more: Vec<Way> = (0..999).map(|_| crew.way(None)).collect();
        assert_eq!(first.retry_in(), Some(Duration::from_millis(500)));
        drop(more);
        let first = crew.way(Some(first));
        assert_eq!(first.retry_in(), Some(ASK_EVERY));
        ways.pop();
        assert_eq!(crew.way(Some(first)).retry_in(), None, "a thread can be had");
    }

    #[test]
    fn a_claim_whose_thread_could_not_be_started_asks_and_tries_no_other() {
        let crew = Crew::new();
        assert!(crew.way(Some(crew.alone())).retry_in().is_some());
    }
}
