//! A hash with one holder, and a channel: what Java's Redisson makes of a lock.

use std::time::Duration;

use lab::redis::Reply;
use lockkeeper::ErrorKind;

use super::{
    Desk, assert_late_attempts_leave_nothing, assert_lost_answers_are_made_up_for,
    assert_renewed_beside_something_strange,
};
use crate::tools::LONG;

const CHANNEL: &str = "redisson_lock__channel:{k}";
const THEM: &str = "b983c153-7421-469a-addb-44fb92259a1b:54";

/// How Redisson takes a lock: nothing if it has it, else how long it is held by another.
const LOCK: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
                    redis.call('hincrby', KEYS[1], ARGV[2], 1) \
                    redis.call('pexpire', KEYS[1], ARGV[1]) \
                    return nil end \
                    return redis.call('pttl', KEYS[1])";
/// How it unlocks: nothing if it does not have it, -1 if it has it still, else how many were told.
const UNLOCK: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end \
                      if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return -1 end \
                      redis.call('del', KEYS[1]) \
                      return redis.call('publish', ARGV[2], '0')";

impl Desk {
    async fn redisson() -> Self {
        Self::open("dialect=redisson").await
    }

    fn they_lock(&self, ttl_ms: &str) -> Reply {
        self.command(&["EVAL", LOCK, "1", "k", ttl_ms, THEM])
    }

    fn they_unlock(&self) -> Reply {
        self.command(&["EVAL", UNLOCK, "1", "k", THEM, CHANNEL])
    }

    /// How many connections listen for a release.
    fn n_listening(&self) -> Option<i64> {
        self.command(&["PUBSUB", "NUMSUB", CHANNEL]).list()[1].int()
    }
}

