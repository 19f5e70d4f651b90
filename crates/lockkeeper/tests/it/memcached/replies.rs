//! The server did it, and its reply is lost: on each command that a claim sends.

use std::time::Duration;

use lab::proxy::{Then, Way};
use lockkeeper::ErrorKind;

use super::site::{AGES, Site, assert_exclusive, comes_free, released, until};

const BOTH: [Then; 2] = [Then::Silence, Then::Cut];

#[tokio::test]
async fn reply_lost_on_acquire() {
    let site = Site::start();
    let (locks, other) = (site.hasty().await, site.other().await);
    for then in BOTH {
        site.proxy.lose_replies(1, "ms the-key", then);
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        assert!(site.proxy.has_lost_replies());
        assert_exclusive(&guard, &other).await;
        released(guard).await;
        comes_free(&other, "the-key").await.release().await.unwrap();
    }
}

/// The attempt after a lost answer reads what is stored, and makes it last for a new ttl: those replies
/// are lost too.
#[tokio::test]
async fn reply_lost_on_reading_back_and_on_taking_over() {
    for lost in ["mg the-key", "C1 c"] {
        for then in BOTH {
            let site = Site::start();
            let (locks, other) = (site.hasty().await, site.other().await);
            site.proxy.lose_replies(1, "ms the-key", then);
            site.proxy.lose_replies(1, lost, then);
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            assert!(site.proxy.has_lost_replies(), "{lost}");
            assert_exclusive(&guard, &other).await;
            released(guard).await;
            comes_free(&other, "the-key").await.release().await.unwrap();
        }
    }
}

/// One who only tries is told, and the lock it was given unknowingly is given back.
#[tokio::test]
async fn reply_lost_on_trying() {
    let site = Site::start();
    let (locks, other) = (site.hasty().await, site.other().await);
    for then in BOTH {
        site.proxy.lose_replies(1, "ms the-key", then);
        let error = locks.lock("the-key").ttl(AGES).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
        assert!(site.proxy.has_lost_replies());
        comes_free(&other, "the-key").await.release().await.unwrap();
    }
}

/// A lost reply costs no lock, and there is time for another try within the lease: the item has a CAS then
/// that the claim does not know.
#[tokio::test]
async fn reply_lost_on_renew() {
    const TTL: Duration = Duration::from_secs(3);
    for then in BOTH {
        let site = Site::start();
        let (locks, other) = (site.hasty().await, site.other().await);
        let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
        site.proxy.lose_replies(1, "ms the-key", then);
        until("the reply to a renewal to be lost", || site.proxy.has_lost_replies()).await;
        tokio::time::sleep(2 * TTL).await;
        assert_exclusive(&guard, &other).await;
        guard.release().await.unwrap();
        comes_free(&other, "the-key").await.release().await.unwrap();
    }
}

/// Released while the CAS is one that the claim does not know.
#[tokio::test]
async fn reply_lost_on_renew_and_then_released() {
    for then in BOTH {
        let site = Site::start();
        let (locks, other) = (site.hasty().await, site.other().await);
        let guard = locks.lock("the-key").ttl(Duration::from_secs(3)).acquire().await.unwrap();
        site.proxy.lose_replies(1, "ms the-key", then);
        until("the reply to a renewal to be lost", || site.proxy.has_lost_replies()).await;
        released(guard).await;
        comes_free(&other, "the-key").await.release().await.unwrap();
    }
}

/// Whatever is told to the one who releases, the lock is free; and releasing it once more in the
/// background takes nothing from the next one.
#[tokio::test]
async fn reply_lost_on_release() {
    for lost in ["md the-key", "the-key"] {
        for then in BOTH {
            let site = Site::start();
            let (locks, other) = (site.hasty().await, site.other().await);
            let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
            site.proxy.lose_replies(1, lost, then);
            released(guard).await;
            let next = comes_free(&other, "the-key").await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(next.is_held());
            assert!(locks.lock("the-key").try_acquire().await.unwrap().is_none());
            next.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn reply_lost_on_dropping() {
    for then in BOTH {
        let site = Site::start();
        let (locks, other) = (site.hasty().await, site.other().await);
        let guard = locks.lock("the-key").ttl(AGES).acquire().await.unwrap();
        site.proxy.lose_replies(1, "md the-key", then);
        drop(guard);
        until("the reply to be lost", || site.proxy.has_lost_replies()).await;
        comes_free(&other, "the-key").await.release().await.unwrap();
    }
}

#[tokio::test]
async fn reply_lost_on_looking() {
    let site = Site::start();
    let locks = site.hasty().await;
    let holder = site.other().await.lock("the-key").ttl(AGES).acquire().await.unwrap();
    for (lost, then) in [("mg", Then::Silence), ("metadump", Then::Silence), ("mg", Then::Cut)] {
        site.proxy.lose_replies(1, lost, then);
        let error = match lost {
            "mg" => locks.who("the-key").await.unwrap_err(),
            _ => locks.list().await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
        let look = async { while locks.who("the-key").await.is_err() {} };
        tokio::time::timeout(crate::tools::LONG, look).await.expect("a silent connection is kept");
    }
    holder.release().await.unwrap();
}

/// The attempt reaches the server only after its caller has given up and everything was given back: what it
/// takes then, nobody would know of for the whole ttl.
#[tokio::test]
async fn an_attempt_that_is_late_leaves_nothing_behind() {
    let site = Site::start();
    let (locks, other) = (site.hasty().await, site.other().await);
    drop(locks.lock("another").acquire().await.unwrap());
    locks.settle().await;
    site.proxy.hold(Way::Up);
    let error = locks.lock("the-key").ttl(AGES).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    site.proxy.heal();
    locks.settle().await;
    // Give what was held up the time to be carried out, and to be taken back.
    tokio::time::sleep(Duration::from_millis(500)).await;
    comes_free(&other, "the-key").await.release().await.unwrap();
}
