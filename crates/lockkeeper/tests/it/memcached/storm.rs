//! Everything that can go wrong on the way, in no order, while many want few locks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lab::proxy::{Then, Way};
use lockkeeper::{Key, Locks, conformance::Neighbour};
use tokio::task::JoinSet;

use super::site::{AGES, Site, comes_free};
use crate::{
    neighbour::Process,
    tools::LONG,
    ward::{Ward, want},
};

const LASTS: Duration = Duration::from_secs(5);
const KEYS: [&str; 2] = ["the-key", "the other key"];
const N_PROGRAMS: usize = 3;

fn trouble(site: &Site) {
    let way = if fastrand::bool() { Way::Up } else { Way::Down };
    let then = if fastrand::bool() { Then::Cut } else { Then::Silence };
    match fastrand::u64(0..8) {
        0 => site.proxy.cut(),
        1 => site.proxy.cut_mid_frame(way),
        2 => site.proxy.cut_after(way, fastrand::usize(0..300)),
        3 => site.proxy.lose_replies(1, KEYS[0], then),
        4 => site.proxy.lose_replies(2, "", then),
        5 => site.proxy.hold(way),
        _ => site.proxy.delay(way, Duration::from_millis(fastrand::u64(0..200))),
    }
}

#[tokio::test]
async fn nothing_is_held_twice_in_a_storm_or_by_nobody_after_it() {
    let site = Site::start();
    let wards: Arc<[Ward; 2]> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..N_PROGRAMS {
        let locks = Locks::builder().url(&site.url()).answer_within(Duration::from_millis(300));
        let locks = locks.connect().await.unwrap();
        for n in [0, 0, 1] {
            let (lock, wards) = (locks.lock(KEYS[n]).ttl(AGES), Arc::clone(&wards));
            let is_over = Arc::clone(&is_over);
            tasks.spawn(async move { want(lock, &wards[n], &is_over).await });
        }
    }
    let began_at = Instant::now();
    while began_at.elapsed() < LASTS {
        trouble(&site);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..100))).await;
        if fastrand::u64(0..3) == 0 {
            site.proxy.heal();
        }
    }
    site.proxy.heal();
    is_over.store(true, Ordering::SeqCst);
    let ended = tokio::time::timeout(LONG, tasks.join_all()).await;
    let other = site.other().await;
    assert!(ended.is_ok(), "held by nobody: {:?}", other.list().await);
    for (key, ward) in KEYS.iter().zip(&*wards) {
        comes_free(&other, key).await.release().await.unwrap();
        assert!(ward.n_uses.load(Ordering::SeqCst) > 0, "{key} was never granted");
    }
}

/// When it goes on, it knows before anything else that it holds nothing, and what it sends late
/// takes nothing from the next one.
#[tokio::test]
async fn holder_stopped_past_its_ttl() {
    let site = Site::start();
    let (key, ttl) = (Key::new("the-key").unwrap(), Duration::from_secs(2));
    let other = site.other().await;
    let mut holder = Process::start(&site.url());
    holder.try_hold(&key, ttl).await.unwrap().unwrap();
    holder.stop().await.unwrap();
    let next = comes_free(&other, key.as_str()).await;
    holder.go_on().await.unwrap();
    assert!(!holder.is_held().await.unwrap(), "two hold it");
    assert!(holder.release().await.is_err(), "a lost lock was released");
    assert!(next.is_held());
    assert_eq!(holder.try_hold(&key, ttl).await.unwrap(), None);
    next.release().await.unwrap();
}