#[tokio::test]
async fn our_lock_is_a_hash_with_one_holder_that_entered_once() {
    let desk = Desk::redisson().await;
    let me = desk.locks.owner();
    let outer = me.lock("k").acquire_within(LONG).await.unwrap();
    let inner = me.lock("k").acquire_within(LONG).await.unwrap();
    let hash = desk.command(&["HGETALL", "k"]);
    let [holder, count] = hash.list() else { panic!("{hash:?}") };
    assert_eq!(count.text(), "1");
    let holder = holder.text();
    let (client, thread) = holder.split_once(':').unwrap();
    assert_eq!(client.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(thread.parse::<u64>().is_ok(), "{holder}");
    assert_eq!(desk.command(&["DBSIZE"]).int(), Some(1));
    outer.release().await.unwrap();
    assert!(desk.exists("k"));
    inner.release().await.unwrap();
    assert_eq!(desk.command(&["DBSIZE"]).int(), Some(0));
}

#[tokio::test]
async fn the_lease_is_redissons_unless_the_lock_says_otherwise() {
    let desk = Desk::redisson().await;
    let _usual = desk.acquire("k").await;
    let ttl = Duration::from_secs(3600);
    let _long = desk.locks.lock("long").ttl(ttl).acquire_within(LONG).await.unwrap();
    assert!((Duration::from_secs(11)..=Duration::from_secs(30)).contains(&desk.pttl("k")));
    assert!((ttl - LONG..=ttl).contains(&desk.pttl("long")));
}

#[tokio::test]
async fn our_lock_keeps_them_out_and_only_we_release_it() {
    let desk = Desk::redisson().await;
    let guard = desk.acquire("k").await;
    assert!(desk.they_lock("30000").int().is_some_and(|left_ms| left_ms > 0));
    assert_eq!(desk.they_unlock(), Reply::Nil);
    assert!(guard.is_held() && desk.exists("k"));
    guard.release().await.unwrap();
    assert_eq!(desk.they_lock("30000"), Reply::Nil);
}

#[tokio::test]
async fn they_are_told_of_our_release() {
    let desk = Desk::redisson().await;
    let guard = desk.acquire("k").await;
    let mut they = desk.server.client().unwrap();
    they.command(&["SUBSCRIBE", CHANNEL]).unwrap();
    guard.release().await.unwrap();
    let message = they.receive().unwrap();
    assert_eq!(message, Reply::List(vec!["message".into(), CHANNEL.into(), "0".into()]));
}

#[tokio::test]
async fn their_lock_keeps_us_out_until_its_count_is_zero_and_we_are_told() {
    let desk = Desk::redisson().await;
    for _ in 0..2 {
        assert_eq!(desk.they_lock("60000"), Reply::Nil);
    }
    assert!(desk.is_busy("k").await);
    assert_eq!(desk.n_listening(), Some(0), "one who only tries listens");
    let release = async {
        desk.see("somebody listens", || desk.n_listening() == Some(1)).await;
        assert_eq!(desk.they_unlock().int(), Some(-1));
        assert_eq!(desk.command(&["HGET", "k", THEM]).text(), "1");
        assert_eq!(desk.they_unlock().int(), Some(1), "nobody was told");
    };
    let (guard, ()) = tokio::join!(desk.acquire("k"), release);
    desk.see("nobody listens", || desk.n_listening() == Some(0)).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_wait_that_is_given_up_listens_no_more() {
    let desk = Desk::redisson().await;
    desk.they_lock("60000");
    let wait = async { drop(desk.acquire("k").await) };
    tokio::select! {
        () = wait => panic!("we have their lock"),
        () = desk.see("somebody listens", || desk.n_listening() == Some(1)) => {}
    }
    desk.see("nobody listens", || desk.n_listening() == Some(0)).await;
    assert_eq!(desk.command(&["HGET", "k", THEM]).text(), "1");
}

#[tokio::test]
async fn their_lock_that_expires_without_a_message_is_ours() {
    let desk = Desk::redisson().await;
    desk.they_lock("700");
    let guard = desk.acquire("k").await;
    assert_eq!(desk.command(&["HEXISTS", "k", THEM]).int(), Some(0));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_became_theirs_is_lost_and_not_deleted() {
    let desk = Desk::redisson().await;
    let ttl = Duration::from_secs(1);
    let guard = desk.locks.lock("k").ttl(ttl).acquire_within(LONG).await.unwrap();
    desk.command(&["DEL", "k"]);
    desk.they_lock("60000");
    tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(desk.command(&["HGET", "k", THEM]).text(), "1");
    assert!(desk.pttl("k") > Duration::from_secs(10), "the other's lease was changed");
}

#[tokio::test]
async fn what_is_no_lock_of_this_dialect_is_refused_and_kept() {
    let desk = Desk::redisson().await;
    desk.command(&["SET", "text", "theirs", "PX", "60000"]);
    desk.command(&["RPUSH", "list", "a"]);
    desk.command(&["HSET", "hash", "mode", "write", "b983c153:1:write", "1"]);
    desk.command(&["HSET", "record", "name", "Ada"]);
    desk.assert_refused("text", "dialect=plain").await;
    desk.assert_refused("list", "a list").await;
    desk.assert_refused("hash", "RLock").await;
    desk.assert_refused("record", "RLock").await;
    assert_eq!(desk.command(&["GET", "text"]).text(), "theirs");
    assert_eq!(desk.command(&["HLEN", "hash"]).int(), Some(2));
}

#[tokio::test]
async fn an_attempt_that_runs_twice_needs_one_release() {
    let desk = Desk::redisson().await;
    let guard = desk.acquire("k").await;
    desk.proxy.replay("EVALSHA").unwrap();
    assert_eq!(desk.command(&["HVALS", "k"]).list()[0].text(), "1");
    guard.release().await.unwrap();
    assert!(!desk.exists("k"));
}

#[tokio::test]
async fn lost_answers_are_made_up_for() {
    let desk = Desk::redisson().await;
    assert_lost_answers_are_made_up_for(&desk, "EVALSHA").await;
}

#[tokio::test]
async fn an_attempt_carried_out_late_leaves_nothing() {
    let desk = Desk::redisson().await;
    assert_late_attempts_leave_nothing(&desk, "hset").await;
}

#[tokio::test]
async fn something_strange_at_one_key_does_not_end_the_leases_of_others() {
    let desk = Desk::redisson().await;
    assert_renewed_beside_something_strange(&desk, &["SET", "k", "text"]).await;
}
