//! Many locks that are released in the same moment: one script frees them all, and none suffers from another.

use lab::proxy::{Proxy, Then};
use lockkeeper::{ErrorKind, Guard, Locks};
use tokio::task::JoinSet;

use super::{
    modes::{ALL, Mode, NATIVE, PROXIED, REDLOCK, on_each},
    site::{AGES, Site, assert_exclusive, comes_free, released, until},
};
use crate::tools::LONG;

/// Where there is such a script.
const MERGING: &[Mode] = &[NATIVE, REDLOCK];

fn key(number: usize) -> String {
    format!("lock-{number:02}")
}

async fn all_held(locks: &Locks) -> Vec<Guard> {
    let mut guards = Vec::new();
    for number in 0..40 {
        guards.push(locks.lock(&key(number)).ttl(AGES).acquire().await.unwrap());
    }
    guards
}

async fn all_released(guards: Vec<Guard>) {
    guards.into_iter().map(released).collect::<JoinSet<_>>().join_all().await;
}

async fn are_free(guards: Vec<(String, u64)>, other: &Locks) {
    for (key, fence) in guards {
        comes_free(other, &key, fence).await.release().await.unwrap();
    }
}

fn names(guards: &[Guard]) -> Vec<(String, u64)> {
    guards.iter().map(|guard| (guard.key().to_owned(), guard.fence())).collect()
}

/// Whether every server has run a script for many.
fn are_merged(site: &Site) -> bool {
    let info = site.command(&["INFO", "commandstats"]);
    info.iter().all(|info| info.text().contains("cmdstat_mget"))
}

/// All are taken and freed, and somebody else can have each of them.
async fn are_freed(site: &Site, free: impl AsyncFnOnce(Vec<Guard>)) {
    let (locks, other) = (site.locks().await, site.other().await);
    let guards = all_held(&locks).await;
    let names = names(&guards);
    free(guards).await;
    are_free(names, &other).await;
}

#[test]
fn many_released_at_once() {
    on_each(ALL, async |site| are_freed(&site, all_released).await);
}

#[test]
fn many_dropped_at_once() {
    on_each(ALL, async |site| are_freed(&site, async |guards| drop(guards)).await);
}

/// That the tests here are about what they say.
#[test]
fn many_are_released_by_one_script() {
    on_each(MERGING, async |site| {
        let locks = site.locks().await;
        while !are_merged(&site) {
            all_released(all_held(&locks).await).await;
        }
    });
}

#[test]
fn script_flush_before_many_are_released() {
    on_each(ALL, async |site| {
        let released_after = async |guards| {
            site.command(&["SCRIPT", "FLUSH"]);
            all_released(guards).await;
        };
        are_freed(&site, released_after).await;
    });
}

#[test]
fn reply_lost_on_releasing_many() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in [Then::Silence, Then::Cut] {
            let guards = all_held(&locks).await;
            let names = names(&guards);
            site.each_proxy(|proxy| proxy.lose_replies(1, key(20), then));
            all_released(guards).await;
            let have_lost = || site.proxies.iter().all(Proxy::has_lost_replies);
            until("replies to be lost", have_lost).await;
            are_free(names, &other).await;
        }
    });
}

/// One was taken away and is another's, one is waited for, and all others are simply released.
#[test]
fn some_of_many_are_not_simply_ours() {
    on_each(MERGING, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        let guards = all_held(&locks).await;
        let mut names = names(&guards);
        let (lost, _) = names.remove(30);
        let (wanted, fence) = names.remove(10);
        for server in &site.servers {
            let found = server.command(&["KEYS", &format!("*{lost}")]).unwrap();
            server.command(&["DEL", &found.list()[0].text()]).unwrap();
        }
        let theirs = comes_free(&other, &lost, 0).await;
        let waiter = site.waiter(&wanted, AGES).await;
        let answers = guards.into_iter().map(|guard| {
            let was_lost = guard.key() == lost;
            async move { (was_lost, guard.release().await) }
        });
        for (was_lost, answer) in answers.collect::<JoinSet<_>>().join_all().await {
            let kind = answer.err().map(|error| error.kind());
            assert_eq!(kind, was_lost.then_some(ErrorKind::Lost));
        }
        assert_exclusive(&theirs, &locks).await;
        let next = tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
        assert!(next.fence() > fence);
        released(next).await;
        are_free(names, &other).await;
    });
}
