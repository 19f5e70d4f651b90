//! An engine whose calls panic when that is planned.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    Locks, Result,
    engine::{
        Answers, Attempt, Claim, Engine, Moment, Profile, Quick, Released, Request, Standing,
    },
    engines::memory::Memory,
};

use crate::tools::LONG;

/// The memory engine; the calls that are counted down to zero panic.
#[derive(Clone, Debug, Default)]
pub(super) struct Panicky {
    pub(super) memory: Memory,
    pub(super) is_distant: bool,
    /// Whether it has a quick way, which never does.
    pub(super) is_quick: bool,
    /// Whether its claims begin again.
    pub(super) is_reused: bool,
    pub(super) planned: Arc<Planned>,
}

/// How many calls of each kind are still to panic.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) claims: AtomicUsize,
    pub(super) attempts: AtomicUsize,
    pub(super) renewals: AtomicUsize,
    pub(super) releases: AtomicUsize,
    pub(super) changes: AtomicUsize,
    pub(super) sendings: AtomicUsize,
    pub(super) polls: AtomicUsize,
    pub(super) questions: AtomicUsize,
    pub(super) drops: AtomicUsize,
    /// How many claims have begun again.
    pub(super) n_begun_again: AtomicUsize,
}

fn panic_if_planned(n: &AtomicUsize) {
    let is_planned = n.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    assert!(is_planned.is_err(), "on purpose");
}

/// Waits until the panics have come that were planned.
pub(super) async fn until_none(planned: &AtomicUsize) {
    let come = async {
        while planned.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, come).await.expect("the panic");
}

impl Panicky {
    /// One that answers from here, and one that answers later.
    pub(super) fn both() -> [Self; 2] {
        [false, true].map(|is_distant| Self { is_distant, ..Self::default() })
    }

    pub(super) fn locks(&self) -> Locks {
        Locks::builder().answer_within(LONG).build(Box::new(self.clone())).unwrap()
    }
}

impl Engine for Panicky {
    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
        profile.answers = if self.is_distant { Answers::Later } else { Answers::AtOnce };
        profile
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        panic_if_planned(&self.planned.claims);
        Box::new(PanickyClaim { claim: self.memory.claim(request), of: self.clone() })
    }
}

#[derive(Debug)]
struct PanickyClaim {
    claim: Box<dyn Claim>,
    of: Panicky,
}

impl Drop for PanickyClaim {
    fn drop(&mut self) {
        panic_if_planned(&self.of.planned.drops);
    }
}

#[async_trait]
impl Claim for PanickyClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        panic_if_planned(&self.of.planned.attempts);
        self.claim.attempt(now).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        panic_if_planned(&self.of.planned.renewals);
        self.claim.renew(now).await
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        panic_if_planned(&self.of.planned.releases);
        self.claim.release(now).await
    }

    async fn changed(&mut self) {
        panic_if_planned(&self.of.planned.changes);
        self.claim.changed().await;
    }

    fn quick(&mut self) -> Option<&mut dyn Quick> {
        Some(self)
    }
}

impl Quick for PanickyClaim {
    fn send_attempt(&mut self, _now: Moment) -> bool {
        panic_if_planned(&self.of.planned.sendings);
        self.of.is_quick
    }

    fn poll_attempt(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Attempt>>> {
        panic_if_planned(&self.of.planned.polls);
        Poll::Ready(Ok(None))
    }

    fn send_release(&mut self, _now: Moment) -> bool {
        panic_if_planned(&self.of.planned.sendings);
        self.of.is_quick
    }

    fn poll_release(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Released>>> {
        panic_if_planned(&self.of.planned.polls);
        Poll::Ready(Ok(None))
    }

    fn is_reusable(&self) -> bool {
        panic_if_planned(&self.of.planned.questions);
        self.of.is_reused
    }

    fn reuse(&mut self, request: Request) -> Result<(), Request> {
        self.of.planned.n_begun_again.fetch_add(1, Ordering::SeqCst);
        self.claim = self.of.memory.claim(request);
        Ok(())
    }
}
