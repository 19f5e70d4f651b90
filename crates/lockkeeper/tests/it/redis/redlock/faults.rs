//! Servers that die, stall, forget, and come back.

use std::time::Duration;

use lab::proxy::Proxy;
use lockkeeper::ErrorKind;

use super::{super::labs::Redlock, KEY, cut_off, eventually, in_time};
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn two_dead_servers_are_borne_and_three_are_not() {
    let mut lab = Redlock::start();
    let (here, there) = (lab.locks().await, lab.locks().await);
    let guard = here.lock(KEY).ttl(TTL).acquire().await.unwrap();
    lab.five.servers[0].kill().unwrap();
    lab.five.servers[1].kill().unwrap();
    tokio::time::sleep(TTL).await;
    assert!(guard.is_held(), "lost though a majority kept it");
    assert!(there.lock(KEY).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = there.lock("another").ttl(TTL).acquire_within(LONG).await.unwrap();
    lab.five.servers[2].kill().unwrap();
    in_time(guard.lost()).await;
    let error = in_time(here.lock(KEY).ttl(LONG * 2).try_acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    eventually("the two that live to be free", || lab.n_held() == 0).await;
}

#[tokio::test]
async fn silent_servers_hold_nobody_up() {
    let lab = Redlock::start();
    let locks = lab.patient_locks().await;
    lab.proxies[..2].iter().for_each(Proxy::black_hole);
    in_time(async {
        for _ in 0..20 {
            let guard = locks.lock(KEY).acquire().await.unwrap();
            assert!(guard.is_held());
            guard.release().await.unwrap();
        }
    })
    .await;
    // Where the silent ones would decide, they count as gone once they are known to be silent.
    let other = lab.locks().await;
    lab.servers()[2].command(&["SET", KEY, "theirs"]).unwrap().not_an_error().unwrap();
    in_time(async { while other.lock(KEY).try_acquire().await.is_err() {} }).await;
    assert!(other.lock(KEY).try_acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn three_silent_servers_are_told_from_a_busy_key() {
    let lab = Redlock::start();
    let limit = Duration::from_millis(700);
    let locks = lockkeeper::Locks::builder().url(&lab.url()).answer_within(limit);
    let locks = locks.connect().await.unwrap();
    lab.proxies[..3].iter().for_each(Proxy::black_hole);
    in_time(async {
        loop {
            let error = locks.lock(KEY).try_acquire().await.unwrap_err();
            match error.kind() {
                // As long as an answer may still be on its way.
                ErrorKind::Unreachable => {}
                kind => break assert_eq!(kind, ErrorKind::NoQuorum, "{error}"),
            }
        }
    })
    .await;
    eventually("the others to be free", || lab.n_held() == 0).await;
    lab.proxies.iter().for_each(Proxy::heal);
    locks.lock(KEY).acquire_within(LONG).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn what_stalled_servers_run_late_is_undone() {
    let lab = Redlock::start();
    let limit = Duration::from_millis(700);
    let locks = lockkeeper::Locks::builder().url(&lab.url()).answer_within(limit);
    let locks = locks.connect().await.unwrap();
    lab.servers()[..3].iter().for_each(|server| server.stop().unwrap());
    in_time(locks.lock(KEY).ttl(LONG * 2).try_acquire()).await.unwrap_err();
    lab.servers().iter().for_each(|server| server.go_on().unwrap());
    // Long before the ttl: somebody else gets it, and nothing comes up behind.
    let other = lab.locks().await;
    let guard = other.lock(KEY).acquire_within(LONG).await.unwrap();
    guard.release().await.unwrap();
    eventually("all five to be free", || lab.n_held() == 0).await;
}

#[tokio::test]
async fn servers_that_forget_are_a_minority_until_they_are_not() {
    let mut lab = Redlock::start();
    let (here, there) = (lab.locks().await, lab.locks().await);
    let guard = here.lock(KEY).ttl(TTL).acquire().await.unwrap();
    eventually("all five to have it", || lab.n_held() == 5).await;
    lab.five.servers[3].restart_empty().unwrap();
    lab.five.servers[4].restart_empty().unwrap();
    tokio::time::sleep(TTL).await;
    assert!(guard.is_held(), "lost though a majority remembered it");
    assert!(there.lock(KEY).try_acquire().await.unwrap().is_none());
    lab.five.servers[2].restart_empty().unwrap();
    in_time(guard.lost()).await;
    let next = there.lock(KEY).acquire_within(LONG).await.unwrap();
    assert!(next.fence() > guard.fence());
    next.release().await.unwrap();
}

#[tokio::test]
async fn forgotten_scripts_and_killed_connections_are_borne() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    for round in 0..10 {
        let key = format!("{KEY}:{round}");
        let guard = locks.lock(&key).ttl(TTL).acquire().await.unwrap();
        for server in lab.servers() {
            server.command(&["SCRIPT", "FLUSH"]).unwrap().not_an_error().unwrap();
            if round % 2 == 1 {
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            }
        }
        assert!(lab.locks().await.lock(&key).try_acquire().await.unwrap().is_none());
        // Whose connection was killed may hear an error; the release is sent again all the same.
        let released = guard.release().await;
        assert!(round % 2 == 1 || released.is_ok(), "{released:?}");
        locks.lock(&key).acquire_within(LONG).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let lab = Redlock::start();
    let locks = lab.locks().await;
    lab.proxies[..2].iter().for_each(cut_off);
    locks.lock(KEY).acquire().await.unwrap().release().await.unwrap();
    lab.proxies.iter().for_each(Proxy::heal);
    in_time(async {
        loop {
            let guard = locks.lock(KEY).acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            let n_held = lab.n_held();
            guard.release().await.unwrap();
            if n_held == 5 {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn ten_who_come_at_once_all_get_their_turn() {
    let lab = Redlock::start();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let locks = lab.locks().await;
        tasks.spawn(async move {
            let mut fences = Vec::new();
            for _ in 0..5 {
                let guard = locks.lock(KEY).acquire_within(LONG).await.unwrap();
                fences.push(guard.fence());
                guard.release().await.unwrap();
            }
            fences
        });
    }
    let mut fences: Vec<_> = tasks.join_all().await.concat();
    assert_eq!(fences.len(), 50);
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 50, "a fence was given twice");
    eventually("all five to be free", || lab.n_held() == 0).await;
}
