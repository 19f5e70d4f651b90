//! Sentinels that replace the primary.

use std::time::Duration;

use lab::redis::{Sentinels, Server};
use lockkeeper::{ErrorKind, Locks};

use super::load::Load;
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

async fn connect(all: &Sentinels) -> Locks {
    Locks::connect(&all.url()).await.unwrap()
}

/// Waits until every replica has what is stored for a key.
fn wait_for_replicas(all: &Sentinels, key: &str) {
    lab::wait_until("the replicas have the lock", || {
        for server in all.servers.iter().filter(|server| server.is_running()) {
            if server.command(&["KEYS", &format!("*{key}")])?.list().is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_is_followed_and_a_hold_that_was_copied_is_kept() {
    let all = Sentinels::start().unwrap();
    let (here, there) = (connect(&all).await, connect(&all).await);
    let guard = here.lock("kept").ttl(LONG).acquire().await.unwrap();
    wait_for_replicas(&all, "kept");
    all.fail_over().unwrap();
    assert!(guard.is_held());
    let waits = there.lock("kept").ttl(TTL);
    let waiter = tokio::spawn(async move { waits.acquire_within(LONG).await.unwrap() });
    while here.who("kept").await.map_or(true, |who| who.line.is_empty()) {
        assert!(!waiter.is_finished(), "a second holder");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let fence = guard.fence();
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(guard.fence() > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_was_not_copied_is_lost_and_told_so() {
    let all = Sentinels::start().unwrap();
    let locks = connect(&all).await;
    let guard = locks.lock("gone").ttl(TTL).acquire().await.unwrap();
    wait_for_replicas(&all, "gone");
    // As if the copies had not come in time.
    let primary = all.primary_number().unwrap();
    for (_, server) in all.servers.iter().enumerate().filter(|(number, _)| *number != primary) {
        server.config_set("replica-read-only", "no").unwrap();
        server.command(&["FLUSHALL"]).unwrap();
    }
    let fence = guard.fence();
    all.fail_over().unwrap();
    tokio::time::timeout(LONG, guard.lost()).await.expect("nobody told of the loss");
    assert!(!guard.is_held());
    let next = locks.lock("gone").acquire_within(LONG).await.unwrap();
    assert!(next.fence() > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn failovers_under_load_are_followed() {
    let mut all = Sentinels::start().unwrap();
    let load = Load::start(&all.url(), "busy").await;
    load.goes_on();
    all.fail_over().unwrap();
    load.goes_on();
    all.kill_primary().unwrap();
    load.goes_on();
    load.end_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_only_hangs_is_left_when_it_is_replaced() {
    let all = Sentinels::start().unwrap();
    let locks = connect(&all).await;
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    let primary = all.primary_number().unwrap();
    all.servers[primary].stop().unwrap();
    // Long enough for the sentinels to see it, agree and act.
    let mut guard = None;
    for _ in 0..10 {
        guard = locks.lock("a").acquire_within(LONG).await.ok();
        if guard.is_some() {
            break;
        }
    }
    assert!(guard.is_some_and(|guard| guard.is_held()));
    all.servers[primary].go_on().unwrap();
    assert!(locks.lock("b").acquire_within(LONG).await.unwrap().is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinels_of_the_url_may_go_once_others_are_known() {
    let mut all = Sentinels::start().unwrap();
    let url = format!("redis+sentinel://{}/locks", all.sentinels[0].address());
    let locks = Locks::connect(&url).await.unwrap();
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    all.sentinels[0].kill().unwrap();
    all.fail_over().unwrap();
    let guard = locks.lock("a").acquire_within(LONG).await.unwrap();
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_a_login_of_their_own() {
    let all = Sentinels::start_with_passwords("one", "two").unwrap();
    let hosts = all.url().replace("redis+sentinel://", "");
    let url = |password: &str, sentinel_password: &str| {
        format!("redis+sentinel://:{password}@{hosts}?sentinel-password={sentinel_password}")
    };
    let locks = Locks::connect(&url("one", "two")).await.unwrap();
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
    for (wrong, word) in [(url("one", "canary"), "sentinel"), (url("canary", "two"), "password")] {
        let error = Locks::connect(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_us_from_the_primary_is_said() {
    let mut all = Sentinels::start().unwrap();
    let error = Locks::connect(&all.url().replace("/locks", "/other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("\"other\""), "{error}");

    let server = Server::start().unwrap();
    let url = format!("redis+sentinel://{}/locks", server.address());
    let error = Locks::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("sentinel"), "{error}");

    for sentinel in &mut all.sentinels {
        sentinel.kill().unwrap();
    }
    let error = Locks::connect(&all.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    for sentinel in &all.sentinels {
        assert!(error.to_string().contains(&sentinel.address()), "{error}");
    }
}
