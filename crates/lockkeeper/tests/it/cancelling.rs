//! Dropping any future at any point leaves nothing behind.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use lockkeeper::{ErrorKind, Locks, blocking, clock::Clock};

use crate::{
    distant::{Distant, Service},
    tools::{LONG, Troubled, memory, poll_once, until},
};

/// Polls the future a random number of times, then drops it.
pub(crate) async fn drop_somewhere<F: Future>(future: F, n_polls: u32) {
    let mut future = pin!(future);
    let mut left = n_polls;
    std::future::poll_fn(|context| {
        if left == 0 || future.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        // Polled again at once: a busy caller, who gives up wherever it happens to be.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(crate) async fn one_visit(locks: &Locks, n_inside: &AtomicUsize, key: &str, seed: u64) {
    let lock = locks.lock(key);
    let guard = match seed % 4 {
        0 => lock.try_acquire().await.unwrap(),
        1 => lock.acquire_within(Duration::from_micros(seed % 300)).await.ok(),
        _ => Some(lock.acquire().await.unwrap()),
    };
    let Some(guard) = guard else { return };
    struct Inside<'a>(&'a AtomicUsize);
    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    assert_eq!(n_inside.fetch_add(1, Ordering::SeqCst), 0, "two inside {key}");
    let inside = Inside(n_inside);
    for _ in 0..seed % 3 {
        tokio::task::yield_now().await;
    }
    drop(inside);
    if seed.is_multiple_of(2) {
        guard.release().await.unwrap();
    }
}

/// Many visits to eight keys, each dropped at a random point; then every key must be free.
pub(crate) async fn visits_dropped_anywhere(locks: &Locks, n_tasks: u64, n_visits: u64) {
    let n_inside: Arc<[AtomicUsize; 8]> = Arc::default();
    let tasks: Vec<_> = (0..n_tasks)
        .map(|task| {
            let (locks, n_inside) = (locks.clone(), Arc::clone(&n_inside));
            tokio::spawn(async move {
                let mut random = task.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                for _ in 0..n_visits {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let seed = random >> 33;
                    let n = (seed % 8) as usize;
                    let key = format!("k{n}");
                    let visit = one_visit(&locks, &n_inside[n], &key, seed >> 3);
                    drop_somewhere(visit, (seed >> 10) as u32 % 6).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for n in 0..8 {
        let guard = locks.lock(&format!("k{n}")).acquire_within(LONG).await.unwrap();
        guard.release().await.unwrap();
        assert!(locks.lock(&format!("k{n}")).try_acquire().await.unwrap().is_some(), "k{n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_dropped_anywhere_leave_nothing_behind_in_memory() {
    let locks = memory().await;
    visits_dropped_anywhere(&locks, 50, 400).await;
    assert!(locks.list().await.unwrap().is_empty(), "{:?}", locks.list().await);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_dropped_anywhere_leave_nothing_behind_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let locks = Locks::connect(&format!("file://{}", folder.path().display())).await.unwrap();
    visits_dropped_anywhere(&locks, 50, 100).await;
    assert!(locks.list().await.unwrap().iter().all(|listed| !listed.held && listed.n_waiting == 0));
}

#[tokio::test]
async fn a_dropped_wait_leaves_the_place_to_the_next() {
    let locks = memory().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let lock = locks.lock("a");
    for _ in 0..100 {
        drop_somewhere(lock.acquire(), 1).await;
    }
    drop(guard);
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_turn_won_but_never_seen_passes_on() {
    let locks = memory().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let lock = locks.lock("a");
    let mut unseen = Box::pin(lock.acquire());
    drop_somewhere(&mut unseen, 1).await;
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("a").acquire_within(LONG).await.is_ok() }
    });
    tokio::task::yield_now().await;
    drop(guard);
    // The first one has it now, and never looks.
    drop(unseen);
    assert!(waits.await.unwrap());
}

#[tokio::test]
async fn one_who_leaves_after_a_refusal_takes_nobody_elses_place() {
    let troubled = Troubled::default();
    let (locks, others) = (troubled.locks(), troubled.locks());
    let lock = locks.lock("a");
    let guard = others.lock("a").acquire().await.unwrap();
    let mut refused = Box::pin(lock.acquire());
    drop_somewhere(&mut refused, 1).await;
    troubled.switches.refuses.store(true, Ordering::SeqCst);
    drop(guard);
    // Another one in the same line, so that we see the refusal.
    assert_eq!(lock.acquire_within(LONG).await.unwrap_err().kind(), ErrorKind::Refused);
    troubled.switches.refuses.store(false, Ordering::SeqCst);
    let guard = others.lock("a").acquire_within(LONG).await.unwrap();
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_within(LONG).await.is_ok() }
    });
    tokio::task::yield_now().await;
    drop(refused);
    drop(guard);
    assert!(waits.await.unwrap());
}

#[tokio::test]
async fn the_answer_to_one_who_left_is_not_given_to_the_next() {
    let troubled = Troubled::default();
    let (locks, others) = (troubled.locks(), troubled.locks());
    let lock = locks.lock("a");
    let guard = others.lock("a").acquire().await.unwrap();
    // The try is turned away, and goes while its claim is being given back.
    troubled.switches.keeps_releases.store(true, Ordering::SeqCst);
    let mut tries = Box::pin(lock.try_acquire());
    drop_somewhere(&mut tries, 1).await;
    let mut waits = Box::pin(lock.acquire_within(LONG));
    drop_somewhere(&mut waits, 1).await;
    drop(tries);
    troubled.switches.keeps_releases.store(false, Ordering::SeqCst);
    guard.release().await.unwrap();
    assert!(waits.await.is_ok());
}

#[test]
fn a_release_that_is_dropped_still_releases() {
    let locks = blocking::Locks::connect("memory:").unwrap();
    let locks = locks.as_async();
    blocking::block_on(async {
        let guard = locks.lock("a").acquire().await.unwrap();
        drop(guard.release());
        assert!(locks.lock("a").acquire_within(LONG).await.is_ok());
    });
}

/// What a dropped future has asked for may be granted late and must be given back; whoever comes next need not wait
/// until an engine that is silent has confirmed that.
#[tokio::test]
async fn a_try_after_a_dropped_wait_does_not_wait_for_what_that_one_gives_back() {
    let (distant, clock) = (Distant::default(), Clock::by_hand());
    let limit = Duration::from_secs(2);
    let locks = distant.locks_with(|builder| builder.clock(clock.clone()).answer_within(limit));
    let wire = &distant.wire;
    wire.attempts.set(Service::LosesCalls);
    wire.releases.set(Service::LosesCalls);
    let lock = locks.lock("a");
    let mut dropped = Box::pin(lock.acquire());
    assert!(poll_once(&mut dropped).await.is_none());
    drop(dropped);
    let mut tries = Box::pin(lock.try_acquire());
    assert!(poll_once(&mut tries).await.is_none());
    // The time of the first call is over, and of no other.
    clock.advance(limit);
    until("the question of the one who tries", || wire.attempts.n_sent() == 2);
    assert_eq!(wire.releases.n_sent(), 1, "what was dropped is given back first");
    clock.advance(limit);
    let error = tokio::time::timeout(LONG, tries).await.expect("an end").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}

/// The first question is in the hands of the task that asks it. If that task is not polled, the others of its process
/// cannot know whether the engine or the task stands still, and are told both.
#[tokio::test]
async fn one_behind_a_task_that_stands_still_is_told_that_it_may_be_the_task() {
    let distant = Distant::default();
    let (locks, limit) = (distant.locks(), Duration::from_millis(50));
    let lock = locks.lock("a");
    let mut stands_still = Box::pin(lock.try_acquire());
    assert!(poll_once(&mut stands_still).await.is_none());
    let error = lock.acquire_within(limit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("or another task of this process"), "{error}");
    drop(stands_still);
    // One who is alone has only the engine to wait for.
    distant.wire.attempts.set(Service::LosesCalls);
    let error = locks.lock("b").acquire_within(limit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(!error.to_string().contains("another task"), "{error}");
}
