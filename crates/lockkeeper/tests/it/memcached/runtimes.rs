//! Callers of every kind: on one thread, on many, on none, and on runtimes that end or stand still.

use std::{thread, time::Duration};

use lockkeeper::{Locks, blocking, blocking::block_on};
use tokio::runtime::{Builder, Runtime};

use super::site::{AGES, Site, assert_exclusive, comes_free};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn many_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Takes turns with 16 tasks on one key, and counts.
async fn take_turns(locks: &Locks) {
    let count = std::sync::Arc::new(std::sync::Mutex::new((false, 0)));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (locks, count) = (locks.clone(), count.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = locks.lock("the-key").acquire().await.unwrap();
                    assert!(!std::mem::replace(&mut count.lock().unwrap().0, true), "two at once");
                    tokio::task::yield_now().await;
                    let mut count = count.lock().unwrap();
                    *count = (false, count.1 + 1);
                    drop(guard);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count.lock().unwrap().1, 160);
}

#[test]
fn one_thread_many_threads_and_none() {
    let site = Site::start();
    let locks = block_on(site.locks());
    one_thread().block_on(take_turns(&locks));
    many_threads().block_on(take_turns(&locks));
    let without_io = Builder::new_current_thread().build().unwrap();
    without_io.block_on(take_turns(&locks));
    let blocking = blocking::Locks::connect(&site.url()).unwrap();
    let guard = blocking.lock("the-key").acquire().unwrap();
    assert!(block_on(locks.lock("the-key").try_acquire()).unwrap().is_none());
    guard.release().unwrap();
    // Blocking inside a runtime, whose I/O stands still meanwhile.
    one_thread().block_on(async {
        let guard = blocking.lock("the-key").acquire().unwrap();
        guard.release().unwrap();
    });
}

#[test]
fn runtime_ends_while_it_holds_and_renewals_go_on() {
    const TTL: Duration = Duration::from_secs(2);
    let site = Site::start();
    let (locks, other) = (block_on(site.locks()), block_on(site.other()));
    let guard = one_thread().block_on(locks.lock("the-key").ttl(TTL).acquire()).unwrap();
    thread::sleep(2 * TTL);
    block_on(assert_exclusive(&guard, &other));
    drop(guard);
    drop(block_on(comes_free(&other, "the-key")));
}

#[test]
fn runtime_blocked_while_it_holds() {
    const TTL: Duration = Duration::from_secs(2);
    let site = Site::start();
    let (locks, other) = (block_on(site.locks()), block_on(site.other()));
    one_thread().block_on(async {
        let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
        thread::sleep(2 * TTL);
        assert_exclusive(&guard, &other).await;
        guard.release().await.unwrap();
    });
}

#[test]
fn runtime_ends_while_its_calls_are_under_way() {
    let site = Site::start();
    let (locks, other) = (block_on(site.locks()), block_on(site.other()));
    let first = one_thread();
    drop(first.block_on(locks.lock("another").acquire()).unwrap());
    site.proxy.hold(lab::proxy::Way::Down);
    let lock = locks.lock("the-key").ttl(AGES);
    first.spawn(async move { lock.acquire().await.map(drop) });
    first.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    drop(first);
    site.proxy.heal();
    drop(block_on(comes_free(&other, "the-key")));
}

/// The last thing a program does is to drop a guard: the release still goes out.
#[test]
fn a_dropped_guard_is_released_before_the_runtime_is_gone() {
    let site = Site::start();
    let other = block_on(site.other());
    let runtime = one_thread();
    runtime.block_on(async {
        let locks = site.locks().await;
        drop(locks.lock("the-key").ttl(AGES).acquire().await.unwrap());
    });
    drop(runtime);
    drop(block_on(comes_free(&other, "the-key")));
}
