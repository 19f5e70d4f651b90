//! Holders and waiters that stop or die.

use std::time::{Duration, Instant};

use lockkeeper::{Key, conformance::Neighbour};

use super::{
    modes::{ALL, on_each},
    site::{AGES, comes_free, released},
};
use crate::neighbour::Process;

/// When it goes on, it knows before anything else that it holds nothing, and what it sends late
/// takes nothing from the next one.
#[test]
fn holder_stopped_past_its_ttl() {
    on_each(ALL, async |site| {
        let (key, ttl) = (Key::new("the-key").unwrap(), Duration::from_secs(2));
        let other = site.other().await;
        let mut holder = Process::start(site.url());
        let fence = holder.try_hold(&key, ttl).await.unwrap().unwrap();
        holder.stop().await.unwrap();
        let next = comes_free(&other, key.as_str(), fence).await;
        holder.go_on().await.unwrap();
        assert!(!holder.is_held().await.unwrap(), "two hold it");
        assert!(holder.release().await.is_err(), "a lost lock was released");
        assert!(next.is_held());
        assert_eq!(holder.try_hold(&key, ttl).await.unwrap(), None);
        next.release().await.unwrap();
    });
}

/// They cost one place's lease together, not each.
#[test]
fn five_dead_waiters_at_the_head_of_the_line() {
    on_each(ALL, async |site| {
        const N_WAITERS: u32 = 5;
        /// As long as a place in line lasts.
        const PLACE: Duration = Duration::from_secs(3);
        let key = Key::new("the-key").unwrap();
        let holder = site.locks().await.lock(key.as_str()).ttl(AGES).acquire().await.unwrap();
        let mut dead: Vec<_> = (0..N_WAITERS).map(|_| Process::start(site.url())).collect();
        for waiter in &mut dead {
            waiter.wait_in_line(&key, AGES).await.unwrap();
        }
        let alive = site.waiter(key.as_str(), AGES).await;
        for waiter in &mut dead {
            waiter.kill().await.unwrap();
        }
        let (fence, released_at) = (holder.fence(), Instant::now());
        holder.release().await.unwrap();
        let guard = alive.await.unwrap();
        assert!(released_at.elapsed() < N_WAITERS * PLACE, "{:?}", released_at.elapsed());
        assert!(guard.fence() > fence || fence == 0, "{guard:?} after {fence}");
        released(guard).await;
    });
}
