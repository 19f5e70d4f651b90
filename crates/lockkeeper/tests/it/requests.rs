//! The three ways to ask, and what is refused before anything is sent.

use std::time::Duration;

use lockkeeper::{ErrorKind, Locks};

use crate::tools::{LONG, Troubled, memory};

#[tokio::test]
async fn a_try_at_a_held_key_answers_none() {
    let locks = memory().await;
    let guard = locks.lock("a").try_acquire().await.unwrap().expect("free");
    assert!(locks.lock("a").try_acquire().await.unwrap().is_none());
    drop(guard);
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_wait_with_a_limit_ends_at_it() {
    let locks = memory().await;
    let _guard = locks.lock("a").acquire().await.unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(30)] {
        let error = locks.lock("a").acquire_within(limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!((error.engine(), error.key()), (Some("memory"), Some("a")));
    }
}

#[tokio::test]
async fn a_wait_with_a_limit_ends_early_when_the_lock_is_free() {
    let locks = memory().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("a").acquire_within(LONG).await.map(|guard| guard.fence()) }
    });
    tokio::task::yield_now().await;
    let fence = guard.fence();
    guard.release().await.unwrap();
    assert!(waits.await.unwrap().unwrap() > fence);
}

#[tokio::test]
async fn bad_keys_and_options_are_refused_before_anything_is_sent() {
    // Cut off: whatever reached the engine would come back as unreachable.
    let troubled = Troubled::default();
    troubled.cut_off(true);
    let locks = troubled.locks();
    let long = "x".repeat(513);
    for key in ["", &long] {
        for error in [
            locks.lock(key).acquire().await.unwrap_err(),
            locks.lock(key).try_acquire().await.unwrap_err(),
            locks.lock(key).acquire_within(LONG).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::BadKey, "{key:?}: {error}");
        }
    }
    let ttls = [0, 1, 99_999_999].map(Duration::from_nanos);
    for ttl in ttls.into_iter().chain([Duration::from_secs(31 * 86_400), Duration::MAX]) {
        let error = locks.lock("a").ttl(ttl).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOptions, "{ttl:?}: {error}");
    }
    let error = locks.lock("a").maximum_hold(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadOptions);
    let error = locks.lock("a").label(&"x".repeat(257)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadOptions);
}

#[tokio::test]
async fn a_url_that_cannot_be_meant_is_refused() {
    for url in
        ["", "locks", "gopher://x", "memory://x", "memory:?ttl=1", "file:relative", "file://host/x"]
    {
        let error = Locks::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOptions, "{url}: {error}");
        assert!(!error.to_string().is_empty());
    }
}

#[tokio::test]
async fn an_engine_that_does_not_answer_is_not_called_busy() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    troubled.cut_off(true);
    let error = locks.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let error = locks.lock("a").acquire_within(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    // Its own ttl decides for how long, also in a line that was opened by one with a longer one.
    let limit = Duration::from_secs(5);
    let wait = locks.lock("a").ttl(Duration::from_millis(100));
    let error = tokio::time::timeout(limit, wait.acquire()).await.expect("told").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_wait_outlasts_a_short_trouble() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    troubled.cut_off(true);
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("a").acquire_within(LONG).await.is_ok() }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    troubled.cut_off(false);
    assert!(waits.await.unwrap());
}

#[tokio::test]
async fn what_a_release_could_not_say_is_said_later() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let guard = locks.lock("a").acquire().await.unwrap();
    troubled.cut_off(true);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    troubled.cut_off(false);
    assert!(locks.lock("a").acquire_within(LONG).await.is_ok());
}
