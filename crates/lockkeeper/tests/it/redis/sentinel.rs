//! Sentinels that replace the primary.

use std::time::Duration;

use lab::redis::{Sentinels, Server};
use lockkeeper::{ErrorKind, Locks};

use super::load::Load;
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);
/// So long that a hold outlives the search for the new primary on a busy machine.
const OUTLIVES: Duration = Duration::from_secs(12);

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

/// How many of our connections a server has.
fn n_connections(server: &Server) -> usize {
    let clients = server.command(&["CLIENT", "LIST"]).unwrap().text();
    clients.lines().filter(|line| line.contains(" name=lockkeeper ")).count()
}

/// The connections to a primary that was replaced end, though it lives on and knows nothing of it.
fn wait_until_left(all: &Sentinels, old: usize) {
    lab::wait_until("the old primary is left", || Ok(n_connections(&all.servers[old]) == 0))
        .unwrap();
}

fn has_key(server: &Server, key: &str) -> bool {
    !server.command(&["KEYS", &format!("*{key}")]).unwrap().list().is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_was_replaced_and_lives_on_is_asked_no_more() {
    let all = Sentinels::start().unwrap();
    for dialect in ["native", "plain", "redisson"] {
        let url = format!("{}?dialect={dialect}", all.url());
        let locks = Locks::connect(&url).await.unwrap();
        let kept = locks.lock("kept").ttl(OUTLIVES).acquire().await.unwrap();
        wait_for_replicas(&all, "kept");
        let (old, new) = all.depose().unwrap();
        wait_until_left(&all, old);
        // Whatever comes now comes from the new one; what that one knows is kept there.
        for key in ["a", "b"] {
            let guard = locks.lock(key).ttl(TTL).acquire_within(LONG).await.unwrap();
            assert!(has_key(&all.servers[new], key) && !has_key(&all.servers[old], key));
            guard.release().await.unwrap();
        }
        lab::wait_until("it is renewed at the new one only", || {
            Ok(!has_key(&all.servers[old], "kept"))
        })
        .unwrap();
        assert!(kept.is_held() && has_key(&all.servers[new], "kept"), "{dialect}");
        kept.release().await.unwrap();
        all.put_right(old).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_only_a_deposed_primary_knows_is_lost() {
    let all = Sentinels::start().unwrap();
    let locks = connect(&all).await;
    let guard = locks.lock("gone").ttl(TTL).acquire().await.unwrap();
    let (old, new) = all.depose().unwrap();
    // As if the new primary had not seen it.
    all.servers[new].command(&["FLUSHALL"]).unwrap();
    let other = connect(&all).await;
    let next = other.lock("gone").ttl(TTL).acquire_within(LONG).await.unwrap();
    tokio::time::timeout(LONG, guard.lost()).await.expect("the old primary has it renewed");
    assert!(!guard.is_held() && next.is_held() && next.fence() > guard.fence());
    wait_until_left(&all, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_was_paused_and_comes_back_is_asked_no_more() {
    let all = Sentinels::start().unwrap();
    let (busy, idle) = (connect(&all).await, connect(&all).await);
    for locks in [&busy, &idle] {
        locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    }
    let old = all.primary_number().unwrap();
    all.keep_in_office(old).unwrap();
    all.servers[old].stop().unwrap();
    let new = all.another_than(old).unwrap();
    let guard = busy.lock("a").ttl(LONG).acquire_within(LONG).await.unwrap();
    assert!(has_key(&all.servers[new], "a"));
    all.servers[old].go_on().unwrap();
    // It takes itself for the primary; one who has not asked anything meanwhile knows better.
    wait_until_left(&all, old);
    assert!(idle.lock("a").try_acquire().await.unwrap().is_none());
    assert!(!has_key(&all.servers[old], "a"));
    guard.release().await.unwrap();
    assert_eq!(all.servers[old].info("role").unwrap(), "master");
}

/// Has the first sentinel make another server primary and tell nobody but us; then it dies. The old and the new primary
/// both live on. Gives their numbers.
async fn promote_in_secret(all: &mut Sentinels, locks: &Locks) -> (usize, usize) {
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    let old = all.primary_number().unwrap();
    all.keep_in_office(old).unwrap();
    let_publish(all, "-publish");
    all.sentinels[1..].iter().for_each(|sentinel| sentinel.stop().unwrap());
    lab::wait_until("the first sentinel agrees to a failover", || {
        all.sentinels[0].command(&["SENTINEL", "FAILOVER", "locks"])?.not_an_error().map(|_| true)
    })
    .unwrap();
    wait_until_left(all, old);
    let is_primary = |number: &usize| all.servers[*number].info("role").unwrap() == "master";
    let new = (0..all.servers.len()).find(|number| *number != old && is_primary(number)).unwrap();
    all.keep_in_office(new).unwrap();
    all.sentinels[0].kill().unwrap();
    all.sentinels[1..].iter().for_each(|sentinel| sentinel.go_on().unwrap());
    let_publish(all, "+publish");
    (old, new)
}

/// Whether the first sentinel can tell anything to the others, directly or by way of a server.
fn let_publish(all: &Sentinels, rule: &str) {
    for server in all.servers.iter().chain(&all.sentinels[1..]) {
        server.command(&["ACL", "SETUSER", "default", rule]).unwrap().not_an_error().unwrap();
    }
}

/// Ends our connections to a server, so that the way has to be asked for.
fn hang_up(server: &Server) {
    for kind in ["normal", "pubsub"] {
        server.command(&["CLIENT", "KILL", "TYPE", kind]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_that_only_a_dead_sentinel_knew_is_forgotten_when_it_is_undone() {
    let mut all = Sentinels::start().unwrap();
    let locks = connect(&all).await;
    let (old, new) = promote_in_secret(&mut all, &locks).await;
    // The other sentinels, which are most of them, name the old primary. That does not do while the new one lives.
    for _ in 0..5 {
        hang_up(&all.servers[new]);
        let got = locks.lock("b").ttl(LONG).try_acquire().await;
        assert!(!has_key(&all.servers[old], "b"), "{got:?}");
    }
    // They make the new one a replica again.
    all.put_right(new).unwrap();
    let guard = locks.lock("c").acquire_within(LONG).await.unwrap();
    assert!(guard.is_held() && has_key(&all.servers[old], "c"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_is_forgotten_when_all_who_knew_of_it_are_dead() {
    let mut all = Sentinels::start().unwrap();
    let locks = connect(&all).await;
    let (old, new) = promote_in_secret(&mut all, &locks).await;
    all.servers[new].kill().unwrap();
    // The others must have had time to be told, and a caller gives up earlier than that.
    let mut guard = None;
    for _ in 0..10 {
        guard = locks.lock("a").acquire_within(LONG).await.ok();
        if guard.is_some() {
            break;
        }
    }
    assert!(guard.as_ref().is_some_and(lockkeeper::Guard::is_held));
    assert!(has_key(&all.servers[old], "a"));
}

/// What the page recommends for those who reach the old primary and no sentinel.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_primary_that_wants_replicas_grants_and_renews_nothing() {
    let all = Sentinels::start().unwrap();
    for server in &all.servers {
        server.config_set("min-replicas-to-write", "1").unwrap();
        server.config_set("min-replicas-max-lag", "2").unwrap();
    }
    let old = all.primary().unwrap();
    let astray = Locks::connect(&old.url()).await.unwrap();
    let guard = astray.lock("kept").ttl(TTL).acquire_within(LONG).await.unwrap();
    all.depose().unwrap();
    tokio::time::timeout(LONG, guard.lost()).await.expect("it was renewed without a replica");
    let error = astray.lock("new").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_while_no_sentinel_was_heard_is_asked_for() {
    let mut all = Sentinels::start().unwrap();
    let locks = connect(&all).await;
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    // The connections to the sentinels are gone; one of them comes back, after another is primary.
    for sentinel in &all.sentinels {
        sentinel.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    }
    let (old, new) = all.depose().unwrap();
    for number in 0..2 {
        all.sentinels[number].kill().unwrap();
    }
    lab::wait_until("the old primary is left", || {
        // Whoever uses the locks has the sentinels listened to again.
        let guard = lockkeeper::blocking::block_on(locks.lock("a").acquire_within(LONG));
        drop(guard);
        Ok(n_connections(&all.servers[old]) == 0)
    })
    .unwrap();
    let guard = locks.lock("b").acquire_within(LONG).await.unwrap();
    assert!(guard.is_held() && has_key(&all.servers[new], "b"));
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
    assert_eq!(locks.place(), all.url());
    assert!(!format!("{locks:?}").contains("sentinel-password"), "{locks:?}");
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
