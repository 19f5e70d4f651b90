//! What several tests need.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lockkeeper::{
    Locks, Result,
    engine::{Attempt, Claim, Engine, Moment, Profile, Released, Request, Standing},
    engines::memory::Memory,
};

/// Long enough that only a hang gets there.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// A ttl short enough to wait for.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(200);

pub(crate) async fn memory() -> Locks {
    Locks::connect("memory:").await.unwrap()
}

/// Waits until it is so, or for very long.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Polls the future once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Ends when it is looked at a second time; wakes nobody for that.
async fn pending_once() {
    let mut is_seen = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut is_seen, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// The memory engine with switches: what a test wants to go wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubled {
    pub(crate) memory: Memory,
    pub(crate) switches: Arc<Switches>,
}

#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// Calls are answered with "unreachable".
    pub(crate) cut_off: AtomicBool,
    /// Attempts are answered with "refused".
    pub(crate) refuses: AtomicBool,
    /// Releases are not answered.
    pub(crate) keeps_releases: AtomicBool,
    /// Renewals say that the lock is lost, when they are looked at again without having been woken.
    pub(crate) loses: AtomicBool,
    pub(crate) n_renewals: AtomicUsize,
    /// Renewals block the thread that asks, for a second each.
    pub(crate) stalls: AtomicBool,
}

impl Troubled {
    pub(crate) fn locks(&self) -> Locks {
        Locks::with_engine(self.clone()).unwrap()
    }

    pub(crate) fn cut_off(&self, cut_off: bool) {
        self.switches.cut_off.store(cut_off, Ordering::SeqCst);
    }
}

impl Engine for Troubled {
    fn profile(&self) -> Profile {
        self.memory.profile()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let switches = Arc::clone(&self.switches);
        Box::new(TroubledClaim { claim: self.memory.claim(request), switches })
    }
}

#[derive(Debug)]
struct TroubledClaim {
    claim: Box<dyn Claim>,
    switches: Arc<Switches>,
}

impl TroubledClaim {
    fn check(&self) -> Result<()> {
        if self.switches.cut_off.load(Ordering::SeqCst) {
            return Err(lockkeeper::Error::unreachable("no answer", "the cable is cut"));
        }
        Ok(())
    }
}

#[async_trait]
impl Claim for TroubledClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        self.check()?;
        if self.switches.refuses.load(Ordering::SeqCst) {
            return Err(lockkeeper::Error::refused("not today"));
        }
        self.claim.attempt(now).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        if self.switches.stalls.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(1));
        }
        self.check()?;
        if self.switches.loses.load(Ordering::SeqCst) {
            self.switches.n_renewals.fetch_add(1, Ordering::SeqCst);
            pending_once().await;
            return Ok(Standing::Lost("on purpose".into()));
        }
        self.claim.renew(now).await
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.check()?;
        while self.switches.keeps_releases.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        self.claim.release(now).await
    }

    async fn changed(&mut self) {
        self.claim.changed().await;
    }
}
