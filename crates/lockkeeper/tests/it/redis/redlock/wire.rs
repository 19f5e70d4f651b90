//! The wire as other libraries see it: a plain key on every server, taken by whoever has a majority.

use std::time::Duration;

use lockkeeper::ErrorKind;

use super::{super::labs::Redlock, KEY, eventually};
use crate::tools::LONG;

/// What node-redlock, redlock-py and redsync send to give a lock back.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

#[tokio::test]
async fn ours_is_a_plain_key_with_an_expiry_on_every_server() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    let guard = locks.lock(KEY).ttl(LONG).acquire().await.unwrap();
    eventually("all five to have it", || lab.n_held() == 5).await;
    let value = lab.servers()[0].command(&["GET", KEY]).unwrap().text();
    for server in lab.servers() {
        assert_eq!(server.command(&["GET", KEY]).unwrap().text(), value);
        let left = server.command(&["PTTL", KEY]).unwrap().int().unwrap();
        let longest = i64::try_from(LONG.as_millis()).unwrap();
        assert!(left > 0 && left <= longest, "{left}");
        // Others are kept out, and cannot give it back.
        let set = server.command(&["SET", KEY, "theirs", "NX", "PX", "1000"]).unwrap();
        assert_eq!(set, lab::redis::Reply::Nil);
        let deleted = server.command(&["EVAL", COMPARE_AND_DELETE, "1", KEY, "theirs"]).unwrap();
        assert_eq!(deleted.int(), Some(0));
    }
    guard.release().await.unwrap();
    eventually("all five to be free", || lab.n_held() == 0).await;
    for server in lab.servers() {
        for name in server.command(&["KEYS", "*"]).unwrap().list() {
            let left = server.command(&["PTTL", &name.text()]).unwrap().int();
            assert!(name.text().starts_with("lk:fence:") && left > Some(0), "{name:?}: {left:?}");
        }
    }
}

#[tokio::test]
async fn a_lock_of_others_on_a_majority_keeps_us_out() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    for server in &lab.servers()[2..] {
        assert!(server.command(&["SET", KEY, "theirs", "NX", "PX", "60000"]).unwrap().is_ok());
    }
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    // What we got meanwhile was given back at once.
    eventually("our part to be given back", || lab.n_held() == 3).await;
    let error = locks.lock(KEY).acquire_within(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    for server in &lab.servers()[2..] {
        let deleted = server.command(&["EVAL", COMPARE_AND_DELETE, "1", KEY, "theirs"]).unwrap();
        assert_eq!(deleted.int(), Some(1));
    }
    locks.lock(KEY).acquire_within(LONG).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lock_of_others_on_a_minority_is_left_alone() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    for server in &lab.servers()[3..] {
        assert!(server.command(&["SET", KEY, "theirs", "NX", "PX", "60000"]).unwrap().is_ok());
    }
    let guard = locks.lock(KEY).try_acquire().await.unwrap().unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    eventually("ours to be free", || lab.n_held() == 2).await;
    for server in &lab.servers()[3..] {
        assert_eq!(server.command(&["GET", KEY]).unwrap().text(), "theirs");
    }
}

#[tokio::test]
async fn what_is_no_lock_is_refused_and_left_alone() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    for server in lab.servers() {
        server.command(&["LPUSH", KEY, "a job"]).unwrap().not_an_error().unwrap();
    }
    let error = locks.lock(KEY).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    for server in lab.servers() {
        assert_eq!(server.command(&["LLEN", KEY]).unwrap().int(), Some(1));
    }
}

#[tokio::test]
async fn a_prefix_stands_before_the_key() {
    let lab = Redlock::start();
    let url = format!("{}?prefix=redlock:", lab.url());
    let locks = lockkeeper::Locks::connect(&url).await.unwrap();
    let guard = locks.lock(KEY).acquire().await.unwrap();
    let name = format!("redlock:{KEY}");
    let n_held = || {
        let exists = |server: &&lab::redis::Server| {
            server.command(&["EXISTS", &name]).unwrap().int() == Some(1)
        };
        lab.servers().iter().filter(exists).count()
    };
    eventually("all five to have it", || n_held() == 5).await;
    guard.release().await.unwrap();
    eventually("all five to be free", || n_held() == 0).await;
}
