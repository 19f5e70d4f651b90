//! Whatever the user's runtime does, locks are kept and given back.

use std::{
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use lockkeeper::{Guard, Locks, blocking};
use tokio::runtime::{Builder, Runtime};

use crate::tools::{LONG, SHORT_TTL, poll_once};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn memory() -> Locks {
    blocking::Locks::connect("memory:").unwrap().as_async().clone()
}

#[test]
fn a_blocked_runtime_does_not_lose_the_lock() {
    let locks = memory();
    current_thread().block_on(async {
        let guard = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
        let start = Instant::now();
        while start.elapsed() < 3 * SHORT_TTL {
            std::hint::spin_loop();
        }
        assert!(guard.is_held());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_guard_dropped_outside_any_runtime_releases() {
    let locks = memory();
    let guard: Guard =
        current_thread().block_on(async { locks.lock("a").acquire().await.unwrap() });
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(current_thread().block_on(locks.lock("a").acquire_within(LONG)).is_ok());
}

#[test]
fn a_guard_dropped_while_panicking_releases() {
    let locks = memory();
    let panics = locks.clone();
    let panicked = thread::spawn(move || {
        let _guard = blocking::block_on(panics.lock("a").acquire()).unwrap();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(blocking::block_on(locks.lock("a").acquire_within(LONG)).is_ok());
}

#[test]
fn locks_in_a_static_work_over_runtimes_one_after_the_other_and_none() {
    static LOCKS: LazyLock<Locks> = LazyLock::new(memory);
    for n in 0..6 {
        let guard = current_thread().block_on(async {
            let guard = LOCKS.lock("a").ttl(SHORT_TTL).acquire_within(LONG).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            guard
        });
        // Its runtime is gone; every second one lives on through some renewals.
        if n % 2 == 0 {
            thread::sleep(2 * SHORT_TTL);
        }
        assert!(guard.is_held());
        drop(guard);
    }
    let guard = blocking::block_on(LOCKS.lock("a").acquire_within(LONG)).unwrap();
    assert!(guard.is_held());
}

#[test]
fn several_runtimes_share_one_line() {
    let locks = memory();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let locks = locks.clone();
            thread::spawn(move || {
                current_thread().block_on(async {
                    let mut last = 0;
                    for _ in 0..500 {
                        let guard = locks.lock("a").acquire_within(LONG).await.unwrap();
                        assert!(guard.fence() > last);
                        last = guard.fence();
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_runtime_dropped_in_the_middle_of_a_wait_leaves_nothing_behind() {
    let locks = memory();
    let guard = blocking::block_on(locks.lock("a").acquire()).unwrap();
    let runtime = current_thread();
    for _ in 0..3 {
        let locks = locks.clone();
        runtime.spawn(async move { locks.lock("a").acquire().await.map(drop) });
    }
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
    drop(guard);
    assert!(blocking::block_on(locks.lock("a").acquire_within(LONG)).is_ok());
}

#[test]
fn a_future_may_move_from_one_runtime_to_another() {
    let locks = memory();
    let guard = blocking::block_on(locks.lock("a").acquire()).unwrap();
    let waiting = locks.clone();
    let mut wait = Box::pin(async move { waiting.lock("a").acquire().await });
    current_thread().block_on(async {
        assert!(poll_once(&mut wait).await.is_none());
    });
    drop(guard);
    assert!(current_thread().block_on(wait).is_ok());
}

#[test]
fn the_blocking_facade_needs_no_runtime() {
    let locks = blocking::Locks::connect("memory:").unwrap();
    let guard = locks.lock("a").acquire().unwrap();
    assert!(locks.lock("a").try_acquire().unwrap().is_none());
    let waits = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("a").acquire_within(LONG).map(|guard| guard.fence()))
    };
    let fence = guard.fence();
    guard.release().unwrap();
    assert!(waits.join().unwrap().unwrap() > fence);
    let me = locks.owner();
    let outer = me.lock("b").acquire().unwrap();
    assert_eq!(outer.fence(), me.lock("b").acquire().unwrap().fence());
}

#[test]
fn an_attended_hold_is_renewed_by_the_program_and_lost_without_it() {
    // Long enough that a busy machine looks at the clock in time.
    const TTL: Duration = Duration::from_secs(2);
    let memory = Box::new(lockkeeper::engines::memory::Memory::default());
    let locks = Locks::builder().attended().build(memory).unwrap();
    let guard = blocking::block_on(locks.lock("a").ttl(TTL).acquire()).unwrap();
    let start = Instant::now();
    while start.elapsed() < 3 * TTL {
        let pause = locks.attend().expect("a hold is there");
        assert!(pause < TTL, "{pause:?}");
        thread::sleep(pause);
    }
    assert!(guard.is_held());
    thread::sleep(2 * TTL);
    assert!(!guard.is_held());
    locks.attend();
    assert_eq!(blocking::block_on(guard.lost()), lockkeeper::Loss::Expired);
}

#[test]
fn a_future_that_parks_inside_loses_no_wake_up() {
    let (done, is_done) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut n_polls = 0;
        blocking::block_on(std::future::poll_fn(|context| {
            n_polls += 1;
            if n_polls > 3 {
                return std::task::Poll::Ready(());
            }
            // We are woken while we are looked at, and then something inside parks.
            context.waker().wake_by_ref();
            let mut n_inner = 0;
            blocking::block_on(std::future::poll_fn(|context| {
                n_inner += 1;
                if n_inner > 2 {
                    return std::task::Poll::Ready(());
                }
                let waker = context.waker().clone();
                thread::spawn(move || waker.wake()).join().unwrap();
                std::task::Poll::Pending
            }));
            std::task::Poll::Pending
        }));
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONG).expect("it was woken");
}
