//! A cluster whose slots move and whose nodes die.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use lab::redis::{Cluster, Server};
use lockkeeper::{ErrorKind, Guard, Locks, event::Event};
use tokio::task::JoinHandle;

use super::load::Load;
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

/// The slot and the node of what is stored for a key.
fn place_of(cluster: &Cluster, key: &str) -> (u16, usize) {
    for number in cluster.primaries().unwrap() {
        let found = cluster.nodes[number].command(&["KEYS", &format!("*{key}")]).unwrap();
        if let Some(name) = found.list().first() {
            return (cluster.slot_of(&name.text()).unwrap(), number);
        }
    }
    panic!("no node has {key:?}");
}

fn another_primary(cluster: &Cluster, than: usize) -> usize {
    cluster.primaries().unwrap().into_iter().find(|number| *number != than).unwrap()
}

async fn connect(cluster: &Cluster) -> Locks {
    Locks::connect(&cluster.url()).await.unwrap()
}

/// Waits for the lock in a task; it stands in the line of the server when this returns.
async fn wait_in_line(locks: &Locks, key: &'static str) -> JoinHandle<Guard> {
    let lock = locks.lock(key).ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire_within(LONG).await.unwrap() });
    while locks.who(key).await.unwrap().line.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    waiter
}

/// Longer than it takes to renew.
async fn a_renewal() {
    tokio::time::sleep(TTL / 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_takes_its_lock_and_its_line_along() {
    let cluster = Cluster::start().unwrap();
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let guard = here.lock("moving").ttl(TTL).acquire().await.unwrap();
    let (slot, from) = place_of(&cluster, "moving");
    let waiter = wait_in_line(&there, "moving").await;

    let to = another_primary(&cluster, from);
    cluster.move_slot(slot, to).unwrap();
    a_renewal().await;
    assert!(guard.is_held() && !waiter.is_finished());
    assert_eq!(place_of(&cluster, "moving"), (slot, to));
    assert_eq!(there.who("moving").await.unwrap().line.len(), 1);

    let fence = guard.fence();
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(guard.fence() > fence);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_slot_is_on_its_way_locks_are_held_and_taken_and_nothing_is_in_two_places() {
    let cluster = Cluster::start().unwrap();
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let guard = here.lock("torn").ttl(TTL).acquire().await.unwrap();
    let (slot, from) = place_of(&cluster, "torn");
    let to = another_primary(&cluster, from);
    cluster.begin_move(slot, to).unwrap();

    // What is there stays and is renewed; what is not there goes to the other node (ASK).
    a_renewal().await;
    assert!(guard.is_held());
    let first = guard.fence();
    guard.release().await.unwrap();
    let guard = there.lock("torn").ttl(TTL).acquire_within(LONG).await.unwrap();
    assert_eq!(place_of(&cluster, "torn"), (slot, to));
    assert!(guard.fence() > first);
    // Not granted twice, though a free key is looked for at the old node first.
    let other = here.lock("torn").try_acquire().await;
    assert!(!matches!(other, Ok(Some(_))), "{other:?}");
    a_renewal().await;
    assert!(guard.is_held());
    let waits = here.lock("torn").ttl(TTL);
    let waiter = tokio::spawn(async move { waits.acquire_within(LONG).await.unwrap() });

    // A key that were at both nodes could not be moved.
    cluster.finish_move(slot, to).unwrap();
    assert!(guard.is_held() && !waiter.is_finished());
    let second = guard.fence();
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(guard.fence() > second);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_a_slot_are_kept_while_some_are_here_and_some_are_there() {
    let cluster = Cluster::start().unwrap();
    let troubles = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&troubles);
    let watch = move |event: &Event<'_>| {
        if let Event::Troubled { error, .. } = event {
            heard.lock().unwrap().push(error.to_string());
        }
    };
    let url = format!("{}?dialect=plain", cluster.url());
    let locks = Locks::builder().url(&url).observe(watch).connect().await.unwrap();
    // Many, so that they are renewed together.
    let names: Vec<_> = (0..50).map(|number| format!("{{slot}}{number}")).collect();
    let mut taken = Vec::new();
    for name in names.iter().map(String::as_str).chain(["{slot}goes"]) {
        let lock = locks.lock(name).ttl(TTL);
        taken.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
    }
    let mut guards = Vec::new();
    for guard in taken {
        guards.push(guard.await.unwrap());
    }
    let (slot, from) = place_of(&cluster, "goes");
    let to = another_primary(&cluster, from);
    cluster.begin_move(slot, to).unwrap();
    let port = cluster.nodes[to].port().to_string();
    let migrate = ["MIGRATE", "127.0.0.1", &port, "{slot}goes", "0", "10000"];
    assert!(cluster.nodes[from].command(&migrate).unwrap().is_ok());
    // Longer than the leases.
    for _ in 0..3 {
        a_renewal().await;
    }
    assert!(guards.iter().all(Guard::is_held));
    let torn = troubles.lock().unwrap().iter().find(|said| said.contains("TRYAGAIN")).cloned();
    assert_eq!(torn, None, "renewals that could have gone alone");
    cluster.finish_move(slot, to).unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_given_up_while_its_slot_is_on_its_way_is_free() {
    let cluster = Cluster::start().unwrap();
    let locks = connect(&cluster).await;
    let guard = locks.lock("left").acquire().await.unwrap();
    let (slot, from) = place_of(&cluster, "left");
    guard.release().await.unwrap();
    let to = another_primary(&cluster, from);
    cluster.begin_move(slot, to).unwrap();
    for _ in 0..3 {
        // Taken at the new node, and released there.
        let guard = locks.lock("left").acquire_within(LONG).await.unwrap();
        assert_eq!(place_of(&cluster, "left"), (slot, to));
        guard.release().await.unwrap();
    }
    for node in &cluster.nodes {
        let found = node.command(&["KEYS", "*left"]).unwrap();
        assert!(found.list().is_empty(), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_under_load_trouble_nobody() {
    let cluster = Cluster::start().unwrap();
    let load = Load::start(&cluster.url(), "busy").await;
    load.goes_on();
    // Nothing else is there: the fence counter stays also while nobody holds the lock.
    let (slot, _) = place_of(&cluster, "}n");
    for _ in 0..4 {
        let from = cluster.node_of(slot).unwrap();
        cluster.move_slot(slot, another_primary(&cluster, from)).unwrap();
        load.goes_on();
    }
    load.end_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_killed_under_load_is_replaced() {
    let mut cluster = Cluster::start().unwrap();
    let locks = connect(&cluster).await;
    let guard = locks.lock("busy").acquire().await.unwrap();
    let (slot, _) = place_of(&cluster, "busy");
    guard.release().await.unwrap();
    let load = Load::start(&cluster.url(), "busy").await;
    load.goes_on();
    let killed = cluster.kill_primary_of(slot).unwrap();
    load.goes_on();
    cluster.nodes[killed].restart().unwrap();
    load.goes_on();
    load.end_well().await;
    assert!(locks.who("busy").await.unwrap().holder.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_outlives_the_primary_of_its_slot() {
    let mut cluster = Cluster::start().unwrap();
    let locks = connect(&cluster).await;
    // Longer than a failover takes.
    let guard = locks.lock("kept").ttl(LONG).acquire().await.unwrap();
    let (slot, primary) = place_of(&cluster, "kept");
    lab::wait_until("the replica has the lock", || {
        Ok(cluster.nodes[primary + 3].command(&["KEYS", "*kept"])?.list().len() == 1)
    })
    .unwrap();
    cluster.kill_primary_of(slot).unwrap();
    assert!(guard.is_held());
    let other = connect(&cluster).await;
    assert!(other.lock("kept").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(other.lock("kept").try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_on_all_nodes_are_listed() {
    let cluster = Cluster::start().unwrap();
    let locks = connect(&cluster).await;
    let names: Vec<_> = (0..20).map(|number| format!("listed-{number:02}")).collect();
    let guard = locks.several(names.iter().map(String::as_str)).acquire().await.unwrap();
    let listed = locks.list().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|it| it.key.as_str().to_owned()).collect();
    assert_eq!(listed, names);
    let n_used = cluster.nodes[..3]
        .iter()
        .filter(|node| !node.command(&["KEYS", "*listed*"]).unwrap().list().is_empty());
    assert!(n_used.count() > 1, "all keys are on one node");
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_cluster_is_refused() {
    let alone = Server::start().unwrap();
    let error = Locks::connect(&format!("redis+cluster://{}", alone.address())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("redis:"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_is_no_single_server() {
    let cluster = Cluster::start().unwrap();
    let locks = Locks::connect(&cluster.nodes[0].url()).await.unwrap();
    let mut errors = Vec::new();
    for number in 0..20 {
        errors.extend(locks.lock(&format!("key-{number}")).try_acquire().await.err());
    }
    assert!(!errors.is_empty(), "one node has all keys");
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("redis+cluster:"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_cluster_gone_is_a_clear_error() {
    let mut cluster = Cluster::start().unwrap();
    let url = cluster.url();
    let address = cluster.nodes[0].address();
    let (locks, name) = (connect(&cluster).await, "half");
    locks.lock(name).acquire().await.unwrap().release().await.unwrap();
    // Two shards of three, with their replicas.
    for number in [1, 2, 4, 5] {
        cluster.nodes[number].kill().unwrap();
    }
    lab::wait_until("the rest knows that the cluster is down", || {
        Ok(cluster.nodes[0].command(&["CLUSTER", "INFO"])?.text().contains("cluster_state:fail"))
    })
    .unwrap();
    let error = Locks::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
    for key in ["a", "b", "c", "d", name] {
        let error = locks.lock(key).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    }

    for number in [0, 3] {
        cluster.nodes[number].kill().unwrap();
    }
    let error = Locks::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains(&address), "{error}");
}
