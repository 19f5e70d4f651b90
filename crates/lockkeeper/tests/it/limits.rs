//! Every call of an engine at a distance ends in time, whatever the engine does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{Call, ErrorKind, Locks, Loss, clock::Clock, event::Event};

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

/// Beside a connection that has died unseen there is a server that lives: a ttl that is shorter than one answer's
/// time must not keep us from asking it.
#[tokio::test]
async fn one_who_waits_asks_again_however_short_its_ttl_is() {
    let (distant, clock) = (Distant::default(), Clock::by_hand());
    let limit = Duration::from_secs(2);
    let locks = distant.locks_with(|builder| builder.clock(clock.clone()).answer_within(limit));
    let attempts = &distant.wire.attempts;
    attempts.set(Service::LosesCalls);
    let lock = locks.lock("a").ttl(Duration::from_secs(1));
    let waits = tokio::spawn(async move { lock.acquire().await });
    until_so(|| attempts.n_sent() == 1).await;
    attempts.set(Service::Good);
    clock.advance(limit);
    // The pause before the next call goes by.
    until_so(|| {
        clock.advance(Duration::from_millis(1));
        attempts.n_sent() == 2
    })
    .await;
    assert!(soon(waits).await.unwrap().unwrap().is_held());
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

#[tokio::test]
async fn trouble_fails_only_those_whose_own_ttl_it_has_lasted() {
    for is_short_first in [true, false] {
        let distant = Distant::default();
        let locks = hasty(&distant);
        distant.wire.attempts.set(Service::LosesCalls);
        let short = locks.lock("a").ttl(Duration::from_millis(150));
        let long = locks.lock("a").ttl(Duration::from_secs(300));
        let heal = async {
            let error = short.acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unreachable);
            distant.wire.attempts.set(Service::Good);
        };
        let answer = soon(async {
            match is_short_first {
                true => tokio::join!(heal, long.acquire()).1,
                false => tokio::join!(long.acquire(), heal).0,
            }
        });
        let guard = answer.await.expect("a neighbour's ttl says nothing about ours");
        assert!(guard.is_held());
    }
}

#[tokio::test]
async fn an_answer_too_late_for_a_neighbour_is_no_trouble_of_ours() {
    let distant = Distant::default();
    let elsewhere = distant.locks();
    let held = elsewhere.lock("a").acquire().await.unwrap();
    let clock = Clock::by_hand();
    let locks = distant
        .locks_with(|builder| builder.clock(clock.clone()).answer_within(Duration::from_secs(600)));
    let wait = |ttl, limit| {
        let lock = locks.lock("a").ttl(ttl);
        tokio::spawn(async move { lock.acquire_within(limit).await.map(drop) })
    };
    let attempts = &distant.wire.attempts;
    let first = wait(Duration::from_millis(150), 10 * LONG);
    until_so(|| attempts.n_answered() == 2).await;
    let second = wait(LONG, 2 * LONG);
    // The first one is granted it, and the answer is older than its ttl when it is seen.
    attempts.set(Service::KeepsAnswers);
    held.release().await.unwrap();
    until_so(|| attempts.n_under_way() == 1).await;
    clock.advance(Duration::from_secs(1));
    attempts.set(Service::LosesCalls);
    until_so(|| attempts.n_sent() >= 4).await;
    clock.advance(2 * LONG);
    let error = soon(second).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    clock.advance(10 * LONG);
    let error = soon(first).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("longer than the ttl of 150ms"), "{error}");
}

/// Waits until it is so; the tasks beside us go on.
async fn until_so(is_so: impl Fn() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn no_time_at_all_is_time_for_one_attempt() {
    let distant = Distant::default();
    let locks = distant.locks();
    for limit in [Duration::ZERO, Duration::from_nanos(1)] {
        let guard = soon(locks.lock("a").acquire_within(Duration::ZERO)).await.unwrap();
        let error = soon(locks.lock("a").acquire_within(limit)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "held here: {error}");
        let elsewhere = distant.locks();
        let error = soon(elsewhere.lock("a").acquire_within(Duration::ZERO)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "held elsewhere: {error}");
        let both = elsewhere.several(["a", "b"]);
        let error = soon(both.acquire_within(Duration::ZERO)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "one of several: {error}");
        guard.release().await.unwrap();
        assert!(soon(both.acquire_within(Duration::ZERO)).await.unwrap().is_held());
    }
}

#[tokio::test]
async fn when_the_first_of_several_keys_took_all_the_time_the_second_is_timed_out() {
    let clock = Clock::by_hand();
    let distant = Distant::default();
    let moved = clock.clone();
    let locks = distant.locks_with(|builder| {
        builder.clock(clock).answer_within(LONG).observe(move |event: &Event<'_>| {
            if let Event::Granted { .. } = event {
                moved.advance(Duration::from_secs(2));
            }
        })
    });
    let both = locks.several(["a", "b"]);
    let error = soon(both.acquire_within(Duration::from_secs(1))).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::TimedOut, Some("b")), "{error}");
    assert_eq!(distant.wire.attempts.n_sent(), 1, "the second was not asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_over_before_anything_was_asked_is_timed_out() {
    let memory = lockkeeper::engines::memory::Memory::default();
    let (locks, elsewhere) =
        (Locks::with_engine(memory.clone()).unwrap(), Locks::with_engine(memory).unwrap());
    let _guard = elsewhere.lock("a").acquire().await.unwrap();
    for nanos in [0, 1, 100, 1_000, 10_000, 100_000] {
        for _ in 0..200 {
            let limit = Duration::from_nanos(nanos);
            let waits = (0..4).map(|_| {
                let lock = locks.lock("a");
                tokio::spawn(async move { lock.acquire_within(limit).await.map(drop) })
            });
            for wait in waits.collect::<Vec<_>>() {
                let error = wait.await.unwrap().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{limit:?}: {error}");
            }
        }
    }
}
