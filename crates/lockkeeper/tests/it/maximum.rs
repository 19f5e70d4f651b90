//! The maximum hold: each guard has its own, and no other guard feels it.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use lockkeeper::{
    ErrorKind, Locks, Loss, blocking::block_on, clock::Clock, engines::memory::Memory,
};

use crate::tools::{LONG, poll_once};

const SHORT: Duration = Duration::from_secs(1);
const LONGER: Duration = Duration::from_secs(3);

/// Locks that nobody attends to, on a clock that is moved by hand.
fn unattended() -> (Clock, Locks) {
    let clock = Clock::by_hand();
    let builder = Locks::builder().clock(clock.clone()).attended();
    (clock, builder.build(Box::new(Memory::default())).unwrap())
}

#[tokio::test]
async fn a_guard_knows_its_maximum_without_being_told() {
    let (clock, locks) = unattended();
    let guard = locks.lock("a").maximum_hold(SHORT).acquire().await.unwrap();
    assert_eq!(guard.remaining(), Some(SHORT));
    clock.advance(SHORT);
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Some(Duration::ZERO));
    assert_eq!(guard.lost().await, Loss::MaximumHold);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("maximum hold"), "{error}");
}

#[tokio::test]
async fn each_guard_of_an_owner_has_its_own_maximum() {
    let (clock, locks) = unattended();
    let me = locks.owner();
    let outer = me.lock("a").acquire().await.unwrap();
    let inner = me.lock("a").maximum_hold(SHORT).acquire().await.unwrap();
    clock.advance(SHORT);
    locks.attend();
    assert!(!inner.is_held(), "the maximum of a guard that came in again was forgotten");
    assert_eq!(inner.lost().await, Loss::MaximumHold);
    assert!(outer.is_held(), "a maximum of another guard ended this one");
    assert_eq!(inner.release().await.unwrap_err().kind(), ErrorKind::Lost);
    outer.release().await.unwrap();
}

#[tokio::test]
async fn a_guard_that_came_in_again_outlives_the_maximum_of_the_first() {
    let (clock, locks) = unattended();
    let me = locks.owner();
    let outer = me.lock("a").maximum_hold(SHORT).acquire().await.unwrap();
    let inner = me.lock("a").maximum_hold(LONGER).acquire().await.unwrap();
    clock.advance(SHORT);
    locks.attend();
    assert!(!outer.is_held() && inner.is_held());
    drop(outer);
    assert!(locks.lock("a").try_acquire().await.unwrap().is_none());
    clock.advance(LONGER - SHORT);
    locks.attend();
    assert!(!inner.is_held());
    assert!(locks.lock("a").acquire_within(LONG).await.is_ok(), "the key is free at the last end");
}

#[tokio::test]
async fn when_the_longest_guard_goes_the_maximum_of_the_others_counts() {
    let (clock, locks) = unattended();
    let me = locks.owner();
    let outer = me.lock("a").acquire().await.unwrap();
    let inner = me.lock("a").maximum_hold(SHORT).acquire().await.unwrap();
    drop(outer);
    assert!(inner.is_held());
    clock.advance(SHORT);
    locks.attend();
    assert!(!inner.is_held());
    assert!(locks.lock("a").acquire_within(LONG).await.is_ok());
}

#[test]
fn the_next_turn_is_never_told_the_maximum_of_the_one_before() {
    let n_told = AtomicUsize::new(0);
    let clock = Clock::by_hand();
    let locks = Locks::builder().clock(clock.clone()).build(Box::new(Memory::default())).unwrap();
    for _ in 0..4_000 {
        block_on(async {
            let lock = locks.lock("a");
            let first =
                lock.clone().maximum_hold(Duration::from_millis(1)).acquire().await.unwrap();
            let mut next = Box::pin(lock.acquire());
            assert!(poll_once(&mut next).await.is_none());
            thread::scope(|scope| {
                scope.spawn(|| clock.advance(Duration::from_millis(1)));
                drop(first);
            });
            let next = next.await.unwrap();
            for _ in 0..200 {
                std::hint::spin_loop();
            }
            if let Some(loss) = poll_once(&mut Box::pin(next.lost())).await {
                assert_eq!(loss, Loss::MaximumHold);
                n_told.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    assert_eq!(n_told.load(Ordering::Relaxed), 0, "turns without a maximum that were told of one");
}
