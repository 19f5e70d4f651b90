//! What becomes of a guard that is dropped, at a distance.

use std::{sync::Arc, thread, time::Duration};

use lockkeeper::{ErrorKind, Locks, blocking};

use crate::{
    distant::{Distant, Post, Service},
    tools::{LONG, poll_once, until},
};

fn until_answered(releases: &Post) {
    until("every release to be answered", || releases.n_answered() == releases.n_sent());
    assert_eq!(releases.n_under_way(), 0);
}

#[tokio::test]
async fn a_dropped_guard_is_released_from_the_thread_that_drops_it() {
    let distant = Distant::default();
    let (locks, others) = (distant.locks(), distant.locks());
    let guard = locks.lock("a").acquire().await.unwrap();
    let here = thread::spawn(move || {
        drop(guard);
        thread::current().id()
    });
    let here = here.join().unwrap();
    assert_eq!(distant.wire.releases.sent_by(), [here]);
    // It was sent when the guard was gone, so another finds the key free.
    assert!(others.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn the_key_is_free_for_one_who_dropped_its_guard() {
    let distant = Distant::default();
    let locks = distant.locks();
    let mut last = 0;
    for _ in 0..1000 {
        let guard = locks.lock("a").try_acquire().await.unwrap().expect("free");
        assert!(guard.fence() > last);
        last = guard.fence();
    }
    until_answered(&distant.wire.releases);
    assert_eq!(distant.wire.releases.n_sent(), 1000);
}

#[tokio::test]
async fn ten_thousand_dropped_guards_leave_nothing_behind() {
    let distant = Distant::default();
    let locks = distant.locks();
    let mut most = 0;
    for n in 0..10_000 {
        drop(locks.lock(&format!("key {}", n % 100)).acquire().await.unwrap());
        most = most.max(distant.wire.releases.n_under_way());
    }
    assert!(most < 10, "{most} releases were under way at once");
    until_answered(&distant.wire.releases);
}

#[test]
fn the_last_one_dropped_is_seen_off() {
    let distant = Distant::default();
    let locks = distant.locks();
    drop(blocking::block_on(locks.lock("a").acquire()).unwrap());
    // Nobody calls any more.
    until_answered(&distant.wire.releases);
}

#[test]
fn a_release_whose_answer_is_lost_is_sent_again() {
    for service in [Service::LosesCalls, Service::LosesAnswers] {
        let distant = Distant::default();
        let (locks, others) = (
            distant.locks_with(|builder| builder.answer_within(Duration::from_millis(100))),
            distant.locks(),
        );
        let guard = blocking::block_on(locks.lock("a").acquire()).unwrap();
        distant.wire.releases.set(service);
        drop(guard);
        until("a second release", || distant.wire.releases.n_sent() >= 2);
        distant.wire.releases.set(Service::Good);
        assert!(blocking::block_on(others.lock("a").acquire_within(LONG)).is_ok());
        until("an end", || distant.wire.releases.n_under_way() == 0);
    }
}

#[tokio::test]
async fn dropping_does_not_wait_though_nothing_is_answered() {
    let distant = Distant::default();
    let locks = distant.locks_with(|builder| builder.answer_within(Duration::from_secs(600)));
    distant.wire.releases.set(Service::LosesAnswers);
    for n in 0..10_000 {
        drop(locks.lock(&format!("key {n}")).acquire().await.unwrap());
    }
    assert_eq!(distant.wire.releases.n_sent(), 10_000);
    assert!(locks.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn those_in_line_behind_a_dropped_guard_are_served() {
    let distant = Distant::default();
    let locks = distant.locks();
    for n in 0..20 {
        let guard = locks.lock("a").acquire().await.unwrap();
        // Other terms, so that the lock is not passed on but released and asked for anew.
        let ttl = Duration::from_secs(20 + n);
        let waits = tokio::spawn({
            let locks = locks.clone();
            async move { locks.lock("a").ttl(ttl).acquire_within(LONG).await.map(drop) }
        });
        tokio::task::yield_now().await;
        match n % 2 {
            0 => drop(guard),
            _ => guard.release().await.unwrap(),
        }
        waits.await.unwrap().unwrap();
    }
}

#[test]
fn threads_that_drop_at_once_lose_nothing() {
    let distant = Distant::default();
    let locks = Arc::new(blocking::Locks::from(distant.locks()));
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                for m in 0..2_000 {
                    drop(locks.lock(&format!("{n} {m}")).acquire().unwrap());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    until_answered(&distant.wire.releases);
    assert_eq!(distant.wire.releases.n_sent(), 8_000);
    assert!(locks.list().unwrap().is_empty());
}

#[test]
fn the_last_blocking_locks_wait_for_what_was_given_back() {
    let distant = Distant::default();
    let locks = blocking::Locks::from(distant.locks());
    let clone = locks.clone();
    drop(locks.lock("a").acquire().unwrap());
    drop(locks);
    drop(clone.lock("b").acquire().unwrap());
    drop(clone);
    assert_eq!(distant.wire.releases.n_answered(), 2);
    assert_eq!(distant.wire.releases.n_under_way(), 0);
}

#[test]
fn the_last_blocking_locks_do_not_wait_for_ever() {
    let distant = Distant::default();
    let limit = Duration::from_millis(100);
    let locks: Locks = distant.locks_with(|builder| builder.answer_within(limit));
    let locks = blocking::Locks::from(locks);
    let guard = locks.lock("a").acquire().unwrap();
    distant.wire.releases.set(Service::LosesCalls);
    drop(guard);
    let dropped = thread::spawn(move || drop(locks));
    until("the end of a drop", || dropped.is_finished());
    distant.wire.releases.set(Service::Good);
    assert!(blocking::block_on(distant.locks().lock("a").acquire_within(LONG)).is_ok());
}
#[test]
fn a_program_that_settles_leaves_nothing_behind() {
    let distant = Distant::default();
    let locks = distant.locks();
    lockkeeper::blocking::block_on(async {
        // Given up while it is asked for: the engine grants it all the same.
        let error = locks.lock("a").acquire_within(Duration::from_nanos(1)).await.map(drop);
        if let Err(error) = error {
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        }
        let mut asked = Box::pin(async { locks.lock("b").acquire().await.map(drop) });
        assert!(poll_once(&mut asked).await.is_none());
        drop(asked);
        locks.settle().await;
        let memory = Locks::with_engine(distant.memory.clone()).unwrap();
        for key in ["a", "b"] {
            assert!(
                memory.lock(key).try_acquire().await.unwrap().is_some(),
                "{key} was left behind"
            );
        }
    });
}
