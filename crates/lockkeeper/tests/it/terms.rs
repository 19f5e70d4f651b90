//! Tasks of one process that want the same key on different terms.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    ErrorKind, Guard, Key, Lock, Locks, Result,
    clock::Clock,
    engine::{Attempt, Claim, Engine, Moment, Profile, Released, Request, Standing},
    engines::memory::Memory,
    event::Event,
};
use tokio::task::JoinSet;

use crate::{
    distant::{Distant, Service},
    tools::{LONG, poll_once},
};

/// How many of 160 requests are served. They are those of four processes, as far as the engine can tell,
/// with four tasks each, which wait for at most 200 ms, while another process takes the key for longer than
/// that again and again: whenever the key is free, a claim is granted whose task has left.
async fn n_served(open: impl AsyncFn() -> Locks, change: fn(Lock, u32) -> Lock) -> usize {
    let busy = open().await.lock("a");
    let holds = tokio::spawn(async move {
        loop {
            let _guard = busy.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    let mut tasks = JoinSet::new();
    for process in 0..4 {
        let locks = open().await;
        for task in 0..4 {
            let lock = change(locks.lock("a"), 4 * process + task);
            tasks.spawn(async move {
                let mut n = 0;
                for _ in 0..10 {
                    if let Ok(guard) = lock.acquire_within(Duration::from_millis(200)).await {
                        n += 1;
                        guard.release().await.unwrap();
                    }
                }
                n
            });
        }
    }
    let n_served = tasks.join_all().await.into_iter().sum();
    holds.abort();
    n_served
}

/// Tasks with terms of their own are served about as well as tasks with equal ones.
async fn assert_nobody_starves(open: impl AsyncFn() -> Locks) {
    let equal = n_served(&open, |lock, _| lock).await;
    let labels = n_served(&open, |lock, n| lock.label(&format!("task {n}"))).await;
    let orders = n_served(&open, |lock, n| if n % 2 == 0 { lock } else { lock.barging() }).await;
    let ttls = n_served(&open, |lock, n| lock.ttl(Duration::from_secs(10 + u64::from(n)))).await;
    let served = format!("of 160: equal {equal}, labels {labels}, orders {orders}, ttls {ttls}");
    assert!(equal > 0 && 3 * labels.min(orders).min(ttls) >= equal, "served {served}");
}

#[tokio::test]
async fn different_terms_starve_nobody_on_files() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    assert_nobody_starves(async || Locks::connect(&url).await.unwrap()).await;
}

#[tokio::test]
async fn different_terms_starve_nobody_in_memory() {
    let memory = Memory::default();
    assert_nobody_starves(async || Locks::with_engine(memory.clone()).unwrap()).await;
}

#[tokio::test]
async fn different_terms_starve_nobody_at_a_distance() {
    let distant = Distant::default();
    assert_nobody_starves(async || distant.locks()).await;
}

/// The memory engine, but its claims cannot take another ttl. By this clock, every attempt takes a second.
#[derive(Debug)]
struct Stubborn(Memory, Clock);

#[derive(Debug)]
struct StubbornClaim(Box<dyn Claim>, Clock);

impl Engine for Stubborn {
    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(StubbornClaim(self.0.claim(request), self.1.clone()))
    }
}

#[async_trait]
impl Claim for StubbornClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        let answer = self.0.attempt(now).await;
        self.1.advance(Duration::from_secs(1));
        answer
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.0.renew(now).await
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.0.release(now).await
    }

    async fn changed(&mut self) {
        self.0.changed().await;
    }
}

const SHORTER: Duration = Duration::from_secs(5);
const LONGER: Duration = Duration::from_secs(60);

