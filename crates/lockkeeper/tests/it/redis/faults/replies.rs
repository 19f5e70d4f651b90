//! The server did it, and its reply is lost.

use std::time::Duration;

use lab::proxy::{Proxy, Then};

use super::{
    modes::{Mode, NATIVE, PROXIED, on_each},
    site::{AGES, Site, assert_exclusive, assert_out_of_reach, comes_free, released, until},
};
use crate::tools::LONG;

/// Where one can look who holds a lock.
const LOOKING: &[Mode] = &[NATIVE];
const BOTH: [Then; 2] = [Then::Silence, Then::Cut];

fn has_lost(site: &Site) -> bool {
    site.proxies.iter().all(Proxy::has_lost_replies)
}

#[test]
fn reply_lost_on_acquire() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in BOTH {
            site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            until("replies to be lost", || has_lost(&site)).await;
            assert_exclusive(&guard, &other).await;
            let fence = guard.fence();
            released(guard).await;
            comes_free(&other, "the-key", fence).await.release().await.unwrap();
        }
    });
}

/// One who only tries is told, and the lock it was given unknowingly is given back.
#[test]
fn reply_lost_on_trying() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in BOTH {
            site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
            let error = locks.lock("the-key").ttl(AGES).try_acquire().await.unwrap_err();
            assert_out_of_reach(&error);
            until("replies to be lost", || has_lost(&site)).await;
            comes_free(&other, "the-key", 0).await.release().await.unwrap();
        }
    });
}

#[test]
fn reply_lost_on_standing_in_line() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in BOTH {
            let holder = other.lock("the-key").ttl(AGES).acquire().await.unwrap();
            // The first request finds it busy, the second one stands in line, others ask again.
            site.each_proxy(|proxy| proxy.lose_replies(2, "the-key", then));
            let lock = locks.lock("the-key").ttl(AGES);
            let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
            until("replies to be lost", || has_lost(&site)).await;
            let fence = holder.fence();
            holder.release().await.unwrap();
            let guard = waiter.await.unwrap();
            assert!(guard.fence() > fence || fence == 0, "{then:?}: {guard:?} after {fence}");
            assert_exclusive(&guard, &other).await;
            released(guard).await;
        }
    });
}

/// A lost reply costs no lock: there is time for another try within the lease.
#[test]
fn reply_lost_on_renew() {
    on_each(PROXIED, async |site| {
        const TTL: Duration = Duration::from_secs(3);
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in BOTH {
            let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
            site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
            until("the reply to a renewal to be lost", || has_lost(&site)).await;
            tokio::time::sleep(TTL).await;
            assert_exclusive(&guard, &other).await;
            released(guard).await;
        }
    });
}

/// Whatever is told to the one who releases, the lock is free; and releasing it once more in the
/// background takes nothing from the next one.
#[test]
fn reply_lost_on_release() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in BOTH {
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            let fence = guard.fence();
            site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
            released(guard).await;
            until("replies to be lost", || has_lost(&site)).await;
            let next = comes_free(&other, "the-key", fence).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let again = locks.lock("the-key").try_acquire().await;
            assert!(!matches!(again, Ok(Some(_))), "{then:?}: {again:?}");
            assert!(next.is_held());
            next.release().await.unwrap();
        }
    });
}

#[test]
fn reply_lost_on_dropping() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for then in BOTH {
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            let fence = guard.fence();
            site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
            drop(guard);
            until("the reply to be lost", || has_lost(&site)).await;
            let next = comes_free(&other, "the-key", fence).await;
            let again = locks.lock("the-key").try_acquire().await;
            assert!(!matches!(again, Ok(Some(_))), "{then:?}: {again:?}");
            next.release().await.unwrap();
        }
    });
}

/// Who only looks has a silent connection replaced too: each look says how late it is.
#[test]
fn reply_lost_on_looking() {
    on_each(LOOKING, async |site| {
        let locks = site.hasty().await;
        let holder = site.other().await.lock("the-key").ttl(AGES).acquire().await.unwrap();
        assert!(locks.who("the-key").await.unwrap().holder.is_some());
        for look in ["GET", "SCAN"] {
            site.each_proxy(|proxy| proxy.lose_replies(1, look, Then::Silence));
            let error = match look {
                "GET" => locks.who("the-key").await.unwrap_err(),
                _ => locks.list().await.unwrap_err(),
            };
            assert_out_of_reach(&error);
            assert!(has_lost(&site));
            // The connection was given up by now, unless that one call ended a little early.
            let look = async {
                while locks.who("the-key").await.is_err() && locks.list().await.is_err() {}
            };
            tokio::time::timeout(LONG, look).await.expect("the silent connection is kept");
        }
        released(holder).await;
    });
}
