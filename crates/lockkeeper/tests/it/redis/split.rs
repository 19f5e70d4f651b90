//! Servers of which each takes itself for the one to ask: fences grow all the same.

use lab::redis::{Cluster, Reply, Sentinels, Server};
use lockkeeper::Locks;

use crate::tools::LONG;

async fn connect(url: &str) -> Locks {
    Locks::connect(url).await.unwrap()
}

/// Takes the lock, and gives it back; answers its fence.
async fn fence(locks: &Locks, key: &str) -> u64 {
    let guard = locks.lock(key).acquire_within(LONG).await.unwrap();
    let fence = guard.fence();
    // It may be told that the lock is gone with the server that granted it.
    let _ = guard.release().await;
    fence
}

/// Sets the fence counters of all these servers back, by about four minutes: as on a server that has not seen
/// what another one gave.
fn set_back<'a>(servers: impl Iterator<Item = &'a Server>) {
    let mut n_counters = 0;
    for server in servers {
        for name in server.command(&["KEYS", "*}n"]).unwrap().list() {
            let words = ["DECRBY", &name.text(), "1000000000"];
            let now = server.command(&words).unwrap().not_an_error().unwrap();
            assert!(matches!(now, Reply::Int(number) if number > 1_000_000_000_000_000));
            n_counters += 1;
        }
    }
    assert!(n_counters > 0, "there is no counter");
}

/// By whatever way a lock is granted, its fence is above all before, though the server knows less than we do.
async fn fences_do_not_depend_on_what_the_server_has_seen(url: &str, set_back: impl Fn()) {
    let (here, there) = (connect(url).await, connect(url).await);
    let mut last = fence(&here, "told").await;
    // A free key, over a connection that has had numbers of this counter before.
    for _ in 0..3 {
        set_back();
        let next = fence(&here, "told").await;
        assert!(next > last, "taken: {next} after {last}");
        last = next;
    }
    // A lock that is handed over.
    let guard = here.lock("told").acquire_within(LONG).await.unwrap();
    last = guard.fence();
    let lock = there.lock("told");
    let waiter = tokio::spawn(async move { lock.acquire_within(LONG).await.unwrap() });
    while here.who("told").await.unwrap().line.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    set_back();
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    assert!(guard.fence() > last, "handed over: {} after {last}", guard.fence());
    last = guard.fence();
    set_back();
    guard.release().await.unwrap();
    // A key that was contended before is asked for by script.
    for locks in [&here, &there] {
        set_back();
        let next = fence(locks, "told").await;
        assert!(next > last, "asked for: {next} after {last}");
        last = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_with_sentinels_whatever_a_server_has_not_seen() {
    let all = Sentinels::start().unwrap();
    let set_back = || set_back(std::iter::once(all.primary().unwrap()));
    fences_do_not_depend_on_what_the_server_has_seen(&all.url(), set_back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_on_a_cluster_whatever_a_server_has_not_seen() {
    let cluster = Cluster::start().unwrap();
    let set_back = || {
        let primaries = cluster.primaries().unwrap();
        set_back(primaries.into_iter().map(|number| &cluster.nodes[number]));
    };
    fences_do_not_depend_on_what_the_server_has_seen(&cluster.url(), set_back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_past_those_that_a_deposed_primary_gave() {
    let all = Sentinels::start().unwrap();
    let (old, _) = all.depose().unwrap();
    // One asks the new primary, and has had numbers of its counter; then another comes to the old one.
    let locks = connect(&all.url()).await;
    fence(&locks, "split").await;
    let astray = connect(&all.servers[old].url()).await;
    let mut last = 0;
    for _ in 0..10 {
        last = last.max(fence(&astray, "split").await);
    }
    for n_grants in 0..2_000 {
        let next = fence(&locks, "split").await;
        assert!(next > last, "{next} after {last}, {n_grants} grants after the split");
        last = next;
    }
    // And so on by turns. Who asks the old one as a single server does not claim to know more than it does.
    for n_turns in 0..100 {
        last = last.max(fence(&astray, "split").await);
        let next = fence(&locks, "split").await;
        assert!(next > last, "{next} after {last}, turn {n_turns}");
        last = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_past_those_of_a_node_that_was_paused_and_comes_back() {
    let cluster = Cluster::start().unwrap();
    let (here, there) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    fence(&there, "paused").await;
    let guard = here.lock("paused").acquire().await.unwrap();
    let has_it = |node: &usize| {
        !cluster.nodes[*node].command(&["KEYS", "*paused"]).unwrap().list().is_empty()
    };
    let old = cluster.primaries().unwrap().into_iter().find(has_it).unwrap();
    let mut last = guard.fence();
    guard.release().await.unwrap();
    cluster.nodes[old].stop().unwrap();
    lab::wait_until("its replica takes over", || {
        Ok(cluster.nodes[old + 3].info("role")? == "master")
    })
    .unwrap();
    // One follows, and the other has asked nothing since: it goes to the old node first.
    for _ in 0..10 {
        let next = fence(&here, "paused").await;
        assert!(next > last);
        last = next;
    }
    cluster.nodes[old].go_on().unwrap();
    for _ in 0..200 {
        for locks in [&there, &here] {
            let next = fence(locks, "paused").await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }
}
