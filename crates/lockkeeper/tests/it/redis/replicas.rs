//! Grants that count only when replicas have them.

use std::time::Duration;

use lab::redis::Sentinels;
use lockkeeper::{ErrorKind, Locks};

use crate::tools::LONG;

async fn connect(all: &Sentinels, n_replicas: u32, dialect: &str) -> Locks {
    let url = format!("{}?wait-replicas={n_replicas}&dialect={dialect}", all.url());
    Locks::connect(&url).await.unwrap()
}

fn n_keys(all: &Sentinels, number: usize, key: &str) -> usize {
    let found = all.servers[number].command(&["KEYS", &format!("*{key}")]).unwrap();
    found.list().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_too_few_replicas_have_is_given_back() {
    let all = Sentinels::start().unwrap();
    let primary = all.primary_number().unwrap();
    for dialect in ["native", "plain", "redisson"] {
        let (enough, too_many) = (connect(&all, 2, dialect).await, connect(&all, 3, dialect).await);
        let guard = enough.lock(dialect).acquire_within(LONG).await.unwrap();
        for number in 0..all.servers.len() {
            assert_eq!(n_keys(&all, number, dialect), 1, "{dialect} at {number}");
        }
        guard.release().await.unwrap();
        let error = too_many.lock(dialect).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        assert!(error.to_string().contains("2 of the 3 replicas"), "{error}");
        assert_eq!(n_keys(&all, primary, dialect), 0, "{dialect}: not given back");
        let error = too_many.lock(dialect).acquire_within(Duration::from_secs(2)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NoQuorum);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_handed_over_is_seen_by_replicas_too() {
    let all = Sentinels::start().unwrap();
    let (here, there) = (connect(&all, 2, "native").await, connect(&all, 2, "native").await);
    let guard = here.lock("passed").acquire_within(LONG).await.unwrap();
    let waits = there.lock("passed");
    let waiter = tokio::spawn(async move { waits.acquire_within(LONG).await });
    while here.who("passed").await.unwrap().line.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let fence = guard.fence();
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap().unwrap();
    assert!(guard.fence() > fence);
    for number in 0..all.servers.len() {
        assert_eq!(n_keys(&all, number, "passed"), 1, "at {number}");
    }
    let primary = all.primary().unwrap();
    assert!(primary.n_calls("wait").unwrap() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_are_kept_while_others_wait_for_replicas_in_vain() {
    let mut all = Sentinels::start().unwrap();
    let locks = connect(&all, 2, "native").await;
    let held = locks.lock("held").ttl(Duration::from_secs(3)).acquire_within(LONG).await.unwrap();
    let replica = (all.primary_number().unwrap() + 1) % all.servers.len();
    all.servers[replica].kill().unwrap();
    let tries: Vec<_> = (0..10)
        .map(|number| {
            let lock = locks.lock(&format!("in-vain-{number}"));
            tokio::spawn(async move { lock.acquire_within(Duration::from_secs(5)).await })
        })
        .collect();
    for one in tries {
        let error = one.await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::Unreachable), "{error}");
    }
    assert!(held.is_held());
}
