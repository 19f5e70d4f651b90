//! Slots of a cluster that are moved, or left half moved, while their locks are used.

use std::{process::Command, time::Duration};

use lab::redis::{Cluster, Reply};
use lockkeeper::{Guard, Locks};
use tokio::task::JoinHandle;

use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

/// A slot with a lock that is held and has a line, and where it is to be moved.
struct Site {
    cluster: Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl Site {
    async fn start(key: &'static str) -> (Self, Locks, Guard, JoinHandle<Guard>) {
        let cluster = Cluster::start().unwrap();
        let locks = Locks::connect(&cluster.url()).await.unwrap();
        let guard = locks.lock(key).ttl(TTL).acquire_within(LONG).await.unwrap();
        let primaries = cluster.primaries().unwrap();
        let site = Self { cluster, slot: 0, from: 0, to: 0 };
        let has_it = |node: &usize| !site.names(*node, "k").is_empty();
        let from = primaries.iter().copied().find(has_it).unwrap();
        let to = primaries.iter().copied().find(|node| *node != from).unwrap();
        let slot = site.cluster.slot_of(&site.names(from, "k")[0]).unwrap();
        let other = Locks::connect(&site.cluster.url()).await.unwrap();
        let waiter =
            tokio::spawn(
                async move { other.lock(key).ttl(TTL).acquire_within(LONG).await.unwrap() },
            );
        while locks.who(key).await.unwrap().line.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (Self { slot, from, to, ..site }, locks, guard, waiter)
    }

    /// The names of a kind that a node has: `k` for locks, `l` for lines, `n` for counters.
    fn names(&self, node: usize, kind: &str) -> Vec<String> {
        let words = ["KEYS", &format!("lk:{{???}}{kind}*")];
        let found = self.cluster.nodes[node].command(&words).unwrap();
        found.list().iter().map(Reply::text).collect()
    }

    fn begin(&self) {
        self.cluster.begin_move(self.slot, self.to).unwrap();
    }

    /// Moves what is of this kind, and leaves the rest.
    fn move_kind(&self, kind: &str) {
        let port = self.cluster.nodes[self.to].port().to_string();
        for name in self.names(self.from, kind) {
            let words = ["MIGRATE", "127.0.0.1", &port, &name, "0", "10000"];
            self.cluster.nodes[self.from].command(&words).unwrap().not_an_error().unwrap();
        }
    }

    /// Moves the rest. A key that were at both nodes could not be moved.
    fn finish(&self) {
        self.cluster.finish_move(self.slot, self.to).unwrap();
        self.has_one_counter();
    }

    fn has_one_counter(&self) {
        let primaries = self.cluster.primaries().unwrap();
        let counters = primaries.iter().flat_map(|node| self.names(*node, "n"));
        assert_eq!(counters.count(), 1, "counters of the slot");
    }
}

async fn served(waiter: JoinHandle<Guard>) -> Guard {
    tokio::time::timeout(LONG, waiter).await.expect("nobody is served").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_where_lock_and_line_have_gone_ahead_makes_no_second_counter() {
    let (site, locks, guard, waiter) = Site::start("ahead").await;
    site.begin();
    site.move_kind("k");
    site.move_kind("l");
    let fence = guard.fence();
    guard.release().await.unwrap();
    site.has_one_counter();
    site.finish();
    let guard = served(waiter).await;
    assert!(guard.fence() > fence);
    let fence = guard.fence();
    guard.release().await.unwrap();
    let guard = locks.lock("ahead").acquire_within(LONG).await.unwrap();
    assert!(guard.fence() > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_with_a_line_is_let_go_wherever_its_parts_are() {
    for gone_ahead in ["k", "l", "n"] {
        let (site, _, guard, waiter) = Site::start("torn").await;
        site.begin();
        site.move_kind(gone_ahead);
        let fence = guard.fence();
        // Not told that it was lost, nor left for its lease to end.
        guard.release().await.unwrap();
        let nodes = [site.from, site.to];
        let held = nodes.iter().flat_map(|node| site.names(*node, "k")).count();
        assert_eq!(held, 0, "the lock stays when {gone_ahead:?} has gone ahead");
        site.finish();
        assert!(served(waiter).await.fence() > fence);
    }
}

/// The lock is taken at one node while its counter is at the other: numbers taken first would be old by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_is_taken_when_the_lock_is_and_not_before() {
    let (site, _, guard, waiter) = Site::start("late").await;
    guard.release().await.unwrap();
    served(waiter).await.release().await.unwrap();
    // One who does not know that the key was contended.
    let locks = Locks::connect(&site.cluster.url()).await.unwrap();
    site.begin();
    site.cluster.nodes[site.to].stop().unwrap();
    let lock = locks.lock("late").ttl(TTL);
    let late = tokio::spawn(async move { lock.acquire_within(LONG).await.unwrap() });
    // Long enough to ask the old node, and too short for the new one to be given up.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let time = site.cluster.nodes[site.from].command(&["TIME"]).unwrap();
    let part = |number: usize| time.list()[number].text().parse::<u64>().unwrap();
    site.cluster.nodes[site.to].go_on().unwrap();
    let fence = served(late).await.fence();
    let floor = part(0) * 4_000_000 + part(1) * 4;
    assert!(fence > floor, "{fence} is of {} us before the grant", (floor - fence) / 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_left_half_moved_is_mended_by_the_servers_own_tool() {
    let (site, locks, guard, waiter) = Site::start("mended").await;
    site.begin();
    site.move_kind("k");
    site.move_kind("l");
    let fence = guard.fence();
    guard.release().await.unwrap();
    let address = site.cluster.nodes[site.from].address();
    let fixed = Command::new("redis-cli")
        .args(["--cluster", "fix", &address, "--cluster-yes"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&fixed.stdout);
    assert!(fixed.status.success() && !said.contains("BUSYKEY"), "{said}");
    site.cluster.node_of(site.slot).unwrap();
    site.has_one_counter();
    let guard = served(waiter).await;
    assert!(guard.fence() > fence);
    guard.release().await.unwrap();
    assert!(locks.lock("mended").acquire_within(LONG).await.unwrap().is_held());
}

/// The key is held, and one who has seen that is told to be the other.
async fn contended(key: &'static str) -> (Site, Guard, Locks) {
    let (site, locks, guard, waiter) = Site::start(key).await;
    guard.release().await.unwrap();
    served(waiter).await.release().await.unwrap();
    let guard = locks.lock(key).ttl(LONG).acquire_within(LONG).await.unwrap();
    let other = Locks::connect(&site.cluster.url()).await.unwrap();
    assert!(other.lock(key).try_acquire().await.unwrap().is_none());
    (site, guard, other)
}

/// An attempt meets a slot whose counter has gone ahead; the one that is granted may be another. Nobody else is there.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_refused_does_not_make_the_release_a_loss() {
    let (site, guard, other) = contended("refused").await;
    guard.release().await.unwrap();
    site.begin();
    site.move_kind("n");
    let lock = other.lock("refused").ttl(LONG);
    let waiter = tokio::spawn(async move { lock.acquire_within(LONG).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    site.finish();
    let released = served(waiter).await.release().await;
    assert!(released.is_ok(), "{}", released.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_contended_is_busy_or_free_also_while_its_slot_moves() {
    let (site, guard, other) = contended("moving").await;
    site.begin();
    let fence = guard.fence();
    assert!(other.lock("moving").try_acquire().await.unwrap().is_none(), "it is held");
    // One who has not seen any contention is told the same.
    let third = Locks::connect(&site.cluster.url()).await.unwrap();
    assert!(third.lock("moving").try_acquire().await.unwrap().is_none(), "it is held");
    guard.release().await.unwrap();
    let guard = other.lock("moving").try_acquire().await.unwrap().expect("it is free");
    assert!(guard.fence() > fence);
    let fence = guard.fence();
    guard.release().await.unwrap();
    let guard = other.lock("moving").acquire_within(LONG).await.unwrap();
    assert!(guard.fence() > fence);
    guard.release().await.unwrap();
    site.finish();
    let guard = third.lock("moving").acquire_within(LONG).await.unwrap();
    assert!(guard.fence() > fence);
    guard.release().await.unwrap();
}

/// Who stood in line before the slot was torn waits until it is whole again, however long that takes.
#[tokio::test(flavor = "multi_thread")]
async fn who_stands_in_line_while_the_slot_is_torn_is_served_when_it_is_whole() {
    let (site, _, guard, waiter) = Site::start("in line").await;
    site.begin();
    site.move_kind("k");
    let fence = guard.fence();
    // Longer than trouble may last.
    tokio::time::sleep(2 * TTL).await;
    assert!(guard.is_held(), "renewed all the time");
    assert!(!waiter.is_finished(), "{:?}", waiter.await);
    guard.release().await.unwrap();
    site.finish();
    assert!(served(waiter).await.fence() > fence);
}
