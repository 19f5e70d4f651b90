//! A panic of an engine or of a waker harms nobody else.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Wake},
    time::Duration,
};

use lockkeeper::{ErrorKind, Locks, Loss};

mod panicky;

use self::panicky::{Panicky, until_none};
use crate::tools::{LONG, SHORT_TTL, poll_once};

/// Of holds that are renewed, also on a machine with much to do.
const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_panic_in_an_attempt_leaves_the_key_usable() {
    for panicky in Panicky::both() {
        let locks = panicky.locks();
        for planned in [&panicky.planned.claims, &panicky.planned.attempts] {
            for patience in 0..2 {
                planned.store(1, Ordering::SeqCst);
                let lock = locks.lock("a");
                let error = match patience {
                    0 => lock.acquire().await.map(drop),
                    _ => lock.try_acquire().await.map(drop),
                };
                let error = error.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Other);
                assert!(error.to_string().contains("panicked: on purpose"), "{error}");
                let guard = tokio::time::timeout(LONG, lock.acquire()).await.expect("no dead key");
                guard.unwrap().release().await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_panic_while_one_waits_fails_that_one_and_no_other() {
    for panicky in Panicky::both() {
        let (locks, elsewhere) = (panicky.locks(), panicky.locks());
        let guard = elsewhere.lock("a").acquire().await.unwrap();
        let (first, second) = (locks.lock("a"), locks.lock("a"));
        let (mut first, mut second) = (Box::pin(first.acquire()), Box::pin(second.acquire()));
        assert!(poll_once(&mut first).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        panicky.planned.attempts.store(1, Ordering::SeqCst);
        guard.release().await.unwrap();
        let error = tokio::time::timeout(LONG, first).await.expect("an answer").unwrap_err();
        assert!(error.to_string().contains("panicked: on purpose"), "{error}");
        let second = tokio::time::timeout(LONG, second).await.expect("a turn");
        assert!(second.unwrap().is_held());
    }
}

#[tokio::test]
async fn a_panic_while_nothing_happens_fails_the_first_and_no_other() {
    for panicky in Panicky::both() {
        let (locks, elsewhere) = (panicky.locks(), panicky.locks());
        let guard = elsewhere.lock("a").acquire().await.unwrap();
        panicky.planned.changes.store(1, Ordering::SeqCst);
        let wait = || {
            let lock = locks.lock("a");
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        };
        let waits = [wait(), wait()];
        until_none(&panicky.planned.changes).await;
        guard.release().await.unwrap();
        let mut n_failed = 0;
        for wait in waits {
            let answer = tokio::time::timeout(LONG, wait).await.expect("an answer").unwrap();
            if let Err(error) = answer {
                assert!(error.to_string().contains("panicked: on purpose"), "{error}");
                n_failed += 1;
            }
        }
        assert_eq!(n_failed, 1);
    }
}

#[tokio::test]
async fn a_panic_on_the_quick_way_leaves_the_key_usable() {
    let panicky = Panicky { is_distant: true, is_quick: true, ..Panicky::default() };
    let locks = panicky.locks();
    for is_dropped in [false, true] {
        for planned in [&panicky.planned.sendings, &panicky.planned.polls] {
            planned.store(1, Ordering::SeqCst);
            let taken = tokio::time::timeout(LONG, locks.lock("a").acquire()).await;
            // What cannot be sent the quick way is sent at length; a lost answer is told.
            if let Err(error) = taken.expect("an answer") {
                assert!(error.to_string().contains("panicked: on purpose"), "{error}");
            }
            let guard = tokio::time::timeout(LONG, locks.lock("a").acquire()).await;
            let guard = guard.expect("no dead key").unwrap();
            planned.store(1, Ordering::SeqCst);
            if is_dropped {
                drop(guard);
            } else if let Err(error) = guard.release().await {
                assert!(error.to_string().contains("panicked: on purpose"), "{error}");
            }
            until_none(planned).await;
            let next = tokio::time::timeout(LONG, locks.lock("a").acquire()).await;
            next.expect("no dead key").unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_panic_in_a_release_is_told_and_those_in_line_go_on() {
    for panicky in Panicky::both() {
        let locks = panicky.locks();
        for is_dropped in [false, true] {
            let guard = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
            panicky.planned.releases.store(1, Ordering::SeqCst);
            if is_dropped {
                drop(guard);
            } else {
                let error = guard.release().await.unwrap_err();
                assert!(error.to_string().contains("panicked: on purpose"), "{error}");
            }
            let next = tokio::time::timeout(LONG, locks.lock("a").acquire()).await;
            next.expect("no dead key").unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_panic_in_a_renewal_is_a_loss_and_is_told() {
    for panicky in Panicky::both() {
        let locks = panicky.locks();
        let other = locks.lock("b").ttl(TTL).acquire().await.unwrap();
        let lock = locks.lock("a").ttl(TTL);
        let guard = lock.acquire().await.unwrap();
        panicky.planned.renewals.store(1, Ordering::SeqCst);
        let lost = async {
            tokio::select! {
                loss = guard.lost() => loss,
                loss = other.lost() => loss,
            }
        };
        let loss = tokio::time::timeout(LONG, lost).await.expect("told");
        assert!(matches!(&loss, Loss::TakenAway(why) if why.contains("on purpose")), "{loss:?}");
        let (lost, kept) = if guard.is_held() { (other, guard) } else { (guard, other) };
        let released = tokio::time::timeout(LONG, lost.release()).await.expect("an answer");
        assert_eq!(released.unwrap_err().kind(), ErrorKind::Lost);
        tokio::time::sleep(2 * TTL).await;
        assert!(kept.is_held(), "the panic harmed another hold");
    }
}

#[tokio::test]
async fn a_panic_when_a_claim_is_let_go_leaves_the_key_usable() {
    for panicky in Panicky::both() {
        let locks = panicky.locks();
        for planned in [&panicky.planned.questions, &panicky.planned.drops] {
            let guard = locks.lock("a").acquire().await.unwrap();
            planned.store(1, Ordering::SeqCst);
            guard.release().await.unwrap();
            let next = tokio::time::timeout(LONG, locks.lock("a").acquire()).await;
            next.expect("no dead key").unwrap().release().await.unwrap();
            planned.store(0, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn a_claim_whose_call_panicked_does_not_begin_again() {
    let panicky = Panicky { is_distant: true, is_reused: true, ..Panicky::default() };
    let (locks, n_begun_again) = (panicky.locks(), &panicky.planned.n_begun_again);
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    panicky.planned.attempts.store(1, Ordering::SeqCst);
    locks.lock("a").acquire().await.unwrap_err();
    assert_eq!(n_begun_again.load(Ordering::SeqCst), 1, "claims are used again");
    locks.settle().await;
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(n_begun_again.load(Ordering::SeqCst), 1, "what panicked was used again");
}

/// Keeps the thread that wakes it from everything else for a while.
struct Slow;

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        std::thread::sleep(Duration::from_millis(1400));
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_waker_that_panics_when_it_is_dropped_ends_no_renewal_of_others() {
    let distant = crate::distant::Distant::default();
    let locks = distant.locks();
    let mut kept = Vec::new();
    for n in 0..20 {
        let lock = locks.lock(&n.to_string()).ttl(Duration::from_secs(3));
        let mut wait = Box::pin(async move { lock.acquire().await });
        // It stays with the limit of the line's calls until the clock's thread looks.
        let waker = if n == 0 { Arc::new(Bomb).into() } else { std::task::Waker::noop().clone() };
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        kept.push(wait.await.unwrap());
    }
    // All of them are due in one look afterwards.
    let _busy = locks.lock("busy").acquire().await.unwrap();
    let lock = locks.lock("busy");
    let mut wait = Box::pin(lock.acquire_within(Duration::from_millis(50)));
    let slow = Arc::new(Slow).into();
    assert!(wait.as_mut().poll(&mut Context::from_waker(&slow)).is_pending());
    tokio::time::sleep(Duration::from_secs(8)).await;
    let n_held = kept.iter().filter(|guard| guard.is_held()).count();
    assert_eq!(n_held, kept.len(), "the waker of another ended the renewal");
}

/// Panics when it is woken.
struct Trap;

impl Wake for Trap {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_waker_that_panics_ends_no_renewal_of_others() {
    let locks = Locks::connect("memory:").await.unwrap();
    let kept = locks.lock("kept").ttl(TTL).acquire().await.unwrap();
    let held = locks.lock("a").acquire().await.unwrap();
    let waker = Arc::new(Trap).into();
    let mut context = Context::from_waker(&waker);
    // Woken by the clock: a limit, and the end of a hold.
    let lock = locks.lock("a");
    let mut wait = Box::pin(lock.acquire_within(Duration::from_millis(20)));
    assert!(matches!(wait.as_mut().poll(&mut context), Poll::Pending));
    let short = locks.lock("b").maximum_hold(Duration::from_millis(20)).acquire().await.unwrap();
    let mut lost = Box::pin(short.lost());
    assert!(matches!(lost.as_mut().poll(&mut context), Poll::Pending));
    tokio::time::sleep(2 * TTL).await;
    assert!(kept.is_held(), "the waker of another ended the renewal");
    // Woken by the one whose turn ends: that is no business of the one who releases.
    drop(wait);
    let mut wait = Box::pin(lock.acquire());
    assert!(matches!(wait.as_mut().poll(&mut context), Poll::Pending));
    held.release().await.unwrap();
    assert!(wait.await.unwrap().is_held());
}
