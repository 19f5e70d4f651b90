//! Claims are other people's code, also when they are dropped: they may come back to us then.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock, mpsc},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    ErrorKind, Guard, LONGEST_TTL, Lock, Locks, Result,
    blocking::block_on,
    clock::Clock,
    engine::{Attempt, Claim, Engine, Moment, Profile, Quick, Released, Request, Standing},
    engines::memory::Memory,
};

use crate::tools::{LONG, SHORT_TTL, until};

/// Does the work on a thread of its own, and tells whether it came to its end.
fn ends(work: impl FnOnce() + Send + 'static) -> bool {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        work();
        tell.send(()).unwrap();
    });
    told.recv_timeout(LONG).is_ok()
}

/// Asks for a lock with a limit, and lets go of it.
fn ask_in_passing(locks: &Locks, key: &str) {
    let lock = locks.lock(key);
    let mut wait = Box::pin(lock.acquire_within(LONG));
    drop(Pin::new(&mut wait).as_mut().poll(&mut Context::from_waker(Waker::noop())));
}

/// The memory engine, with claims that are kept for the next time and ask for another lock of the same locks when
/// they are dropped.
#[derive(Debug)]
struct Reused(Memory, Arc<OnceLock<Locks>>);

impl Engine for Reused {
    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let asks = (request.key.as_str() != IN_PASSING).then(|| Arc::clone(&self.1));
        Box::new(ReusedClaim(self.0.claim(request), asks))
    }
}

const IN_PASSING: &str = "in passing";

#[derive(Debug)]
struct ReusedClaim(Box<dyn Claim>, Option<Arc<OnceLock<Locks>>>);

#[async_trait]
impl Claim for ReusedClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        self.0.attempt(now).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.0.renew(now).await
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.0.release(now).await
    }

    fn quick(&mut self) -> Option<&mut dyn Quick> {
        Some(self)
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        panic!("on purpose")
    }
}

impl Quick for ReusedClaim {
    fn is_reusable(&self) -> bool {
        true
    }
}

impl Drop for ReusedClaim {
    fn drop(&mut self) {
        if let Some(locks) = self.1.as_ref().and_then(|asks| asks.get()) {
            ask_in_passing(locks, IN_PASSING);
        }
    }
}

/// Locks of that engine with a clock made by hand, and the guard that keeps the other lock busy.
fn reused() -> (Locks, Clock, Guard) {
    let (known, clock) = (Arc::default(), Clock::by_hand());
    let engine = Box::new(Reused(Memory::default(), Arc::clone(&known)));
    let locks = Locks::builder().clock(clock.clone()).build(engine).unwrap();
    known.set(locks.clone()).unwrap();
    let busy = block_on(locks.lock(IN_PASSING).ttl(LONGEST_TTL).acquire()).unwrap();
    (locks, clock, busy)
}

fn visit(lock: &Lock) {
    block_on(async { lock.acquire().await.unwrap().release().await }).unwrap();
}

/// Lets some time go by, and the clock's thread look at whatever is due by then.
fn let_time_go_by(locks: &Locks, clock: &Clock) {
    let guard = block_on(locks.lock("clock").ttl(Duration::from_secs(3)).acquire()).unwrap();
    let before = guard.remaining().unwrap();
    clock.advance(Duration::from_secs(2));
    until("the clock to have looked", || guard.remaining().unwrap() >= before);
    block_on(guard.release()).unwrap();
}

/// Uses so many keys that idle lines are forgotten, each with the claim it kept.
fn forget_lines(locks: &Locks) {
    (0..5_000).for_each(|n| visit(&locks.lock(&n.to_string())));
}

#[test]
fn a_claim_may_ask_for_a_lock_when_its_line_is_forgotten() {
    assert!(ends(|| {
        let (locks, clock, _busy) = reused();
        visit(&locks.lock("a").ttl(SHORT_TTL));
        // Only the line itself knows the claim from now on, not the clock.
        let_time_go_by(&locks, &clock);
        forget_lines(&locks);
    }));
}

#[test]
fn a_claim_may_ask_for_a_lock_when_the_clock_forgets_its_line() {
    assert!(ends(|| {
        let (locks, clock, _busy) = reused();
        // The clock is to look at it late, and then early: the late look is not wanted any more.
        visit(&locks.lock("a").ttl(Duration::from_secs(60)));
        visit(&locks.lock("a").ttl(SHORT_TTL));
        forget_lines(&locks);
        let_time_go_by(&locks, &clock);
        (0..10).for_each(|_| let_time_go_by(&locks, &clock));
    }));
}

#[cfg(unix)]
#[test]
fn a_panic_in_a_look_for_the_descriptor_is_an_error_and_the_hold_goes_on() {
    let locks = Locks::with_engine(Reused(Memory::default(), Arc::default())).unwrap();
    let guard = block_on(locks.lock("a").acquire()).unwrap();
    let error = guard.descriptor().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("the engine panicked: on purpose"), "{error}");
    assert!(guard.is_held());
    block_on(guard.release()).unwrap();
}