/// Locks by how their claims take another ttl, and others at the same place.
fn each_way() -> [(&'static str, Locks, Locks); 3] {
    let memory = Memory::default();
    let distant = Distant { memory: memory.clone(), ..Distant::default() };
    [
        ("at once", Locks::with_engine(memory.clone())),
        ("later", Ok(distant.locks())),
        ("not at all", Locks::with_engine(Stubborn(memory.clone(), Clock::default()))),
    ]
    .map(|(way, locks)| (way, locks.unwrap(), Locks::with_engine(memory.clone()).unwrap()))
}

async fn turn(wait: impl Future<Output = Result<Guard>>) -> Guard {
    tokio::time::timeout(LONG, wait).await.expect("a turn").unwrap()
}

fn assert_lasts_for(ttl: Duration, guard: &Guard, way: &str) {
    let remaining = guard.remaining().unwrap();
    let is_right = ttl / 2 < remaining && remaining <= ttl;
    assert!(is_right, "{way}: {remaining:?} of a ttl of {ttl:?}");
}

#[tokio::test]
async fn a_turn_has_the_ttl_that_its_task_asked_for() {
    for (way, locks, elsewhere) in each_way() {
        for (leaves, stays) in [(SHORTER, LONGER), (LONGER, SHORTER)] {
            let held = elsewhere.lock("a").acquire().await.unwrap();
            let (first, second) = (locks.lock("a").ttl(leaves), locks.lock("a").ttl(stays));
            let (mut first, mut second) = (Box::pin(first.acquire()), Box::pin(second.acquire()));
            assert!(poll_once(&mut first).await.is_none());
            assert!(poll_once(&mut second).await.is_none());
            // The claim was made for the first one, who leaves.
            drop(first);
            held.release().await.unwrap();
            let guard = turn(second).await;
            assert_lasts_for(stays, &guard, way);
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_lock_is_passed_on_with_the_ttl_that_the_next_task_asked_for() {
    for (way, locks, _) in each_way() {
        for (before, after) in [(SHORTER, LONGER), (LONGER, SHORTER)] {
            let (first, second) = (locks.lock("a").ttl(before), locks.lock("a").ttl(after));
            let first = first.acquire().await.unwrap();
            let mut second = Box::pin(second.acquire());
            assert!(poll_once(&mut second).await.is_none());
            let fence = first.fence();
            first.release().await.unwrap();
            let guard = turn(second).await;
            assert_lasts_for(after, &guard, way);
            let is_passed_on = guard.fence() == fence + 1;
            assert_eq!(
                is_passed_on,
                way != "not at all",
                "{way}: after {fence}, {}",
                guard.fence()
            );
            guard.release().await.unwrap();
            assert!(locks.lock("a").acquire_within(LONG).await.is_ok());
        }
    }
}

#[tokio::test]
async fn a_lock_that_cannot_be_passed_on_with_another_ttl_is_asked_for_anew() {
    let distant = Distant::default();
    let locks = distant.locks_with(|builder| builder.answer_within(Duration::from_millis(100)));
    let first = locks.lock("a").ttl(SHORTER).acquire().await.unwrap();
    let second = locks.lock("a").ttl(LONGER);
    let mut second = Box::pin(second.acquire());
    assert!(poll_once(&mut second).await.is_none());
    let fence = first.fence();
    distant.wire.renewals.set(Service::LosesCalls);
    first.release().await.unwrap();
    let guard = turn(second).await;
    assert!(guard.fence() > fence + 1, "after {fence}, {}", guard.fence());
    assert_lasts_for(LONGER, &guard, "asked anew");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_loss_that_shows_when_the_lock_is_passed_on_is_told() {
    let memory = Memory::default();
    let losses = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&losses);
    let observer = move |event: &Event<'_>| {
        if let Event::Lost { loss, .. } = event {
            heard.lock().unwrap().push(loss.to_string());
        }
    };
    let locks = Locks::builder().observe(observer).build(Box::new(memory.clone())).unwrap();
    let first = locks.lock("a").ttl(SHORTER).acquire().await.unwrap();
    let second = locks.lock("a").ttl(LONGER);
    let mut second = Box::pin(second.acquire());
    assert!(poll_once(&mut second).await.is_none());
    memory.take_away(&Key::new("a").unwrap());
    first.release().await.unwrap();
    turn(second).await.release().await.unwrap();
    assert_eq!(losses.lock().unwrap().len(), 1, "{losses:?}");
}

#[tokio::test]
async fn a_ttl_too_short_for_the_engine_keeps_nobody_behind_it() {
    let (memory, clock) = (Memory::default(), Clock::by_hand());
    let with_clock = || Locks::builder().clock(clock.clone());
    let elsewhere = with_clock().build(Box::new(memory.clone())).unwrap();
    let locks = with_clock().build(Box::new(Stubborn(memory, clock.clone()))).unwrap();
    let held = elsewhere.lock("a").ttl(LONGER).acquire().await.unwrap();
    let (first, second) =
        (locks.lock("a").ttl(Duration::from_millis(150)), locks.lock("a").ttl(LONGER));
    let (mut first, mut second) = (Box::pin(first.acquire()), Box::pin(second.acquire()));
    assert!(poll_once(&mut first).await.is_none());
    assert!(poll_once(&mut second).await.is_none());
    drop(held);
    let guard = turn(second).await;
    assert!(guard.is_held());
    let error = tokio::time::timeout(LONG, first).await.expect("an answer").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("longer than the ttl of 150ms"), "{error}");
}
