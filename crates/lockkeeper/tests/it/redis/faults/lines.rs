//! Lines that last long: the time that is left to a line is the clock of those who stand in it.

use lockkeeper::{Key, conformance::Neighbour};

use super::{
    modes::{Mode, NATIVE, SENTINEL, on_each},
    site::{AGES, Site, released, until},
};
use crate::{neighbour::Process, tools::LONG};

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

/// Has the line be nearly over, and everybody in it have as much time left as before.
const AGE: &str = "\
    local clock, nearly_over = redis.call('PTTL', KEYS[1]), tonumber(ARGV[1]) \
    for i, place in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do \
      local left = clock - struct.unpack('<I4', place, #place - 3) \
      place = struct.pack('<c0I4', string.sub(place, 1, #place - 4), nearly_over - left) \
      redis.call('LSET', KEYS[1], i - 1, place) \
    end \
    return redis.call('PEXPIRE', KEYS[1], nearly_over)";

fn age(site: &Site) {
    let line = line_of(site).unwrap();
    let aged = site.servers[0].command(&["EVAL", AGE, "1", &line, NEARLY_OVER]).unwrap();
    assert_eq!(aged.int(), Some(1), "{aged:?}");
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

/// Has the place of the first in line be over.
const END_OF_THE_FIRST: &str = "\
    local clock, place = redis.call('PTTL', KEYS[1]), redis.call('LINDEX', KEYS[1], 0) \
    place = struct.pack('<c0I4', string.sub(place, 1, #place - 4), clock) \
    return redis.call('LSET', KEYS[1], 0, place)";

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
            let ended = site.servers[0].command(&["EVAL", END_OF_THE_FIRST, "1", &line]).unwrap();
            assert!(ended.is_ok(), "{ended:?}");
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

/// For how many milliseconds each in the line still counts as alive.
fn left_of_places(site: &Site) -> Vec<i64> {
    let line = line_of(site).unwrap();
    let clock = clock(site);
    let places = site.servers[0].command(&["LRANGE", &line, "0", "-1"]).unwrap();
    let ends_at = |place: &lab::redis::Reply| *place.bytes().last_chunk().unwrap();
    places
        .list()
        .iter()
        .map(|place| clock - i64::from(u32::from_le_bytes(ends_at(place))))
        .collect()
}

/// Those who died just before a line was given new time are forgotten as soon as any other, and cost one place
/// together, not each.
#[test]
fn the_dead_do_not_outlive_a_prolongation() {
    const N_DEAD: usize = 6;
    /// As long as a place lasts.
    const PLACE_MS: i64 = 3000;
    on_each(LINED, async |site| {
        let key = Key::new("the-key").unwrap();
        let holder = site.other().await.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let mut dead: Vec<_> = (0..N_DEAD).map(|_| Process::start(site.url())).collect();
        for waiter in &mut dead {
            waiter.wait_in_line(&key, AGES).await.unwrap();
        }
        for waiter in &mut dead {
            waiter.kill().await.unwrap();
        }
        age(&site);
        let alive = site.waiter("the-key", AGES).await;
        assert!(clock(&site) > 800_000, "the line was not given new time");
        let left = left_of_places(&site);
        assert_eq!(left.len(), N_DEAD + 1);
        assert!(left.iter().all(|left| *left <= PLACE_MS), "{left:?}");
        released(holder).await;
        let guard = tokio::time::timeout(LONG, alive).await.unwrap().unwrap();
        released(guard).await;
        assert_eq!(line_of(&site), None);
    });
}
