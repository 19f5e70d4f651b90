//! A text with an expiry: what redis-py, redlock-py, node-redlock, redsync and others make of a lock.

use std::time::Duration;

use lockkeeper::ErrorKind;

use super::{
    Desk, assert_late_attempts_leave_nothing, assert_lost_answers_are_made_up_for,
    assert_renewed_beside_something_strange,
};
use crate::tools::LONG;

/// How all of them release.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       return redis.call('del', KEYS[1]) else return 0 end";

#[tokio::test]
async fn our_lock_is_a_text_with_an_expiry_and_nothing_else() {
    let desk = Desk::open("dialect=plain").await;
    let guard = desk.acquire("invoice:42").await;
    assert_eq!(desk.command(&["TYPE", "invoice:42"]).text(), "string");
    assert_eq!(desk.command(&["GET", "invoice:42"]).text().len(), 32);
    assert!(desk.pttl("invoice:42") <= Duration::from_secs(10));
    assert_eq!(desk.command(&["DBSIZE"]).int(), Some(1));
    assert_eq!(guard.fence(), 0);
    guard.release().await.unwrap();
    assert_eq!(desk.command(&["DBSIZE"]).int(), Some(0));
}

#[tokio::test]
async fn the_prefix_stands_before_the_key() {
    let desk = Desk::open("dialect=plain&prefix=redlock:").await;
    let _guard = desk.acquire("k").await;
    assert!(desk.exists("redlock:k"));
}

#[tokio::test]
async fn our_lock_keeps_others_out_and_only_its_owner_releases_it() {
    let desk = Desk::open("dialect=plain").await;
    let guard = desk.acquire("k").await;
    let theirs = desk.command(&["SET", "k", "theirs", "NX", "PX", "10000"]);
    assert_eq!(theirs, lab::redis::Reply::Nil);
    assert_eq!(desk.command(&["EVAL", RELEASE, "1", "k", "theirs"]).int(), Some(0));
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(desk.command(&["SET", "k", "theirs", "NX", "PX", "10000"]).is_ok());
}

#[tokio::test]
async fn a_foreign_lock_keeps_us_out_until_it_is_released() {
    let desk = Desk::open("dialect=plain").await;
    // Some libraries set no expiry.
    for set in [&["SET", "k", "theirs", "NX", "PX", "60000"][..], &["SET", "k", "theirs", "NX"]] {
        assert!(desk.command(set).is_ok());
        assert!(desk.is_busy("k").await);
        let release = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            desk.command(&["EVAL", RELEASE, "1", "k", "theirs"])
        };
        let (guard, released) = tokio::join!(desk.acquire("k"), release);
        assert_eq!(released.int(), Some(1));
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_foreign_lock_that_expires_is_ours() {
    let desk = Desk::open("dialect=plain").await;
    desk.command(&["SET", "k", "theirs", "PX", "700"]);
    let guard = desk.acquire("k").await;
    assert_ne!(desk.command(&["GET", "k"]).text(), "theirs");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_became_anothers_is_lost_and_not_deleted() {
    let desk = Desk::open("dialect=plain").await;
    let ttl = Duration::from_secs(1);
    let guard = desk.locks.lock("k").ttl(ttl).acquire_within(LONG).await.unwrap();
    desk.command(&["SET", "k", "theirs", "PX", "60000"]);
    tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(desk.command(&["GET", "k"]).text(), "theirs");
    assert!(desk.pttl("k") > Duration::from_secs(10), "the other's lease was changed");
}

#[tokio::test]
async fn what_is_no_lock_of_this_dialect_is_refused_and_kept() {
    let desk = Desk::open("dialect=plain").await;
    desk.command(&["HSET", "hash", "b983c153-7421-469a-addb-44fb92259a1b:1", "1"]);
    desk.command(&["RPUSH", "list", "a"]);
    let native = lockkeeper::Locks::connect(&desk.server.url()).await.unwrap();
    let _guard = native.lock("n").acquire_within(LONG).await.unwrap();
    let keys = desk.command(&["KEYS", "lk:*k:n"]);
    desk.assert_refused("hash", "redisson").await;
    desk.assert_refused("list", "a list").await;
    desk.assert_refused(&keys.list()[0].text(), "native").await;
    assert_eq!(desk.command(&["HLEN", "hash"]).int(), Some(1));
    assert_eq!(desk.command(&["LLEN", "list"]).int(), Some(1));
}

#[tokio::test]
async fn lost_answers_are_made_up_for() {
    let desk = Desk::open("dialect=plain").await;
    assert_lost_answers_are_made_up_for(&desk, "NX").await;
}

#[tokio::test]
async fn an_attempt_carried_out_late_leaves_nothing() {
    let desk = Desk::open("dialect=plain").await;
    assert_late_attempts_leave_nothing(&desk, "set").await;
}

#[tokio::test]
async fn something_strange_at_one_key_does_not_end_the_leases_of_others() {
    let desk = Desk::open("dialect=plain").await;
    assert_renewed_beside_something_strange(&desk, &["HSET", "k", "field", "1"]).await;
}
