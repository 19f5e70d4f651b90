//! Sessions on a clock that is moved by hand; the server is the test.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    task::{Context, Poll, Waker},
};

use super::*;
use crate::engine::Alerted;

const TTL: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(1_000_000_000 * (1_000 + seconds))
}

fn held_for(seconds: u64) -> Standing {
    Standing::Held(Lease::For(Duration::from_secs(seconds)))
}

fn alive() -> Arc<Session> {
    let session = Session::opening(Duration::from_secs(10), at(0));
    session.opened(TTL, at(0));
    Arc::new(session)
}

/// One look at a future.
fn look<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A lease that needs no beat.
fn lease(session: &Session, now: Moment) -> Standing {
    let lease = std::pin::pin!(session.lease(now, || panic!("a beat")));
    match look(lease) {
        Poll::Ready(standing) => standing.unwrap(),
        Poll::Pending => panic!("no answer at once"),
    }
}

#[test]
fn the_ttl_that_was_granted_counts_from_the_request() {
    let session = Session::opening(Duration::from_secs(10), at(0));
    assert_eq!(session.ttl(), Duration::from_secs(10));
    let mut first = Box::pin(session.lease(at(2), || panic!("opening is the first beat")));
    assert!(look(first.as_mut()).is_pending());
    session.opened(TTL, at(0));
    assert_eq!(look(first.as_mut()).map(Result::unwrap), Poll::Ready(held_for(28)));
    assert_eq!(session.ttl(), TTL);
}

#[test]
fn a_recent_answer_needs_no_beat() {
    let session = alive();
    assert_eq!(lease(&session, at(9)), held_for(21));
    session.heard(at(9), at(9));
    assert_eq!(lease(&session, at(18)), held_for(21));
    // An answer that overtook a later one changes nothing.
    session.heard(at(5), at(5));
    assert_eq!(lease(&session, at(18)), held_for(21));
}

#[test]
fn a_session_lasts_from_where_the_server_counts() {
    let session = alive();
    session.heard(at(9), at(4));
    assert_eq!(lease(&session, at(10)), held_for(24));
    assert!(session.over(at(33)).is_none() && session.over(at(34)).is_some());
}

#[test]
fn one_beat_serves_everyone() {
    let session = alive();
    let n_beats = AtomicU32::new(0);
    let beat = || {
        n_beats.fetch_add(1, Ordering::SeqCst);
    };
    let mut leases: Vec<_> = (0..100).map(|_| Box::pin(session.lease(at(12), beat))).collect();
    assert!(leases.iter_mut().all(|lease| look(lease.as_mut()).is_pending()));
    // Whoever asked may go away: the answer is there for the others.
    drop(leases.remove(0));
    session.heard(at(12), at(12));
    for lease in &mut leases {
        assert_eq!(look(lease.as_mut()).map(Result::unwrap), Poll::Ready(held_for(30)));
    }
    assert_eq!(n_beats.load(Ordering::SeqCst), 1);
}

#[test]
fn the_answer_to_an_older_request_is_not_taken_for_the_beat() {
    let session = alive();
    let mut lease = Box::pin(session.lease(at(12), || {}));
    assert!(look(lease.as_mut()).is_pending());
    session.heard(at(1), at(1));
    assert!(look(lease.as_mut()).is_pending());
}

#[test]
fn a_beat_without_an_answer_is_repeated_for_whoever_comes_later() {
    let session = alive();
    let n_beats = AtomicU32::new(0);
    let beat = || {
        n_beats.fetch_add(1, Ordering::SeqCst);
    };
    let mut first = Box::pin(session.lease(at(10), beat));
    assert!(look(first.as_mut()).is_pending());
    let mut second = Box::pin(session.lease(at(19), beat));
    assert!(look(second.as_mut()).is_pending());
    assert_eq!(n_beats.load(Ordering::SeqCst), 1);
    let mut third = Box::pin(session.lease(at(20), beat));
    assert!(look(third.as_mut()).is_pending());
    assert_eq!(n_beats.load(Ordering::SeqCst), 2);
    session.heard(at(20), at(20));
    // Those who asked before know more than they asked for.
    assert_eq!(look(first.as_mut()).map(Result::unwrap), Poll::Ready(held_for(30)));
    assert_eq!(look(third.as_mut()).map(Result::unwrap), Poll::Ready(held_for(30)));
}

