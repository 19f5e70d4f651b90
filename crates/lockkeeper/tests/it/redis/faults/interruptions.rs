//! What an administrator or a crash can do to a server while locks are held and waited for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lockkeeper::{Guard, Loss};
use tokio::task::JoinSet;

use super::{
    modes::{ALL, PROXIED, on_each},
    site::{AGES, Site, assert_exclusive, comes_free, released},
};
use crate::tools::LONG;

/// Long enough that a pause of the machine is no loss, short enough to see renewals.
const TTL: Duration = Duration::from_secs(3);

#[test]
fn script_flush_while_held() {
    on_each(ALL, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
        site.command(&["SCRIPT", "FLUSH"]);
        // One renewal at least without a script, one with it.
        tokio::time::sleep(TTL).await;
        assert_exclusive(&guard, &other).await;
        site.command(&["SCRIPT", "FLUSH"]);
        let fence = guard.fence();
        guard.release().await.unwrap();
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    });
}

#[test]
fn script_flush_while_waiting() {
    on_each(ALL, async |site| {
        let other = site.other().await;
        let holder = other.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let fence = holder.fence();
        let waiter = site.waiter("the-key", AGES).await;
        site.command(&["SCRIPT", "FLUSH"]);
        holder.release().await.unwrap();
        is_served(waiter, &other, fence).await;
    });
}

/// Nobody sees anything of it.
#[test]
fn script_flush_all_the_time() {
    const N_FLUSHES: usize = 300;
    const PAUSE: Duration = Duration::from_millis(5);
    on_each(ALL, async |site| {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        // Two processes to a key: half of the locks are waited for.
        for key in ["a", "a", "b", "b"] {
            let lock = site.locks().await.lock(key).ttl(AGES);
            let is_over = Arc::clone(&is_over);
            tasks.spawn(async move {
                let mut fences = Vec::new();
                while !is_over.load(Ordering::SeqCst) {
                    let guard = lock.acquire().await.unwrap();
                    fences.push(guard.fence());
                    guard.release().await.unwrap();
                }
                assert!(fences.is_sorted(), "{fences:?}");
            });
        }
        for _ in 0..N_FLUSHES {
            site.command(&["SCRIPT", "FLUSH"]);
            tokio::time::sleep(PAUSE).await;
        }
        is_over.store(true, Ordering::SeqCst);
        tasks.join_all().await;
    });
}

/// Kills every connection: here, commands and subscriptions share one.
fn client_kill(site: &Site) {
    for kind in ["normal", "pubsub"] {
        site.command(&["CLIENT", "KILL", "TYPE", kind]);
    }
}

#[test]
fn client_kill_while_held() {
    on_each(ALL, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
        client_kill(&site);
        tokio::time::sleep(TTL / 2).await;
        // Also the connection that renewals use.
        client_kill(&site);
        tokio::time::sleep(TTL).await;
        assert_exclusive(&guard, &other).await;
        client_kill(&site);
        let fence = guard.fence();
        released(guard).await;
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    });
}

/// The message that its turn has come cannot reach it; it asks again.
#[test]
fn client_kill_while_waiting() {
    on_each(ALL, async |site| {
        let other = site.other().await;
        let holder = other.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let fence = holder.fence();
        let waiter = site.waiter("the-key", AGES).await;
        site.each_proxy(lab::proxy::Proxy::refuse);
        client_kill(&site);
        released(holder).await;
        site.each_proxy(lab::proxy::Proxy::heal);
        is_served(waiter, &other, fence).await;
    });
}

/// The holder is told at its next renewal, not at the end of its lease; waiters go on, and the
/// fence grows.
#[test]
fn flushall() {
    on_each(ALL, async |site| {
        wiped(site, |site| drop(site.command(&["FLUSHALL"]))).await;
    });
}

#[test]
fn restarted_empty() {
    on_each(PROXIED, async |site| {
        wiped(site, |site| {
            site.servers.iter_mut().for_each(|server| server.restart_empty().unwrap());
        })
        .await;
    });
}

async fn wiped(mut site: Site, wipe: impl FnOnce(&mut Site)) {
    let locks = site.locks().await;
    let guard = locks.lock("the-key").ttl(3 * TTL).acquire().await.unwrap();
    let unused = locks.lock("unused").acquire().await.unwrap();
    let (fence, unused_fence) = (guard.fence(), unused.fence());
    unused.release().await.unwrap();
    let waiter = site.waiter("the-key", AGES).await;
    wipe(&mut site);
    let loss = tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    assert!(matches!(loss, Loss::TakenAway(_)), "{loss:?}");
    assert!(!guard.is_held());
    is_served(waiter, &site.other().await, fence).await;
    comes_free(&locks, "unused", unused_fence).await.release().await.unwrap();
}

async fn is_served(waiter: tokio::task::JoinHandle<Guard>, other: &lockkeeper::Locks, after: u64) {
    let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(guard.fence() > after || after == 0, "{guard:?} after {after}");
    assert_exclusive(&guard, other).await;
    released(guard).await;
}
