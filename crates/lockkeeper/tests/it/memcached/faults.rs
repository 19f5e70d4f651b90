//! Connections that break, servers that stand still, and answers that are out of step.

use std::time::Duration;

use lab::proxy::Way;
use lockkeeper::{ErrorKind, Loss};

use super::site::{AGES, Site, assert_exclusive, comes_free, released};
use crate::tools::LONG;

#[tokio::test]
async fn connection_cut_while_held() {
    const TTL: Duration = Duration::from_secs(3);
    let site = Site::start();
    let (locks, other) = (site.locks().await, site.other().await);
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    for _ in 0..3 {
        site.proxy.cut();
        tokio::time::sleep(TTL / 2).await;
        assert_exclusive(&guard, &other).await;
    }
    released(guard).await;
    comes_free(&other, "the-key").await.release().await.unwrap();
}

/// In the middle of a request or of a reply, at each of many places.
#[tokio::test]
async fn connection_cut_in_the_middle() {
    let site = Site::start();
    let (locks, other) = (site.locks().await, site.other().await);
    for n_bytes in [0, 1, 2, 5, 8, 20, 60] {
        for way in [Way::Up, Way::Down] {
            site.proxy.cut_after(way, n_bytes);
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            assert_exclusive(&guard, &other).await;
            site.proxy.cut_after(way, n_bytes);
            released(guard).await;
            comes_free(&other, "the-key").await.release().await.unwrap();
            site.proxy.heal();
        }
    }
}

#[tokio::test]
async fn bytes_come_one_by_one() {
    let site = Site::start();
    site.proxy.drip();
    let (locks, other) = (site.locks().await, site.other().await);
    let guard = locks.lock("a key\nin base64").acquire().await.unwrap();
    assert_exclusive(&guard, &other).await;
    assert!(locks.who("a key\nin base64").await.unwrap().holder.is_some());
    assert_eq!(locks.list().await.unwrap().len(), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn server_stopped_for_less_than_the_ttl() {
    const TTL: Duration = Duration::from_secs(6);
    let site = Site::start();
    let (locks, other) = (site.hasty().await, site.other().await);
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    let waiter = other.lock("the-key").ttl(AGES);
    let waiter = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    site.server.stop().unwrap();
    tokio::time::sleep(TTL / 2).await;
    site.server.go_on().unwrap();
    tokio::time::sleep(TTL).await;
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

/// A holder is told by the end of its lease, which is before the server may give the lock to anybody.
#[tokio::test]
async fn server_stopped_for_longer_than_the_ttl() {
    const TTL: Duration = Duration::from_secs(2);
    let site = Site::start();
    let (locks, other) = (site.hasty().await, site.other().await);
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    site.server.stop().unwrap();
    let loss = tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    assert!(!guard.is_held() && matches!(loss, Loss::Expired), "{loss:?}");
    let error = locks.lock("another").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    site.server.go_on().unwrap();
    drop(guard);
    comes_free(&other, "the-key").await.release().await.unwrap();
    comes_free(&other, "another").await.release().await.unwrap();
}

/// A name that is too long would be answered with two lines, and put everyone behind it out of step: none
/// is ever sent.
#[tokio::test]
async fn keys_of_every_length_are_answered_once() {
    let site = Site::start();
    let (locks, other) = (site.locks().await, site.other().await);
    let before = site.proxy.counts().connections;
    for n_bytes in [186, 187, 188, 249, 250, 251, 252, 512] {
        for filling in ["x", " "] {
            let key = filling.repeat(n_bytes);
            let guard = locks.lock(&key).ttl(AGES).acquire().await.unwrap();
            assert_exclusive(&guard, &other).await;
            let who = other.who(&key).await.unwrap();
            assert_eq!(who.holder.unwrap().pid, Some(std::process::id()));
            assert_eq!(other.list().await.unwrap()[0].key.as_str(), key);
            guard.release().await.unwrap();
        }
    }
    // One that is out of step is closed; ours never was.
    assert_eq!(site.proxy.counts().connections, before, "a connection was opened anew");
}

/// No memory for another lock is trouble that may pass, not a busy lock.
#[tokio::test]
async fn server_refuses_for_lack_of_memory() {
    let site = Site::start_with(&["-M", "-m", "2"]);
    let locks = site.hasty().await;
    site.fill();
    let error = locks.lock("the-key").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    site.server.command("flush_all\r\n").unwrap();
    locks.lock("the-key").acquire_within(LONG).await.unwrap().release().await.unwrap();
}
