//! What is given back in vain: to an engine at a distance that does not answer any more.

use std::{sync::Arc, time::Duration};

use lockkeeper::{Lock, Locks, clock::Clock};

use crate::{
    distant::{Distant, Service},
    tools::{LONG, until},
};

const TTL: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// An engine that fell silent, and locks on a clock that is moved by hand.
struct Scene {
    distant: Distant,
    clock: Clock,
    locks: Locks,
}

impl Scene {
    fn new() -> Self {
        let (distant, clock) = (Distant::default(), Clock::by_hand());
        let locks =
            distant.locks_with(|builder| builder.clock(clock.clone()).answer_within(ANSWER_WITHIN));
        Self { distant, clock, locks }
    }

    fn lock(&self) -> Lock {
        self.locks.lock("a").ttl(TTL)
    }

    fn fall_silent(&self) {
        let wire = &self.distant.wire;
        for post in [&wire.attempts, &wire.renewals, &wire.releases] {
            post.set(Service::LosesCalls);
        }
    }

    /// How many claims there are: each has the wire in hands, and so do the engine and we.
    fn n_claims(&self) -> usize {
        Arc::strong_count(&self.distant.wire) - 2
    }

    /// Lets time go by until it is so.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        until(what, || {
            self.clock.advance(Duration::from_millis(500));
            is_so()
        });
    }

    /// What is given back is given up when nothing of it can be left, and then nobody does anything for it.
    async fn is_given_up(&self, what: &str) {
        let releases = &self.distant.wire.releases;
        self.until(what, || releases.n_sent() >= 2);
        self.until(what, || self.n_claims() == 0);
        let n_sent = releases.n_sent();
        assert!(n_sent < 100, "{what}: {n_sent} releases were sent");
        // It is not waited for either, though the clock stands still.
        tokio::time::timeout(LONG, self.locks.settle()).await.expect(what);
        self.clock.advance(Duration::from_secs(3_600));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(releases.n_sent(), n_sent, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_failed_attempt_may_have_got_is_given_up_after_its_ttl() {
    let scene = Scene::new();
    scene.fall_silent();
    for waits in [false, true] {
        let lock = scene.lock();
        let fails = tokio::spawn(async move {
            match waits {
                false => lock.try_acquire().await.map(drop),
                true => lock.acquire().await.map(drop),
            }
        });
        scene.until("an error", || fails.is_finished());
        fails.await.unwrap().unwrap_err();
        scene.is_given_up(if waits { "a wait that failed" } else { "a try that failed" }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_cannot_be_given_back_is_given_up_after_its_ttl() {
    for way in ["dropped", "released", "lost"] {
        let scene = Scene::new();
        let guard = scene.lock().acquire().await.unwrap();
        scene.fall_silent();
        match way {
            "dropped" => drop(guard),
            "released" => {
                let release = tokio::spawn(guard.release());
                scene.until("an answer", || release.is_finished());
                release.await.unwrap().unwrap_err();
            }
            _ => scene.until("a loss", || !guard.is_held()),
        }
        scene.is_given_up(way).await;
    }
}

/// The same claim may still be at the engine while its ttl lasts: it is given back when the engine answers again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_still_be_held_is_given_back_when_the_engine_answers_again() {
    let scene = Scene::new();
    let lock = scene.locks.lock("a").ttl(Duration::from_secs(3_600));
    let guard = lock.acquire().await.unwrap();
    scene.fall_silent();
    drop(guard);
    for _ in 0..200 {
        scene.clock.advance(Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    scene.distant.wire.releases.set(Service::Good);
    scene.until("the release", || scene.distant.wire.releases.n_answered() > 0);
    assert!(scene.locks.who("a").await.unwrap().holder.is_none());
}
