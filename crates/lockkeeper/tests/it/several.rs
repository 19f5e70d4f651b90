//! Several keys at once.

use std::time::Duration;

use lockkeeper::{ErrorKind, Guard};

use crate::tools::{LONG, memory};

#[tokio::test]
async fn all_or_none() {
    let locks = memory().await;
    let several = locks.several(["c", "a", "b", "a"]);
    let busy = locks.lock("b").acquire().await.unwrap();
    assert!(several.try_acquire().await.unwrap().is_none());
    let error = several.acquire_within(Duration::from_millis(30)).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::TimedOut, Some("b")));
    for key in ["a", "c"] {
        assert!(locks.lock(key).try_acquire().await.unwrap().is_some(), "{key} was kept");
    }
    drop(busy);
    let guards = several.acquire_within(LONG).await.unwrap();
    assert!(guards.is_held());
    assert!(guards.iter().map(Guard::key).eq(["a", "b", "c"]));
    assert_eq!(guards.fence("b"), guards.iter().nth(1).map(Guard::fence));
    assert_eq!(guards.fence("x"), None);
    guards.release().await.unwrap();
    assert!(several.try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_orders_do_not_wait_in_a_circle() {
    let locks = memory().await;
    let tasks: Vec<_> = [["x", "y"], ["y", "x"]]
        .into_iter()
        .cycle()
        .take(16)
        .map(|keys| {
            let locks = locks.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    let _guards = locks.several(keys).acquire_within(LONG).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn bad_requests_are_refused() {
    let locks = memory().await;
    let error = locks.several([]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadOptions);
    let error = locks.several(["a", ""]).acquire_within(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadKey);
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn the_loss_of_one_is_told() {
    let locks = memory().await;
    let guards = locks.several(["a", "b"]).maximum_hold(Duration::from_millis(30));
    let guards = guards.acquire().await.unwrap();
    guards.lost().await;
    assert!(!guards.is_held());
    assert_eq!(guards.release().await.unwrap_err().kind(), ErrorKind::Lost);
}
