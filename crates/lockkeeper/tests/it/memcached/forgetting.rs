//! The server forgets a held lock: its holder is told, and takes nothing from the next one.

use std::time::Duration;

use lockkeeper::{ErrorKind, Guard, Loss};

use super::site::{AGES, Site, comes_free};
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

/// The loss is told at the next renewal, and the guard never says afterwards that it holds the lock.
async fn is_told(guard: &Guard) {
    let loss = tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    assert!(matches!(loss, Loss::TakenAway(_)), "{loss:?}");
    assert!(!guard.is_held());
}

#[tokio::test]
async fn flushed_while_held() {
    let site = Site::start();
    let (locks, other) = (site.locks().await, site.other().await);
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    site.server.command("flush_all\r\n").unwrap();
    is_told(&guard).await;
    let next = comes_free(&other, "the-key").await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_held() && locks.lock("the-key").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
}

#[tokio::test]
async fn restarted_while_held() {
    let mut site = Site::start();
    let (locks, other) = (site.locks().await, site.other().await);
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    site.server.restart().unwrap();
    // The numbers of a new server begin anew: its first item has the CAS that ours had.
    let next = comes_free(&other, "the-key").await;
    is_told(&guard).await;
    drop(guard);
    locks.settle().await;
    assert!(next.is_held() && locks.lock("the-key").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
}

/// Released, not renewed, over a server that was started anew and gave the same CAS to another.
#[tokio::test]
async fn released_after_a_restart() {
    let mut site = Site::start();
    let (locks, other) = (site.locks().await, site.other().await);
    let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
    site.server.restart().unwrap();
    let next = comes_free(&other, "the-key").await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(locks.lock("the-key").try_acquire().await.unwrap().is_none(), "another's was deleted");
    next.release().await.unwrap();
}

/// A tiny memory that others fill: the lock goes the way of every item, and its holder is told. Until then it
/// says that it holds the lock, which others can take: that is why this engine is for efficiency only.
#[tokio::test]
async fn evicted_while_held() {
    let site = Site::start_with(&["-m", "2"]);
    let (locks, other) = (site.locks().await, site.other().await);
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    site.fill();
    let stats = site.server.command("stats\r\n").unwrap();
    assert!(!stats.contains("STAT evictions 0\r\n"), "nothing was evicted: {stats}");
    is_told(&guard).await;
    let next = comes_free(&other, "the-key").await;
    assert!(!guard.is_held());
    next.release().await.unwrap();
}

/// Deleted by an operator, and taken by another client before the next renewal.
#[tokio::test]
async fn taken_by_another_while_held() {
    let site = Site::start();
    let locks = site.locks().await;
    let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
    site.server.command("delete the-key\r\nadd the-key 0 60 5\r\nother\r\n").unwrap();
    is_told(&guard).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(site.server.command("mg the-key v\r\n").unwrap(), "VA 5\r\nother\r\n");
}
