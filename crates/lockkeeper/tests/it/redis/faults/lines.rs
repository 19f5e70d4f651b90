//! Lines that last long: the time that is left to a line is the clock of those who stand in it.

use super::{
    modes::{Mode, NATIVE, SENTINEL, on_each},
    site::{AGES, Site, released, until},
};
use crate::tools::LONG;

const LINED: &[Mode] = &[NATIVE, SENTINEL];
/// So little time is left to a line that is about to be given more.
const NEARLY_OVER: &str = "100000";

fn line_of(site: &Site) -> Option<String> {
    let found = site.servers[0].command(&["KEYS", "lk:*l:the-key"]).unwrap();
    found.list().first().map(lab::redis::Reply::text)
}

fn clock(site: &Site) -> i64 {
    let line = line_of(site).unwrap();
    site.servers[0].command(&["PTTL", &line]).unwrap().int().unwrap()
}

fn age(site: &Site) {
    let line = line_of(site).unwrap();
    site.servers[0].command(&["PEXPIRE", &line, NEARLY_OVER]).unwrap();
}

/// A line has an expiry from the first moment on, and is gone with the last who stood in it.
#[test]
fn a_line_leaves_nothing_behind() {
    on_each(LINED, async |site| {
        let holder = site.other().await.lock("the-key").ttl(AGES).acquire().await.unwrap();
        assert_eq!(line_of(&site), None);
        let waiter = site.waiter("the-key", AGES).await;
        let clock = clock(&site);
        assert!((800_000..=900_000).contains(&clock), "{clock}");
        released(holder).await;
        released(tokio::time::timeout(LONG, waiter).await.unwrap().unwrap()).await;
        assert_eq!(line_of(&site), None);
    });
}

/// Whoever asks gives the line new time; those who stood in it before are served before.
#[test]
fn a_line_outlives_its_expiry() {
    on_each(LINED, async |site| {
        let holder = site.other().await.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let first = site.waiter("the-key", AGES).await;
        age(&site);
        // It asks again by itself.
        until("the line to last longer", || clock(&site) > 800_000).await;
        age(&site);
        let second = site.waiter("the-key", AGES).await;
        assert!(clock(&site) > 800_000);
        let mut fence = holder.fence();
        released(holder).await;
        for waiter in [first, second] {
            let guard = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
            assert!(guard.fence() > fence, "served out of turn");
            fence = guard.fence();
            released(guard).await;
        }
    });
}

/// One who was not heard of for longer than a place lasts is passed over.
#[test]
fn an_old_place_is_passed_over() {
    on_each(LINED, async |site| {
        let other = site.other().await;
        // It asks again within a second, and may be quicker than we are; but not always.
        for _ in 0..10 {
            let holder = other.lock("the-key").ttl(AGES).acquire().await.unwrap();
            let waiter = site.waiter("the-key", AGES).await;
            let line = line_of(&site).unwrap();
            let place = site.servers[0].command(&["LINDEX", &line, "0"]).unwrap().text();
            let old = format!("{}899999{}", &place[..38], &place[44..]);
            site.servers[0].command(&["LSET", &line, "0", &old]).unwrap();
            released(holder).await;
            let passed_by = other.lock("the-key").ttl(AGES).try_acquire().await.unwrap();
            let was_passed_over = passed_by.is_some();
            drop(passed_by);
            released(tokio::time::timeout(LONG, waiter).await.unwrap().unwrap()).await;
            if was_passed_over {
                return;
            }
        }
        panic!("a place that is over was served each time");
    });
}
