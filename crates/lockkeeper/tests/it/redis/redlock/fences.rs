//! The fence grows whichever majority grants it.

use std::time::Duration;

use lab::{
    proxy::{Proxy, Way},
    redis::Server,
};
use lockkeeper::Locks;

use super::{super::labs::Redlock, KEY, cut_off, eventually};
use crate::tools::LONG;

async fn next_fence(locks: &Locks) -> u64 {
    let guard = locks.lock(KEY).acquire_within(LONG).await.unwrap();
    let fence = guard.fence();
    // A release that a server which has just been cut off did not confirm is sent again.
    let _ = guard.release().await;
    fence
}

#[tokio::test]
async fn it_grows_when_different_majorities_grant_it() {
    let lab = Redlock::start();
    let locks = [lab.locks().await, lab.locks().await];
    let mut last = 0;
    for round in 0..20 {
        let out = [round % 5, (round * 2 + 1) % 5];
        out.iter().for_each(|number| cut_off(&lab.proxies[*number]));
        for locks in &locks {
            let fence = next_fence(locks).await;
            assert!(fence > last, "{fence} after {last} in round {round}");
            last = fence;
        }
        lab.proxies.iter().for_each(Proxy::heal);
    }
}

#[tokio::test]
async fn it_grows_when_the_counters_are_apart() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    let mut last = next_fence(&locks).await;
    for round in 0..10 {
        // One server is far ahead, another at each turn; the others must follow before they grant.
        let server = &lab.servers()[round % 5];
        for name in server.command(&["KEYS", "lk:fence:*"]).unwrap().list() {
            server.command(&["INCRBY", &name.text(), "1000000"]).unwrap().not_an_error().unwrap();
        }
        let fence = next_fence(&locks).await;
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        cut_off(&lab.proxies[round % 5]);
        let fence = next_fence(&locks).await;
        assert!(fence > last, "{fence} after {last} without the one that was ahead");
        last = fence;
        lab.proxies.iter().for_each(Proxy::heal);
    }
}

/// The largest number that a server has counted to; 0 if it has not begun.
fn counted(server: &Server) -> u64 {
    let names = server.command(&["KEYS", "lk:fence:*"]).unwrap();
    let numbers =
        names.list().iter().map(|name| server.command(&["GET", &name.text()]).unwrap().text());
    numbers.map(|number| number.parse().unwrap()).max().unwrap_or(0)
}

#[tokio::test]
async fn servers_that_answer_late_learn_a_fence_that_was_ahead() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    next_fence(&locks).await;
    let ahead = &lab.servers()[0];
    for name in ahead.command(&["KEYS", "lk:fence:*"]).unwrap().list() {
        ahead.command(&["INCRBY", &name.text(), "1000000"]).unwrap().not_an_error().unwrap();
    }
    let late = &lab.servers()[3..];
    late.iter().for_each(|server| server.stop().unwrap());
    let fence = next_fence(&locks).await;
    late.iter().for_each(|server| server.go_on().unwrap());
    // Two of the three that granted the lock may forget the fence now: the others know it.
    eventually("those who were late know the fence", || {
        late.iter().all(|server| counted(server) > fence)
    })
    .await;
}

/// Three servers agree on a number far ahead, as after a wrong clock. They are a majority, and always the first to
/// answer; the others must learn the fence all the same.
#[tokio::test]
async fn servers_that_are_always_the_last_to_answer_learn_a_fence_that_was_ahead() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    lab.proxies[3..].iter().for_each(|proxy| proxy.delay(Way::Up, Duration::from_millis(20)));
    let mut last = next_fence(&locks).await;
    let (near, far) = lab.servers().split_at(3);
    for _ in 0..3 {
        for server in near {
            for name in server.command(&["KEYS", "lk:fence:*"]).unwrap().list() {
                let words = ["INCRBY", &name.text(), "4000000000"];
                server.command(&words).unwrap().not_an_error().unwrap();
            }
        }
        last = next_fence(&locks).await;
        eventually("those who are late know the fence", || {
            far.iter().all(|server| counted(server) > last)
        })
        .await;
    }
    for server in &near[..2] {
        server.command(&["FLUSHALL"]).unwrap().not_an_error().unwrap();
    }
    near[2].stop().unwrap();
    let fence = next_fence(&locks).await;
    near[2].go_on().unwrap();
    assert!(fence > last, "{fence} after {last}");
}

#[tokio::test]
async fn it_grows_though_servers_forget() {
    let mut lab = Redlock::start();
    let locks = lab.locks().await;
    let mut last = next_fence(&locks).await;
    for round in 0..10 {
        match round % 3 {
            0 => lab.five.servers[round % 5].restart_empty().unwrap(),
            1 => {
                lab.servers()[round % 5].command(&["FLUSHALL"]).unwrap().not_an_error().unwrap();
            }
            _ => {
                for server in lab.servers() {
                    server.command(&["FLUSHALL"]).unwrap().not_an_error().unwrap();
                }
            }
        }
        let fence = next_fence(&locks).await;
        assert!(fence > last, "{fence} after {last} in round {round}");
        last = fence;
    }
}
