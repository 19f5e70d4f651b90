//! Reentrancy.

use std::time::Duration;

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
