//! Every call of an engine at a distance ends in time, whatever the engine does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{Call, ErrorKind, Locks, Loss, event::Event};

use crate::{
    cancelling::visits_dropped_anywhere,
    distant::{Distant, Service},
    engines::Desk,
    planted::machine::Wired,
    tools::{LONG, SHORT_TTL},
};

const LIMIT: Duration = Duration::from_millis(100);
/// An answer that nobody in these tests waits for.
const VERY_LONG: Duration = Duration::from_secs(600);

fn hasty(distant: &Distant) -> Locks {
    distant.locks_with(|builder| builder.answer_within(LIMIT))
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("an end")
}

#[tokio::test]
async fn a_try_that_gets_no_answer_ends_as_unreachable() {
    let distant = Distant::default();
    let locks = hasty(&distant);
    // The release that cleans up after it gets no answer either, and keeps nobody.
    distant.wire.releases.set(Service::LosesCalls);
    for service in [Service::LosesCalls, Service::LosesAnswers] {
        distant.wire.attempts.set(service);
        let error = soon(locks.lock("a").try_acquire()).await.unwrap_err();
        assert_eq!((error.kind(), error.call()), (ErrorKind::Unreachable, Some(Call::Acquire)));
        assert_eq!(
            error.to_string(),
            "cannot take \"a\" on distant: no answer within 100ms",
            "{service:?}"
        );
    }
    distant.wire.attempts.set(Service::Good);
    distant.wire.releases.set(Service::Good);
    // What the lost answers granted is given back in the background.
    assert!(soon(locks.lock("a").acquire()).await.unwrap().is_held());
}

#[tokio::test]
async fn one_who_waits_asks_again_after_a_lost_answer() {
    let distant = Distant::default();
    let locks = hasty(&distant);
    distant.wire.attempts.set(Service::LosesAnswers);
    let lock = locks.lock("a");
    let heal = async {
        while distant.wire.attempts.n_sent() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        distant.wire.attempts.set(Service::Good);
    };
    let (guard, ()) = soon(async { tokio::join!(lock.acquire(), heal) }).await;
    assert!(guard.unwrap().is_held());
}

