//! The server did it, and its reply is lost.

use std::time::Duration;

use lab::proxy::{Proxy, Then};
use lockkeeper::ErrorKind;

use super::site::{AGES, Site, assert_exclusive, comes_free, until};

fault!(native: reply_lost_on_acquire);
fault!(native: reply_lost_on_trying);
fault!(native: reply_lost_on_standing_in_line);
fault!(native: reply_lost_on_renew);
fault!(native: reply_lost_on_release);
fault!(native: reply_lost_on_dropping);

const BOTH: [Then; 2] = [Then::Silence, Then::Cut];

fn has_lost(site: &Site) -> bool {
    site.proxies.iter().all(Proxy::has_lost_replies)
}

async fn reply_lost_on_acquire(site: Site) {
    let (locks, other) = (site.locks().await, site.other().await);
    for then in BOTH {
        site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        assert!(has_lost(&site), "{then:?}");
        assert_exclusive(&guard, &other).await;
        let fence = guard.fence();
        guard.release().await.unwrap();
        comes_free(&other, "the-key", fence).await.release().await.unwrap();
    }
}

/// One who only tries is told, and the lock it was given unknowingly is given back.
async fn reply_lost_on_trying(site: Site) {
    let (locks, other) = (site.locks().await, site.other().await);
    for then in BOTH {
        site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
        let error = locks.lock("the-key").ttl(AGES).try_acquire().await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::NoQuorum),
            "{then:?}: {error:?}"
        );
        assert!(has_lost(&site), "{then:?}");
        comes_free(&other, "the-key", 0).await.release().await.unwrap();
    }
}

async fn reply_lost_on_standing_in_line(site: Site) {
    let (locks, other) = (site.locks().await, site.other().await);
    for then in BOTH {
        let holder = other.lock("the-key").ttl(AGES).acquire().await.unwrap();
        // The first request finds it busy, the second one stands in line, others ask again.
        site.each_proxy(|proxy| proxy.lose_replies(2, "the-key", then));
        let waiter = tokio::spawn({
            let lock = locks.lock("the-key").ttl(AGES);
            async move { lock.acquire().await.unwrap() }
        });
        until("replies to be lost", || has_lost(&site)).await;
        let fence = holder.fence();
        holder.release().await.unwrap();
        let guard = waiter.await.unwrap();
        assert!(guard.fence() > fence || fence == 0, "{then:?}: {guard:?} after {fence}");
        assert_exclusive(&guard, &other).await;
        guard.release().await.unwrap();
    }
}

/// A lost reply costs no lock: there is time for another try within the lease.
async fn reply_lost_on_renew(site: Site) {
    const TTL: Duration = Duration::from_secs(3);
    let (locks, other) = (site.locks().await, site.other().await);
    for then in BOTH {
        let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
        site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
        until("the reply to a renewal to be lost", || has_lost(&site)).await;
        tokio::time::sleep(TTL).await;
        assert_exclusive(&guard, &other).await;
        guard.release().await.unwrap();
    }
}

/// Whatever is told to the one who releases, the lock is free; and releasing it once more in the
/// background takes nothing from the next one.
async fn reply_lost_on_release(site: Site) {
    let (locks, other) = (site.locks().await, site.other().await);
    for then in BOTH {
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        let fence = guard.fence();
        site.each_proxy(|proxy| proxy.lose_replies(1, "the-key", then));
        if let Err(error) = guard.release().await {
            assert!(
                matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::NoQuorum),
                "{then:?}: {error:?}"
            );
        }
        assert!(has_lost(&site), "{then:?}");
        let next = comes_free(&other, "the-key", fence).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(locks.lock("the-key").try_acquire().await.unwrap().is_none(), "{then:?}");
        assert!(next.is_held());
        next.release().await.unwrap();
    }
}

async fn reply_lost_on_dropping(site: Site) {
    let (locks, other) = (site.locks().await, site.other().await);
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
}
