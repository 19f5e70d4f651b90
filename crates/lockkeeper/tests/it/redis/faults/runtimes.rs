//! The runtime that carries a connection ends or stands still.

use std::{thread, time::Duration};

use lockkeeper::{Locks, blocking::block_on};
use tokio::runtime::{Builder, Runtime};

use super::{
    modes::{PROXIED, on_each_apart},
    site::{AGES, assert_exclusive, comes_free},
};
use crate::tools::LONG;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn run_for(runtime: &Runtime, lasts: Duration) {
    runtime.block_on(async { tokio::time::sleep(lasts).await });
}

/// A runtime in which one task waits for the lock; it has asked when this returns.
fn runtime_that_waits(locks: &Locks, key: &str) -> Runtime {
    let (runtime, lock) = (runtime(), locks.lock(key).ttl(AGES));
    runtime.spawn(async move {
        let _guard = lock.acquire().await;
        std::future::pending::<()>().await;
    });
    run_for(&runtime, Duration::from_millis(300));
    runtime
}

#[test]
fn runtime_ends_while_its_calls_are_under_way() {
    on_each_apart(PROXIED, |site| {
        let (locks, other) = (block_on(site.locks()), block_on(site.other()));
        // One call before, so that there is a connection.
        let first = runtime();
        drop(first.block_on(locks.lock("another").acquire()).unwrap());
        site.each_proxy(|proxy| proxy.hold(lab::proxy::Way::Down));
        let lock = locks.lock("the-key").ttl(AGES);
        first.spawn(async move { lock.acquire().await.map(drop) });
        run_for(&first, Duration::from_millis(100));
        // Somebody in the same line, elsewhere, whose turn depends on that call.
        let lock = locks.lock("the-key").ttl(AGES);
        let second = thread::spawn(move || runtime().block_on(lock.acquire_within(LONG)).unwrap());
        drop(first);
        site.each_proxy(lab::proxy::Proxy::heal);
        let guard = second.join().unwrap();
        block_on(assert_exclusive(&guard, &other));
        let fence = guard.fence();
        block_on(guard.release()).unwrap();
        drop(block_on(comes_free(&other, "the-key", fence)));
    });
}

/// It gives its place up: the next in line is served.
#[test]
fn runtime_ends_while_it_waits() {
    on_each_apart(PROXIED, |site| {
        let (locks, other) = (block_on(site.locks()), block_on(site.other()));
        let holder = block_on(other.lock("the-key").ttl(AGES).acquire()).unwrap();
        let fence = holder.fence();
        let waits = runtime_that_waits(&locks, "the-key");
        drop(waits);
        block_on(holder.release()).unwrap();
        drop(block_on(comes_free(&other, "the-key", fence)));
    });
}

#[test]
fn runtime_ends_while_it_holds() {
    on_each_apart(PROXIED, |site| {
        const TTL: Duration = Duration::from_secs(2);
        let (locks, other) = (block_on(site.locks()), block_on(site.other()));
        let guard = runtime().block_on(locks.lock("the-key").ttl(TTL).acquire()).unwrap();
        thread::sleep(2 * TTL);
        block_on(assert_exclusive(&guard, &other));
        let fence = guard.fence();
        drop(guard);
        drop(block_on(comes_free(&other, "the-key", fence)));
    });
}

#[test]
fn runtime_blocked_while_it_holds() {
    on_each_apart(PROXIED, |site| {
        const TTL: Duration = Duration::from_secs(2);
        let (locks, other) = (block_on(site.locks()), block_on(site.other()));
        runtime().block_on(async {
            let guard = locks.lock("the-key").ttl(TTL).acquire().await.unwrap();
            thread::sleep(2 * TTL);
            assert_exclusive(&guard, &other).await;
            guard.release().await.unwrap();
        });
    });
}

/// The lock may be handed over to it and wait there: not for longer than its place lasts.
#[test]
fn runtime_blocked_while_it_waits() {
    on_each_apart(PROXIED, |site| {
        let (locks, other) = (block_on(site.locks()), block_on(site.other()));
        let holder = block_on(other.lock("the-key").ttl(AGES).acquire()).unwrap();
        let fence = holder.fence();
        let blocked = runtime_that_waits(&locks, "the-key");
        // From here on, nobody drives that runtime.
        block_on(holder.release()).unwrap();
        let next = block_on(comes_free(&other, "the-key", fence));
        assert!(next.is_held());
        drop(blocked);
        block_on(assert_exclusive(&next, &locks));
    });
}
