//! Other clients: what they hold is left alone, and what is ours they find.

use std::time::Duration;

use lockkeeper::Locks;

use super::site::{AGES, Site};
use crate::tools::LONG;

#[tokio::test]
async fn a_plain_add_and_ours_exclude_each_other() {
    let site = Site::start();
    let locks = site.locks().await;
    assert_eq!(site.server.command("add a 0 60 3\r\nhim\r\n").unwrap(), "STORED\r\n");
    assert!(locks.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(site.server.command("get a\r\n").unwrap(), "VALUE a 0 3\r\nhim\r\nEND\r\n");
    assert_eq!(locks.who("a").await.unwrap().holder.unwrap().label.as_deref(), Some("him"));
    let waiter = tokio::spawn(async move { locks.lock("a").ttl(AGES).acquire().await.unwrap() });
    site.server.command("delete a\r\n").unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
    assert_eq!(site.server.command("add a 0 60 3\r\nhim\r\n").unwrap(), "NOT_STORED\r\n");
    guard.release().await.unwrap();
    assert_eq!(site.server.command("add a 0 60 3\r\nhim\r\n").unwrap(), "STORED\r\n");
}

/// A key with spaces has the same name for clients that can say it.
#[tokio::test]
async fn a_name_in_base64_is_the_key_itself() {
    let site = Site::start();
    let locks = site.locks().await;
    let guard = locks.lock("a b").acquire().await.unwrap();
    let found = site.server.command("mg YSBi b k\r\n").unwrap();
    assert!(found.starts_with("HD "), "{found}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tooz_finds_ours_where_it_looks_and_can_read_it() {
    let site = Site::start();
    let locks = Locks::connect(&format!("{}?dialect=tooz", site.url())).await.unwrap();
    let guard = locks.lock("a").acquire().await.unwrap();
    let found = site.server.command("mg __TOOZ_LOCK_a f\r\n").unwrap();
    assert_eq!(found, "HD f1\r\n");
    assert!(site.locks().await.lock("a").try_acquire().await.unwrap().is_some(), "another name");
    guard.release().await.unwrap();
}

/// The server is asked for more than the ttl, because it may count the first second as over: at random
/// moments of a second, no lock is gone before its lease is over.
#[tokio::test]
async fn the_server_keeps_every_lock_for_its_ttl() {
    const TTL: Duration = Duration::from_millis(1500);
    let site = Site::start();
    let engine = lockkeeper::conformance::open(&site.server.url()).await.unwrap();
    let clock = lockkeeper::clock::Clock::default();
    let mut claims = Vec::new();
    for n in 0..40 {
        let key = lockkeeper::Key::new(&format!("key-{n}")).unwrap();
        let owner = lockkeeper::engine::OwnerId(n);
        let request = lockkeeper::engine::Request::new(key, owner, TTL);
        let mut claim = engine.claim(request);
        let (granted_at, answer) = (clock.now(), claim.attempt(clock.now()).await.unwrap());
        assert!(matches!(answer, lockkeeper::engine::Attempt::Granted(_)), "{answer:?}");
        claims.push((n, granted_at));
        tokio::time::sleep(Duration::from_millis(37)).await;
    }
    let mut n_seen = 0;
    while let Some(&(n, granted_at)) = claims.first() {
        let there = site.server.command(format!("mg key-{n} t\r\n")).unwrap();
        // Looked at after the answer: if it was there, the lease was kept up to this moment.
        if clock.now().since(granted_at) < TTL {
            assert!(there.starts_with("HD"), "key-{n} is gone before its lease is over");
            n_seen += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else {
            claims.remove(0);
        }
    }
    assert!(n_seen > 0, "the machine is too slow to see anything");
}
