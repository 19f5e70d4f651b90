//! Answers that are lost after the server did what it was asked.

use std::time::Duration;

use lab::proxy::{Proxy, Then};
use lockkeeper::Locks;

use super::{super::labs::Redlock, KEY, eventually, in_time};
use crate::tools::LONG;

const TTL: Duration = Duration::from_secs(3);

async fn hasty(lab: &Redlock) -> Locks {
    let locks = Locks::builder().url(&lab.url()).answer_within(Duration::from_millis(700));
    locks.connect().await.unwrap()
}

fn lose(proxies: &[Proxy], needle: &str, then: Then) {
    proxies.iter().for_each(|proxy| proxy.lose_replies(1, needle, then));
}

#[tokio::test]
async fn a_lost_answer_to_asking_does_not_block_the_one_who_asked() {
    for then in [Then::Cut, Then::Silence] {
        for n_servers in [1, 3, 5] {
            let lab = Redlock::start();
            let locks = hasty(&lab).await;
            locks.lock("another").acquire().await.unwrap().release().await.unwrap();
            lose(&lab.proxies[..n_servers], KEY, then);
            // Far beyond what may be waited for here: it must not be its own stranger.
            let lock = locks.lock(KEY).ttl(LONG * 2);
            let guard = lock.acquire_within(LONG).await.unwrap();
            eventually("the answers to be lost", || {
                lab.proxies.iter().all(Proxy::has_lost_replies)
            })
            .await;
            assert!(lab.locks().await.lock(KEY).try_acquire().await.unwrap().is_none());
            let _ = guard.release().await;
            let next = lab.locks().await.lock(KEY).acquire_within(LONG).await.unwrap();
            next.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn one_who_only_tried_leaves_nothing_behind() {
    for then in [Then::Cut, Then::Silence] {
        let lab = Redlock::start();
        let locks = hasty(&lab).await;
        lose(&lab.proxies[..3], KEY, then);
        in_time(locks.lock(KEY).ttl(LONG * 2).try_acquire()).await.unwrap_err();
        assert!(lab.proxies.iter().all(Proxy::has_lost_replies));
        eventually("all five to be free", || lab.n_held() == 0).await;
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_renewal_is_not_a_loss() {
    for then in [Then::Cut, Then::Silence] {
        let lab = Redlock::start();
        let locks = hasty(&lab).await;
        let guard = locks.lock(KEY).ttl(TTL * 2).acquire().await.unwrap();
        lose(&lab.proxies, KEY, then);
        tokio::time::sleep(TTL * 3).await;
        assert!(lab.proxies.iter().all(Proxy::has_lost_replies));
        assert!(guard.is_held());
        assert!(lab.locks().await.lock(KEY).try_acquire().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_release_frees_the_key() {
    for then in [Then::Cut, Then::Silence] {
        let lab = Redlock::start();
        let locks = hasty(&lab).await;
        let guard = locks.lock(KEY).ttl(LONG * 2).acquire().await.unwrap();
        eventually("all five to have it", || lab.n_held() == 5).await;
        lose(&lab.proxies, KEY, then);
        let _ = in_time(guard.release()).await;
        assert!(lab.proxies.iter().all(Proxy::has_lost_replies));
        eventually("all five to be free", || lab.n_held() == 0).await;
        locks.lock(KEY).acquire_within(LONG).await.unwrap().release().await.unwrap();
    }
}