#[tokio::test]
async fn one_who_waits_is_told_after_a_ttl_without_any_answer() {
    let distant = Distant::default();
    let locks = hasty(&distant);
    distant.wire.attempts.set(Service::LosesCalls);
    let lock = locks.lock("a").ttl(2 * SHORT_TTL);
    let error = soon(lock.acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(distant.wire.attempts.n_sent() >= 2, "asked only once");
}

#[tokio::test]
async fn a_callers_own_limit_holds_though_the_engine_hangs() {
    let distant = Distant::default();
    let locks = distant.locks_with(|builder| builder.answer_within(VERY_LONG));
    distant.wire.attempts.set(Service::LosesCalls);
    let error = soon(locks.lock("a").acquire_within(LIMIT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "it was never told busy: {error}");
    let held = distant.locks();
    distant.wire.attempts.set(Service::Good);
    let _guard = held.lock("b").acquire().await.unwrap();
    let error = soon(locks.lock("b").acquire_within(10 * LIMIT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "it was told busy: {error}");
}

#[tokio::test]
async fn a_release_that_gets_no_answer_ends_and_goes_on_behind() {
    let distant = Distant::default();
    let locks = hasty(&distant);
    let guard = locks.lock("a").acquire().await.unwrap();
    distant.wire.releases.set(Service::LosesCalls);
    let error = soon(guard.release()).await.unwrap_err();
    assert_eq!((error.kind(), error.call()), (ErrorKind::Unreachable, Some(Call::Release)));
    distant.wire.releases.set(Service::Good);
    let next = soon(distant.locks().lock("a").acquire()).await.unwrap();
    assert!(next.is_held());
}

#[tokio::test]
async fn a_loss_is_told_though_the_renewal_hangs() {
    let distant = Distant::default();
    let locks = distant.locks_with(|builder| builder.answer_within(VERY_LONG));
    let guard = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
    distant.wire.renewals.set(Service::LosesCalls);
    assert_eq!(soon(guard.lost()).await, Loss::Expired);
    assert!(!guard.is_held());
    let next = soon(locks.lock("a").acquire()).await.unwrap();
    assert!(next.fence() > guard.fence());
}

#[tokio::test]
async fn a_renewal_that_hangs_leaves_time_for_another() {
    let distant = Distant::default();
    // Longer than the lease: only the lease itself can be what cuts the first renewal short.
    let locks = distant.locks_with(|builder| builder.answer_within(VERY_LONG));
    let guard = locks.lock("a").ttl(Duration::from_secs(6)).acquire().await.unwrap();
    distant.wire.renewals.set(Service::LosesAnswers);
    let start = Instant::now();
    while distant.wire.renewals.n_sent() == 0 && start.elapsed() < LONG {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    distant.wire.renewals.set(Service::Good);
    while distant.wire.renewals.n_answered() == 0 && start.elapsed() < LONG {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_release_does_not_wait_for_a_renewal_that_hangs() {
    let distant = Distant::default();
    let locks = distant.locks_with(|builder| builder.answer_within(VERY_LONG));
    let ttl = Duration::from_secs(20);
    let guard = locks.lock("a").ttl(ttl).maximum_hold(VERY_LONG).acquire().await.unwrap();
    distant.wire.renewals.set(Service::LosesCalls);
    let start = Instant::now();
    while distant.wire.renewals.n_sent() == 0 && start.elapsed() < LONG {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await.unwrap();
    assert_eq!(distant.wire.renewals.n_under_way(), 0);
    assert!(distant.locks().lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn trouble_is_told_to_observers() {
    let n_troubles = Arc::new(AtomicUsize::new(0));
    let distant = Distant::default();
    let counted = Arc::clone(&n_troubles);
    let locks = distant.locks_with(|builder| {
        builder.answer_within(LIMIT).observe(move |event: &Event<'_>| {
            if let Event::Troubled { error, .. } = event {
                assert_eq!(error.kind(), ErrorKind::Unreachable);
                counted.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    distant.wire.attempts.set(Service::LosesCalls);
    assert!(soon(locks.lock("a").ttl(SHORT_TTL).acquire()).await.is_err());
    assert!(n_troubles.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn looking_ends_too() {
    let distant = Distant::default();
    let locks = hasty(&distant);
    distant.wire.questions.set(Service::LosesCalls);
    let error = soon(locks.who("a")).await.unwrap_err();
    assert_eq!((error.kind(), error.call()), (ErrorKind::Unreachable, Some(Call::Inspect)));
    assert_eq!(soon(locks.list()).await.unwrap_err().kind(), ErrorKind::Unreachable);
    assert_eq!(soon(locks.tidy(LONG)).await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[test]
fn a_limit_of_zero_is_refused() {
    let zero = Duration::ZERO;
    for builder in [Locks::builder().answer_within(zero), Locks::builder().connect_within(zero)] {
        let error = builder.build(Box::new(Distant::default())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOptions, "{error}");
    }
}

#[test]
fn a_builder_does_not_show_its_url() {
    let shown = format!("{:?}", Locks::builder().url("redis://joe:secret@host"));
    assert!(!shown.contains("secret") && !shown.contains("host"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_dropped_anywhere_leave_nothing_behind_at_a_distance() {
    let distant = Distant::default();
    let locks = distant.locks();
    visits_dropped_anywhere(&locks, 50, 200).await;
    let start = Instant::now();
    while !locks.list().await.unwrap().is_empty() && start.elapsed() < LONG {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(locks.list().await.unwrap(), []);
}

#[test]
fn an_engine_at_a_distance_keeps_the_rules() {
    let distant = Distant::default();
    let wired = Wired { memory: distant.memory.clone(), ..Wired::default() };
    let lab = Desk { engine: distant, wired, limit: LONG };
    // Its wire cannot be cut by the desk, so the rules about that are not asked of it.
    for rule in lockkeeper::conformance::rules() {
        if ["cut", "reach"].iter().any(|word| rule.name.contains(word)) {
            continue;
        }
        let verdict = lockkeeper::blocking::block_on(lockkeeper::conformance::check(&lab, rule));
        let broken = matches!(verdict, lockkeeper::conformance::Verdict::Broken(_));
        assert!(!broken, "{}: {verdict:?}", rule.name);
    }
}