#[test]
fn a_beat_that_failed_is_told_and_says_nothing_about_the_session() {
    let session = alive();
    let mut lease = Box::pin(session.lease(at(12), || {}));
    assert!(look(lease.as_mut()).is_pending());
    session.beat_failed(&Error::unreachable("the connection broke", "reset"));
    assert!(matches!(look(lease.as_mut()), Poll::Ready(Err(_))));
    assert!(session.over(at(12)).is_none());
    let mut again = Box::pin(session.lease(at(13), || {}));
    assert!(look(again.as_mut()).is_pending());
    session.heard(at(13), at(13));
    assert_eq!(look(again.as_mut()).map(Result::unwrap), Poll::Ready(held_for(30)));
}

#[test]
fn a_session_that_nobody_kept_alive_is_over() {
    let session = alive();
    assert!(session.over(at(29)).is_none());
    assert!(session.over(at(30)).is_some());
    assert!(matches!(lease(&session, at(30)), Standing::Lost(_)));
}

struct Count(Arc<AtomicU32>);

impl Alerted for Count {
    fn alert(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_end_is_told_to_all_who_watch_and_to_no_one_else() {
    let session = alive();
    let n_told = Arc::new(AtomicU32::new(0));
    let alert = || Alert::new(Count(Arc::clone(&n_told)));
    let mut watches: Vec<_> = (0..3).map(|_| session.watch(alert())).collect();
    drop(watches.pop());
    let mut waits = Box::pin(session.lease(at(12), || {}));
    assert!(look(waits.as_mut()).is_pending());
    for _ in 0..2 {
        session.end(&Error::unreachable("the session expired", "the server says so"));
        assert_eq!(n_told.load(Ordering::SeqCst), 2);
    }
    assert!(matches!(look(waits.as_mut()), Poll::Ready(Ok(Standing::Lost(_)))));
    // Whoever comes late is told at once, and nothing makes the session alive again.
    let _late = session.watch(alert());
    assert_eq!(n_told.load(Ordering::SeqCst), 3);
    session.heard(at(13), at(13));
    session.opened(TTL, at(13));
    assert!(matches!(lease(&session, at(13)), Standing::Lost(_)));
}

#[derive(Debug)]
struct Opened(Session);

impl AsRef<Session> for Opened {
    fn as_ref(&self) -> &Session {
        &self.0
    }
}

fn open(seconds: u64, now: Moment) -> Arc<Opened> {
    let ttl = Duration::from_secs(seconds);
    let session = Session::opening(ttl, now);
    session.opened(ttl, now);
    Arc::new(Opened(session))
}

#[test]
fn each_ttl_has_its_session_until_there_are_too_many() {
    let sessions = SessionsByTtl::at_most(2);
    let ttl_of = |wished: u64| {
        let ttl = Duration::from_secs(wished);
        sessions.get(ttl, at(0), || open(wished, at(0))).0.ttl().as_secs()
    };
    assert_eq!([10, 20, 10, 20].map(ttl_of), [10, 20, 10, 20]);
    assert_eq!(sessions.all().len(), 2);
    // Beyond the cap: the next longer one, or the longest.
    assert_eq!([5, 15, 30].map(ttl_of), [10, 20, 20]);
    assert_eq!(sessions.all().len(), 2);
}

#[test]
fn a_session_that_is_over_is_replaced() {
    let sessions = SessionsByTtl::at_most(1);
    let get = |now| sessions.get(TTL, now, || open(30, now));
    let first = get(at(0));
    assert!(Arc::ptr_eq(&first, &get(at(29))));
    let second = get(at(30));
    assert!(!Arc::ptr_eq(&first, &second));
    second.0.end(&Error::unreachable("the session expired", "the server says so"));
    assert!(!Arc::ptr_eq(&second, &get(at(31))));
}
