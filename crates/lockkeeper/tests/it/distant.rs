//! An engine at a distance: what it is asked is done at once, the answer is never there when
//! first looked for, and may be kept back.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread::{self, ThreadId},
};

use async_trait::async_trait;
use lockkeeper::{
    Key, Locks, LocksBuilder, Result,
    engine::{
        Answers, Attempt, Claim, Engine, Inspector, Listed, Moment, Profile, Reach, Released,
        Request, Standing, Who,
    },
    engines::memory::Memory,
};

use crate::tools::LONG;

#[derive(Clone, Debug, Default)]
pub(crate) struct Distant {
    pub(crate) memory: Memory,
    pub(crate) wire: Arc<Wire>,
}

/// What happens between us and the engine.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) attempts: Post,
    pub(crate) renewals: Post,
    pub(crate) releases: Post,
    pub(crate) questions: Post,
}

/// The post of one kind of call.
#[derive(Debug, Default)]
pub(crate) struct Post {
    service: Mutex<Service>,
    sent_by: Mutex<Vec<ThreadId>>,
    n_answered: AtomicUsize,
    n_under_way: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Service {
    #[default]
    Good,
    /// The call does not arrive.
    LosesCalls,
    /// The call arrives and is done; the answer is lost.
    LosesAnswers,
    /// The call arrives and is done; the answer comes when the service changes.
    KeepsAnswers,
}

impl Distant {
    /// Locks that would wait very long for an answer: a busy machine is no trouble of the wire.
    pub(crate) fn locks(&self) -> Locks {
        self.locks_with(|builder| builder.answer_within(LONG))
    }

    pub(crate) fn locks_with(&self, change: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Locks {
        change(Locks::builder()).build(Box::new(self.clone())).unwrap()
    }
}

impl Post {
    pub(crate) fn set(&self, service: Service) {
        *self.service.lock().unwrap() = service;
    }

    pub(crate) fn n_sent(&self) -> usize {
        self.sent_by.lock().unwrap().len()
    }

    /// The threads that sent, one entry per call.
    pub(crate) fn sent_by(&self) -> Vec<ThreadId> {
        self.sent_by.lock().unwrap().clone()
    }

    /// How many calls have been answered and the answer seen.
    pub(crate) fn n_answered(&self) -> usize {
        self.n_answered.load(Ordering::SeqCst)
    }

    /// How many calls somebody still has in hands.
    pub(crate) fn n_under_way(&self) -> usize {
        self.n_under_way.load(Ordering::SeqCst)
    }

    async fn carry<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let service = *self.service.lock().unwrap();
        self.sent_by.lock().unwrap().push(thread::current().id());
        let _under_way = UnderWay::new(&self.n_under_way);
        if service == Service::LosesCalls {
            return std::future::pending().await;
        }
        let answer = call.await;
        if service == Service::LosesAnswers {
            return std::future::pending().await;
        }
        let mut is_there = false;
        std::future::poll_fn(|context| {
            let is_kept = *self.service.lock().unwrap() == Service::KeepsAnswers;
            if !is_kept && std::mem::replace(&mut is_there, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.n_answered.fetch_add(1, Ordering::SeqCst);
        answer
    }
}

struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(n: &'a AtomicUsize) -> Self {
        n.fetch_add(1, Ordering::SeqCst);
        Self(n)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Engine for Distant {
    fn profile(&self) -> Profile {
        let mut profile = self.memory.profile();
        (profile.answers, profile.reach) = (Answers::Later, Reach::Network);
        profile.engine = "distant";
        profile
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(DistantClaim { claim: self.memory.claim(request), wire: Arc::clone(&self.wire) })
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

#[derive(Debug)]
struct DistantClaim {
    claim: Box<dyn Claim>,
    wire: Arc<Wire>,
}

#[async_trait]
impl Claim for DistantClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        self.wire.attempts.carry(self.claim.attempt(now)).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.wire.renewals.carry(self.claim.renew(now)).await
    }

    fn set_ttl(&mut self, ttl: std::time::Duration) -> bool {
        self.claim.set_ttl(ttl)
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.wire.releases.carry(self.claim.release(now)).await
    }

    async fn changed(&mut self) {
        self.claim.changed().await;
    }
}

#[async_trait]
impl Inspector for Distant {
    async fn who(&self, key: &Key, now: Moment) -> Result<Who> {
        self.wire.questions.carry(self.memory.who(key, now)).await
    }

    async fn list(&self, now: Moment) -> Result<Vec<Listed>> {
        self.wire.questions.carry(self.memory.list(now)).await
    }

    async fn tidy(&self, idle: std::time::Duration, now: Moment) -> Result<usize> {
        self.wire.questions.carry(self.memory.tidy(idle, now)).await
    }
}
