//! A server that stands still for longer than anybody waits for its answer, and then does what it
//! was asked.

use std::time::Duration;

use lockkeeper::{ErrorKind, Loss};

use super::{
    modes::{PROXIED, on_each},
    site::{AGES, Site, assert_exclusive, assert_out_of_reach, comes_free, released},
};
use crate::tools::LONG;

impl Site {
    fn stall(&self) {
        self.servers.iter().for_each(|server| server.stop().unwrap());
    }

    fn go_on(&self) {
        self.servers.iter().for_each(|server| server.go_on().unwrap());
    }
}

/// The attempt is executed when nobody waits for it any more: what it takes is given back.
#[test]
fn stalled_while_trying() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        for key in ["a", "b"] {
            site.stall();
            let error = locks.lock(key).ttl(AGES).try_acquire().await.unwrap_err();
            assert_out_of_reach(&error);
            site.go_on();
            comes_free(&other, key, 0).await.release().await.unwrap();
        }
    });
}

#[test]
fn stalled_while_a_caller_goes_away() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        site.stall();
        for lasts in [0, 1, 50, 1500] {
            let lock = locks.lock("the-key").ttl(AGES);
            let answer = tokio::time::timeout(Duration::from_millis(lasts), lock.acquire()).await;
            assert!(answer.is_err(), "{answer:?}");
        }
        site.go_on();
        comes_free(&other, "the-key", 0).await.release().await.unwrap();
    });
}

/// One who waits is served when the server goes on, and only once.
#[test]
fn stalled_while_waiting() {
    on_each(PROXIED, async |site| {
        let other = site.other().await;
        let holder = other.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let waiter = site.waiter("the-key", AGES).await;
        site.stall();
        // Long enough for some attempts that get no answer.
        tokio::time::sleep(Duration::from_secs(3)).await;
        site.go_on();
        let fence = holder.fence();
        holder.release().await.unwrap();
        let guard = waiter.await.unwrap();
        assert!(guard.fence() > fence || fence == 0, "{guard:?} after {fence}");
        assert_exclusive(&guard, &other).await;
        released(guard).await;
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    });
}

/// Who holds is told by the end of its lease; what was sent in vain takes nothing from the next.
#[test]
fn stalled_past_the_lease() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        let guard = locks.lock("the-key").ttl(Duration::from_secs(2)).acquire().await.unwrap();
        let fence = guard.fence();
        site.stall();
        let loss = tokio::time::timeout(LONG, guard.lost()).await.unwrap();
        assert_eq!(loss, Loss::Expired);
        assert!(!guard.is_held());
        site.go_on();
        let next = comes_free(&other, "the-key", fence).await;
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        assert_exclusive(&next, &locks).await;
        next.release().await.unwrap();
    });
}

#[test]
fn stalled_while_releasing() {
    on_each(PROXIED, async |site| {
        let (locks, other) = (site.hasty().await, site.other().await);
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let (fence, dropped) = (guard.fence(), locks.lock("dropped").ttl(AGES).acquire().await);
        site.stall();
        let error = guard.release().await.unwrap_err();
        assert_out_of_reach(&error);
        drop(dropped.unwrap());
        site.go_on();
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
        comes_free(&other, "dropped", 0).await.release().await.unwrap();
    });
}
