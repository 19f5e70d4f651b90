//! Grants that count only when replicas have them.

use std::{sync::Arc, time::Duration};

use lab::redis::{Reply, Sentinels, Server};
use lockkeeper::{ErrorKind, Guard, Locks, Result, blocking::block_on};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};

use crate::tools::LONG;

async fn connect(all: &Sentinels, n_replicas: u32, dialect: &str) -> Locks {
    let url = format!("{}?wait-replicas={n_replicas}&dialect={dialect}", all.url());
    Locks::connect(&url).await.unwrap()
}

fn n_keys(all: &Sentinels, number: usize, key: &str) -> usize {
    let found = all.servers[number].command(&["KEYS", &format!("*{key}")]).unwrap();
    found.list().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_too_few_replicas_have_is_given_back() {
    let all = Sentinels::start().unwrap();
    let primary = all.primary_number().unwrap();
    for dialect in ["native", "plain", "redisson"] {
        let (enough, too_many) = (connect(&all, 2, dialect).await, connect(&all, 3, dialect).await);
        let guard = enough.lock(dialect).acquire_within(LONG).await.unwrap();
        for number in 0..all.servers.len() {
            assert_eq!(n_keys(&all, number, dialect), 1, "{dialect} at {number}");
        }
        guard.release().await.unwrap();
        let error = too_many.lock(dialect).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        assert!(error.to_string().contains("2 of the 3 replicas"), "{error}");
        assert_eq!(n_keys(&all, primary, dialect), 0, "{dialect}: not given back");
        let error = too_many.lock(dialect).acquire_within(Duration::from_secs(2)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NoQuorum);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_waits_for_replicas_does_not_keep_the_lock_meanwhile() {
    let all = Sentinels::start().unwrap();
    for dialect in ["native", "plain", "redisson"] {
        let (content, too_many) =
            (connect(&all, 0, dialect).await, connect(&all, 3, dialect).await);
        let waits = too_many.lock(dialect);
        let n_before = all.primary().unwrap().n_calls("wait").unwrap();
        let waiter = tokio::spawn(async move { waits.acquire_within(LONG).await });
        lab::wait_until("it waits for replicas", || Ok(all.primary()?.n_calls("wait")? > n_before))
            .unwrap();
        let guard = content.lock(dialect).acquire_within(LONG).await.unwrap();
        assert!(guard.is_held() && !waiter.is_finished(), "{dialect}");
        waiter.abort();
    }
}

/// Waits for the lock in a task; it stands in the line of the server when this returns.
async fn stand_in_line(locks: &Locks) -> JoinHandle<Result<Guard>> {
    let lock = locks.lock("passed");
    let waiter = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(3)).await });
    while locks.who("passed").await.unwrap().line.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    waiter
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_handed_over_has_to_reach_the_replicas_too() {
    let all = Sentinels::start().unwrap();
    let (here, there) = (connect(&all, 2, "native").await, connect(&all, 2, "native").await);
    let guard = here.lock("passed").acquire_within(LONG).await.unwrap();
    let fence = guard.fence();
    let waiter = stand_in_line(&there).await;
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.fence() > fence);

    // The replicas have seen the one who waits, and one does not see that its turn comes.
    let waiter = stand_in_line(&here).await;
    let mut client = all.primary().unwrap().client().unwrap();
    assert!(client.command(&["SET", "mark", "1"]).unwrap().is_ok());
    assert_eq!(client.command(&["WAIT", "2", "10000"]).unwrap(), Reply::Int(2));
    let replica = (all.primary_number().unwrap() + 1) % all.servers.len();
    all.servers[replica].stop().unwrap();
    guard.release().await.unwrap();
    let error = waiter.await.unwrap().unwrap_err();
    all.servers[replica].go_on().unwrap();
    assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::TimedOut), "{error}");
}

