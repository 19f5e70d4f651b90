//! Answers that are lost after the server did what it was asked.

use std::time::Duration;

use lab::{
    proxy::{Proxy, Then, Way},
    redis::Client,
};
use lockkeeper::{ErrorKind, Locks};

use super::{super::labs::Redlock, KEY, eventually, in_time};
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

async fn hasty(lab: &Redlock) -> Locks {
    let locks = Locks::builder().url(&lab.url()).answer_within(Duration::from_millis(700));
    locks.connect().await.unwrap()
}

fn lose(proxies: &[Proxy], needle: &str, then: Then) {
    proxies.iter().for_each(|proxy| proxy.lose_replies(1, needle, then));
}

/// All servers have been asked what they were not to answer; a majority may have decided before.
async fn are_lost(lab: &Redlock) {
    let are_lost = || lab.proxies.iter().all(Proxy::has_lost_replies);
    eventually("the answers to be lost", are_lost).await;
}

#[tokio::test]
async fn a_lost_answer_to_asking_does_not_block_the_one_who_asked() {
    for then in [Then::Cut, Then::Silence] {
        for n_servers in [1, 3, 5] {
            let lab = Redlock::start();
            let locks = hasty(&lab).await;
            locks.lock("another").acquire().await.unwrap().release().await.unwrap();
            lose(&lab.proxies[..n_servers], KEY, then);
            // Far beyond what may be waited for here: it must not be its own stranger.
            let lock = locks.lock(KEY).ttl(LONG * 2);
            let guard = lock.acquire_within(LONG).await.unwrap();
            are_lost(&lab).await;
            assert!(lab.locks().await.lock(KEY).try_acquire().await.unwrap().is_none());
            let _ = guard.release().await;
            let next = lab.locks().await.lock(KEY).acquire_within(LONG).await.unwrap();
            next.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn one_who_only_tried_leaves_nothing_behind() {
    for then in [Then::Cut, Then::Silence] {
        let lab = Redlock::start();
        let locks = hasty(&lab).await;
        lose(&lab.proxies[..3], KEY, then);
        in_time(locks.lock(KEY).ttl(LONG * 2).try_acquire()).await.unwrap_err();
        are_lost(&lab).await;
        eventually("all five to be free", || lab.n_held() == 0).await;
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_renewal_is_not_a_loss() {
    for then in [Then::Cut, Then::Silence] {
        let lab = Redlock::start();
        let locks = hasty(&lab).await;
        let guard = locks.lock(KEY).ttl(TTL * 2).acquire().await.unwrap();
        lose(&lab.proxies, KEY, then);
        tokio::time::sleep(TTL * 3).await;
        are_lost(&lab).await;
        assert!(guard.is_held());
        assert!(lab.locks().await.lock(KEY).try_acquire().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_release_frees_the_key() {
    for then in [Then::Cut, Then::Silence] {
        let lab = Redlock::start();
        let locks = hasty(&lab).await;
        let guard = locks.lock(KEY).ttl(LONG * 2).acquire().await.unwrap();
        eventually("all five to have it", || lab.n_held() == 5).await;
        lose(&lab.proxies, KEY, then);
        let _ = in_time(guard.release()).await;
        are_lost(&lab).await;
        eventually("all five to be free", || lab.n_held() == 0).await;
        locks.lock(KEY).acquire_within(LONG).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_whose_fence_cannot_be_had_is_given_back() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    // From the second time on, the counters are known to be there.
    locks.lock(KEY).acquire().await.unwrap().release().await.unwrap();
    for server in &lab.five.servers {
        for counter in server.command(&["KEYS", "*lk:fence:*"]).unwrap().list() {
            server.command(&["DEL", &counter.text()]).unwrap().not_an_error().unwrap();
            server.command(&["LPUSH", &counter.text(), "x"]).unwrap().not_an_error().unwrap();
        }
    }
    let error = locks.lock(KEY).ttl(LONG * 2).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    eventually("all five to be free", || lab.n_held() == 0).await;
}

/// Reads what a server runs until somebody who asked for the lock has given it back over the same
/// connection.
fn see_it_given_back(mut monitor: Client) {
    let mut asked_by = None;
    loop {
        let line = monitor.receive().unwrap().text();
        let is_ours = line.contains(KEY) && !line.contains(" lua] ");
        // As in: 1700000000.000001 [0 127.0.0.1:4711] "SET" "invoice:42" …
        let who = line.split(' ').nth(2).map(str::to_owned);
        match (&asked_by, is_ours) {
            (None, true) if line.contains("\"SET\"") => asked_by = who,
            (Some(_), true) if asked_by == who && line.contains("\"EVAL") => return,
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_is_on_its_way_is_followed_by_its_release() {
    let lab = Redlock::start();
    let locks = Locks::builder().url(&lab.url()).answer_within(Duration::from_millis(1500));
    let locks = locks.connect().await.unwrap();
    let held = &lab.proxies[..3];
    held.iter().for_each(|proxy| proxy.hold(Way::Up));
    // Somebody else asks when the connections have been silent for a second: others are opened, and
    // the release has to go both ways.
    let (one, other) = (locks.lock(KEY).ttl(LONG * 2), locks.lock("another"));
    let later = async {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        other.try_acquire().await.unwrap_err();
    };
    let (answer, ()) = in_time(async { tokio::join!(one.try_acquire(), later) }).await;
    answer.unwrap_err();
    let monitors = lab.servers()[..3].iter().map(|server| server.monitor().unwrap());
    let monitors: Vec<_> = monitors.collect();
    held.iter().for_each(Proxy::heal);
    for monitor in monitors {
        tokio::task::spawn_blocking(|| see_it_given_back(monitor)).await.unwrap();
    }
    eventually("all five to be free", || lab.n_held() == 0).await;
}
