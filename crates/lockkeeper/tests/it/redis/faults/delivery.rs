//! Bytes that come in pieces, break off, or come twice.

use std::time::{Duration, Instant};

use lab::proxy::{Proxy, Way};

use super::{
    modes::{PROXIED, on_each},
    site::{AGES, Site, assert_exclusive, comes_free, released, until},
};

#[test]
fn cut_mid_frame() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        for way in [Way::Up, Way::Down] {
            site.each_proxy(|proxy| proxy.cut_mid_frame(way));
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            assert_exclusive(&guard, &other).await;
            site.each_proxy(|proxy| proxy.cut_mid_frame(way));
            let fence = guard.fence();
            released(guard).await;
            comes_free(&other, "the-key", fence).await.release().await.unwrap();
        }
    });
}

/// Half a request does nothing, and a whole one whose reply is cut is known again.
#[test]
fn cut_at_every_byte_of_a_request() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        // Through a whole request and beyond; steps without a common factor with its parts.
        for n_bytes in (0..400).step_by(13) {
            for way in [Way::Up, Way::Down] {
                let key = format!("{way:?}{n_bytes}");
                site.each_proxy(|proxy| proxy.cut_after(way, n_bytes));
                let guard = locks.lock(&key).ttl(AGES).acquire().await.unwrap();
                assert_exclusive(&guard, &other).await;
                let fence = guard.fence();
                released(guard).await;
                site.each_proxy(lab::proxy::Proxy::heal);
                comes_free(&other, &key, fence).await.release().await.unwrap();
            }
        }
    });
}

#[test]
fn bytes_one_by_one() {
    on_each(PROXIED, async |site| {
        site.each_proxy(lab::proxy::Proxy::drip);
        let (locks, other) = (site.locks().await, site.other().await);
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let fence = guard.fence();
        let waiter = site.waiter("the-key", AGES).await;
        assert_exclusive(&guard, &other).await;
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        assert!(next.fence() > fence || fence == 0);
        assert_exclusive(&next, &other).await;
        released(next).await;
    });
}

/// The network keeps the first attempt for a while, the second one goes another way and is granted.
/// When the first one arrives, nobody has asked for the lock any more.
#[test]
fn attempt_that_arrives_after_the_release() {
    const PAUSE: Duration = Duration::from_secs(4);
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        // There is a connection, so that nothing but the attempt is kept.
        locks.lock("another").acquire().await.unwrap().release().await.unwrap();
        let n_before: Vec<_> = site.proxies.iter().map(|proxy| proxy.counts().chunks_up).collect();
        site.each_proxy(|proxy| proxy.delay(Way::Up, PAUSE));
        let lock = locks.lock("the-key").ttl(AGES);
        let asks = tokio::spawn(async move { lock.acquire().await.unwrap() });
        until("the attempt to be kept", || {
            site.proxies.iter().zip(&n_before).all(|(proxy, n)| proxy.counts().chunks_up > *n)
        })
        .await;
        let kept_at = Instant::now();
        site.each_proxy(|proxy| proxy.delay(Way::Up, Duration::ZERO));
        let guard = asks.await.unwrap();
        assert_exclusive(&guard, &other).await;
        let fence = guard.fence();
        released(guard).await;
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
        tokio::time::sleep_until((kept_at + PAUSE + PAUSE / 4).into()).await;
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    });
}

impl Site {
    /// Delivers the last request with this in it once more.
    fn replay(&self, needle: &str) {
        // A majority is enough to go on: to the others it may still be on its way.
        let replay = |proxy: &Proxy| proxy.replay(needle).map(|_| true);
        self.each_proxy(|proxy| lab::wait_until("a request to come", || replay(proxy)).unwrap());
    }

    /// Delivers the last attempt with this ttl once more: a release says nothing of ttls.
    fn replay_attempt(&self, ttl: Duration) {
        self.replay(&ttl.as_millis().to_string());
    }
}

/// It finds its own lock or the next one's: either way nothing changes.
#[test]
fn attempt_delivered_again_while_held() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        site.replay_attempt(AGES);
        assert_exclusive(&guard, &other).await;
        let fence = guard.fence();
        guard.release().await.unwrap();
        let next = comes_free(&other, "the-key", fence).await;
        site.replay_attempt(AGES);
        assert_exclusive(&next, &locks).await;
        next.release().await.unwrap();
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    });
}

/// A lock may come of it that nobody holds, and that lasts no longer than its ttl.
#[test]
fn attempt_delivered_again_after_release() {
    on_each(PROXIED, async |site| {
        const TTL: Duration = Duration::from_millis(1973);
        let (locks, other) = (site.locks().await, site.other().await);
        let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
        let fence = guard.fence();
        guard.release().await.unwrap();
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
        site.replay_attempt(TTL);
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    });
}

/// It frees nobody else's lock.
#[test]
fn release_delivered_again() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.locks().await, site.other().await);
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let fence = guard.fence();
        guard.release().await.unwrap();
        let next = comes_free(&other, "the-key", fence).await;
        site.replay("the-key");
        assert_exclusive(&next, &locks).await;
        next.release().await.unwrap();
    });
}