#[test]
fn renewals_do_not_stand_behind_grants_that_wait_for_replicas() {
    let all = Sentinels::start().unwrap();
    // Without a runtime, so that grants and renewals have the same place to go out from.
    let locks = block_on(connect(&all, 2, "native"));
    let held = locks.lock("held").ttl(Duration::from_secs(2));
    let held = block_on(held.acquire_within(LONG)).unwrap();
    let mut monitor = all.primary().unwrap().monitor().unwrap();
    let other = block_on(locks.lock("other").acquire_within(LONG)).unwrap();
    let (mut granted_at, mut renewed_at, mut waits_at) = (None, None, Vec::new());
    // Both wait, each where it was sent.
    while !granted_at.as_ref().is_some_and(|at| waits_at.contains(at))
        || !renewed_at.as_ref().is_some_and(|at| waits_at.contains(at))
    {
        let line = monitor.receive().unwrap().text();
        // Such as `1.2 [0 127.0.0.1:3] "WAIT" "2" "500"`.
        let from = line.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
        if line.contains("\"WAIT\"") {
            waits_at.push(from);
        } else if line.contains("\"SET\"") && line.contains("k:other") {
            granted_at = Some(from);
        } else if line.contains("\"EVALSHA\"") && line.contains("k:held") {
            renewed_at = Some(from);
        }
    }
    assert_ne!(granted_at, renewed_at);
    assert!(held.is_held() && other.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_no_replica_has_does_not_count() {
    let all = Sentinels::start().unwrap();
    for dialect in ["native", "plain", "redisson"] {
        let locks = connect(&all, 1, dialect).await;
        let guard = locks.lock(dialect).ttl(Duration::from_secs(2)).acquire_within(LONG).await;
        let guard = guard.unwrap();
        let primary = all.primary_number().unwrap();
        let replicas = (0..all.servers.len()).filter(|number| *number != primary);
        let replicas: Vec<_> = replicas.map(|number| &all.servers[number]).collect();
        replicas.iter().for_each(|replica| replica.stop().unwrap());
        tokio::time::timeout(LONG, guard.lost()).await.expect("it was renewed all the same");
        replicas.iter().for_each(|replica| replica.go_on().unwrap());
        lab::wait_until("the replicas are back", || {
            Ok(all.servers[primary].info("role")? == "master"
                && all.servers[primary].command(&["WAIT", "2", "100"])? == Reply::Int(2))
        })
        .unwrap();
    }
}

/// A network that keeps back, once, whatever is sent behind a `WAIT`; other connections are not touched.
struct Slow {
    port: u16,
    /// May still keep something back.
    may_keep: Arc<Semaphore>,
    may_go_on: Arc<Semaphore>,
}

impl Slow {
    async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (may_keep, may_go_on) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(0)));
        let slow = Self { port, may_keep: may_keep.clone(), may_go_on: may_go_on.clone() };
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (may_keep, may_go_on) = (may_keep.clone(), may_go_on.clone());
                tokio::spawn(bring(client, server, may_keep, may_go_on));
            }
        });
        slow
    }
}

async fn bring(
    client: TcpStream,
    server: TcpStream,
    may_keep: Arc<Semaphore>,
    may_go_on: Arc<Semaphore>,
) {
    let ((mut from, mut back), (mut replies, mut to)) = (client.into_split(), server.into_split());
    tokio::spawn(async move { copy(&mut replies, &mut back).await });
    let (mut bytes, mut waits) = (vec![0; 65_536], false);
    while let Ok(n_read @ 1..) = from.read(&mut bytes).await {
        if waits && let Ok(kept) = may_keep.try_acquire() {
            kept.forget();
            may_go_on.acquire().await.unwrap().forget();
        }
        waits |= bytes[..n_read].windows(8).any(|word| word == b"$4\r\nWAIT");
        if to.write_all(&bytes[..n_read]).await.is_err() {
            return;
        }
    }
}

/// A grant is given back because too few replicas have it, and the release is late. It must not undo the grant
/// that the same guard is waiting for.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_does_not_undo_the_next_grant() {
    for dialect in ["native", "plain", "redisson"] {
        let primary = Server::start().unwrap();
        let port = primary.port();
        let replica = Server::start_with(&["--replicaof", &format!("127.0.0.1 {port}")]).unwrap();
        let is_there = || Ok(primary.command(&["WAIT", "1", "100"])? == Reply::Int(1));
        lab::wait_until("the replica is there", is_there).unwrap();
        let slow = Slow::to(port).await;
        let url = format!("redis://127.0.0.1:{}?wait-replicas=1&dialect={dialect}", slow.port);
        let locks = Locks::connect(&url).await.unwrap();
        let url = format!("redis://{}?dialect={dialect}", primary.address());
        let other = Locks::connect(&url).await.unwrap();
        replica.stop().unwrap();
        let lock = locks.lock("late").ttl(LONG * 2);
        let waiter = tokio::spawn(async move { lock.acquire_within(LONG).await });
        lab::wait_until("the release is kept back", || Ok(slow.may_keep.available_permits() == 0))
            .unwrap();
        replica.go_on().unwrap();
        let guard = waiter.await.unwrap().unwrap();
        let n_before = primary.n_calls("evalsha").unwrap();
        slow.may_go_on.add_permits(1);
        lab::wait_until("the late release arrives", || Ok(primary.n_calls("evalsha")? > n_before))
            .unwrap();
        let second = other.lock("late").try_acquire().await.unwrap();
        assert!(second.is_none() && guard.is_held(), "{dialect}: two holders");
        guard.release().await.unwrap();
    }
}
