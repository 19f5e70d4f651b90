//! Everything that can go wrong on the way, in no order, while many want few locks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lab::proxy::{Proxy, Then, Way};
use tokio::task::JoinSet;

use super::{
    modes::{REDLOCK, SINGLE, on_each},
    site::{AGES, Site, comes_free},
};
use crate::{
    tools::LONG,
    ward::{Ward, want},
};

const LASTS: Duration = Duration::from_secs(5);
const KEYS: [&str; 2] = ["the-key", "the-other-key"];
const N_PROCESSES: usize = 3;

fn trouble(site: &Site) {
    let proxy = &site.proxies[fastrand::usize(0..site.proxies.len())];
    let server = &site.servers[fastrand::usize(0..site.servers.len())];
    let way = if fastrand::bool() { Way::Up } else { Way::Down };
    let then = if fastrand::bool() { Then::Cut } else { Then::Silence };
    match fastrand::u8(0..9) {
        0 => proxy.cut(),
        1 => proxy.cut_mid_frame(way),
        2 => proxy.cut_after(way, fastrand::usize(0..300)),
        3 => proxy.lose_replies(1, KEYS[0], then),
        4 => proxy.lose_replies(2, "", then),
        5 => proxy.hold(way),
        6 => proxy.delay(way, Duration::from_millis(fastrand::u64(0..200))),
        7 => drop(server.command(&["SCRIPT", "FLUSH"]).unwrap()),
        _ => drop(server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap()),
    }
}

#[test]
fn nothing_is_held_twice_in_a_storm_or_by_nobody_after_it() {
    on_each(SINGLE, async |site| storm(site, AGES).await);
}

/// A majority decides, so a release does not wait for the others: what one of them was not told
/// ends with its ttl.
#[test]
fn nothing_is_held_twice_by_a_majority_in_a_storm_or_by_nobody_after_it() {
    on_each(&[REDLOCK], async |site| storm(site, LONG / 3).await);
}

async fn storm(site: Site, ttl: Duration) {
    let wards: Arc<[Ward; 2]> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..N_PROCESSES {
        let limit = Duration::from_millis(300);
        let locks = site.locks_with(|builder| builder.answer_within(limit)).await;
        for n in [0, 0, 1] {
            let (lock, wards) = (locks.lock(KEYS[n]).ttl(ttl), Arc::clone(&wards));
            let is_over = Arc::clone(&is_over);
            tasks.spawn(async move { want(lock, &wards[n], &is_over).await });
        }
    }
    let began_at = Instant::now();
    while began_at.elapsed() < LASTS {
        trouble(&site);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..100))).await;
        if fastrand::u8(0..3) == 0 {
            site.each_proxy(Proxy::heal);
        }
    }
    site.each_proxy(Proxy::heal);
    is_over.store(true, Ordering::SeqCst);
    let ended = tokio::time::timeout(LONG, tasks.join_all()).await;
    assert!(ended.is_ok(), "held by nobody: {:?}", site.command(&["KEYS", "*"]));
    let other = site.other().await;
    for (key, ward) in KEYS.iter().zip(&*wards) {
        let fence = ward.last_fence.load(Ordering::SeqCst);
        comes_free(&other, key, fence).await.release().await.unwrap();
        assert!(ward.n_uses.load(Ordering::SeqCst) > 0, "{key} was never granted");
    }
}
