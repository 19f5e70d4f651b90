//! Reentrancy.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use lockkeeper::Lock;
use nix::time::{ClockId, clock_gettime};

use crate::tools::{LONG, memory};

#[tokio::test]
async fn the_same_owner_comes_in_again_with_the_same_fence() {
    let locks = memory().await;
    let me = locks.owner();
    let outer = me.lock("a").acquire().await.unwrap();
    let inner = me.lock("a").acquire_within(LONG).await.unwrap();
    let tried = me.clone().lock("a").try_acquire().await.unwrap().expect("ours");
    assert_eq!((outer.fence(), outer.fence()), (inner.fence(), tried.fence()));
    assert!(locks.owner().lock("a").try_acquire().await.unwrap().is_none());
    drop(outer);
    tried.release().await.unwrap();
    assert!(inner.is_held());
    assert!(locks.lock("a").try_acquire().await.unwrap().is_none());
    inner.release().await.unwrap();
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn tasks_of_one_owner_that_wait_together_come_in_together() {
    let locks = memory().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let me = locks.owner();
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let me = me.clone();
            tokio::spawn(async move { me.lock("a").acquire().await.unwrap() })
        })
        .collect();
    tokio::task::yield_now().await;
    drop(guard);
    let mut guards = Vec::new();
    for wait in waits {
        guards.push(tokio::time::timeout(LONG, wait).await.expect("no deadlock").unwrap());
    }
    assert!(guards.iter().all(|guard| guard.fence() == guards[0].fence()));
    drop(guards);
    assert!(locks.lock("a").acquire_within(LONG).await.is_ok());
}

#[tokio::test]
async fn a_hold_that_ended_is_not_shared() {
    let locks = memory().await;
    let me = locks.owner();
    let first = me.lock("a").acquire().await.unwrap();
    let fence = first.fence();
    drop(first);
    let second = me.lock("a").acquire().await.unwrap();
    assert!(second.fence() > fence);
    assert!(locks.lock("a").acquire_within(Duration::from_millis(20)).await.is_err());
}

/// The time that the processor has spent on this thread: what others do beside it does not count.
fn time_spent() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// What it costs until as many tasks as there are locks have had their turn, one after the other.
async fn time_of_turns(locks: &[Lock]) -> Duration {
    let mut context = Context::from_waker(Waker::noop());
    let guard = locks[0].acquire().await.unwrap();
    let mut waits: Vec<_> = locks[1..].iter().map(|lock| Box::pin(lock.acquire())).collect();
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    let start = time_spent();
    drop(guard);
    for wait in waits {
        drop(wait.await.unwrap());
    }
    time_spent() - start
}

#[tokio::test]
async fn many_owners_cost_about_as_much_as_many_tasks() {
    let locks = memory().await;
    let tasks: Vec<_> = (0..16_000).map(|_| locks.lock("a")).collect();
    let owners: Vec<_> = (0..16_000).map(|_| locks.owner().lock("b")).collect();
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (with, without) = (time_of_turns(&owners).await, time_of_turns(&tasks).await);
        ratios.push(with.as_secs_f64() / without.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    // A scan of all who wait at every turn makes it more than a hundred times.
    assert!(ratios[0] < 15.0, "{ratios:?}");
}
