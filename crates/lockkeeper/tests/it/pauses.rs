//! A process that was paused for longer than the ttl: nothing has told it of the loss when it goes on.

use std::time::Duration;

use lockkeeper::{ErrorKind, Locks, Loss, clock::Clock, engines::memory::Memory};

const TTL: Duration = Duration::from_secs(1);

/// Locks that nobody attends to: a pause in which the program does nothing, and neither does our thread.
fn paused() -> (Clock, Locks) {
    let clock = Clock::by_hand();
    let builder = Locks::builder().clock(clock.clone()).ttl(TTL).attended();
    (clock, builder.build(Box::new(Memory::default())).unwrap())
}

#[tokio::test]
async fn after_a_pause_work_is_not_done_as_if_the_lock_were_held() {
    let (clock, locks) = paused();
    let guard = locks.lock("a").acquire().await.unwrap();
    assert_eq!(guard.protect(async { 7 }).await.unwrap(), 7);
    clock.advance(TTL);
    let mut has_begun = false;
    let work = guard.protect(async { has_begun = true });
    assert_eq!(work.await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!has_begun, "the work began without the lock");
    assert_eq!(guard.lost().await, Loss::Expired);
}

#[tokio::test]
async fn work_that_was_paused_is_not_said_to_have_been_protected() {
    let (clock, locks) = paused();
    let guard = locks.lock("a").acquire().await.unwrap();
    let work = guard.protect(async { clock.advance(TTL) });
    assert_eq!(work.await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn after_a_pause_an_owner_does_not_come_in_again_by_a_dead_hold() {
    let (clock, locks) = paused();
    let me = locks.owner();
    let outer = me.lock("a").acquire().await.unwrap();
    clock.advance(TTL);
    let inner = me.lock("a").acquire().await.unwrap();
    assert!(inner.is_held(), "a dead guard was handed out");
    assert!(inner.fence() > outer.fence());
    assert!(!outer.is_held());
}
