//! How a hold ends that nobody asked to end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{
    ErrorKind, Key, Locks, Loss, clock::Clock, engines::memory::Memory, event::Event,
};

use crate::{
    distant::{Distant, Service},
    tools::{LONG, SHORT_TTL, Troubled, until},
};

#[tokio::test]
async fn a_lock_taken_away_is_told_by_the_next_renewal() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let guard = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
    troubled.memory.take_away(&Key::new("a").unwrap());
    let loss = tokio::time::timeout(LONG, guard.lost()).await.expect("told");
    assert!(matches!(loss, Loss::TakenAway(_)), "{loss:?}");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Some(Duration::ZERO));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn a_guard_that_was_lost_does_not_release_its_successor() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let lost = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
    troubled.memory.take_away(&Key::new("a").unwrap());
    lost.lost().await;
    let next = locks.lock("a").acquire_within(LONG).await.unwrap();
    assert!(next.fence() > lost.fence());
    drop(lost);
    assert!(locks.lock("a").try_acquire().await.unwrap().is_none());
    assert!(next.is_held());
}

#[tokio::test]
async fn those_in_line_behind_a_lost_hold_are_served() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let lost = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("a").acquire_within(LONG).await.map(|guard| guard.fence()) }
    });
    tokio::task::yield_now().await;
    troubled.memory.take_away(&Key::new("a").unwrap());
    assert!(waits.await.unwrap().unwrap() > lost.fence());
}

#[tokio::test]
async fn an_engine_that_does_not_answer_costs_the_lock_at_the_end_of_the_lease_and_no_sooner() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let guard = locks.lock("a").ttl(Duration::from_millis(600)).acquire().await.unwrap();
    troubled.cut_off(true);
    let remaining = guard.remaining().unwrap();
    let start = Instant::now();
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(start.elapsed() + Duration::from_millis(5) >= remaining, "{:?}", start.elapsed());
}

#[tokio::test]
async fn one_failed_renewal_does_not_lose_the_lock() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let guard = locks.lock("a").ttl(Duration::from_millis(900)).acquire().await.unwrap();
    troubled.cut_off(true);
    tokio::time::sleep(Duration::from_millis(450)).await;
    troubled.cut_off(false);
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(guard.is_held());
}

#[test]
fn the_end_is_told_within_50_ms_though_the_steward_is_stalled() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    // The best of five: the machine may be slower, the library not.
    let late = (0..5)
        .map(|n| {
            troubled.switches.stalls.store(true, Ordering::SeqCst);
            lockkeeper::blocking::block_on(async {
                let lock = locks.lock(&format!("a {n}")).ttl(SHORT_TTL);
                let guard = lock.acquire().await.unwrap();
                let end = Instant::now() + guard.remaining().unwrap();
                assert_eq!(guard.lost().await, Loss::Expired);
                Instant::now().saturating_duration_since(end)
            })
        })
        .min();
    assert!(late.unwrap() < Duration::from_millis(50), "{late:?}");
}

#[tokio::test]
async fn work_is_stopped_when_the_lock_is_lost() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let guard = locks.lock("a").ttl(SHORT_TTL).acquire().await.unwrap();
    assert_eq!(guard.protect(async { 7 }).await.unwrap(), 7);
    troubled.memory.take_away(&Key::new("a").unwrap());
    let error = guard.protect(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("\"a\""), "{error}");
}

#[tokio::test]
async fn a_maximum_hold_ends_a_hold_that_is_renewed_and_frees_the_key() {
    let locks = Locks::connect("memory:").await.unwrap();
    let lock = locks.lock("a").ttl(SHORT_TTL);
    let guard = lock.clone().maximum_hold(Duration::from_millis(500)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, Loss::MaximumHold);
    let next = lock.acquire_within(LONG).await.unwrap();
    // The next one, passed on or not, has no maximum.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(next.is_held());
}

#[tokio::test]
async fn a_maximum_hold_counts_per_turn() {
    let locks = Locks::connect("memory:").await.unwrap();
    let lock = locks.lock("a").maximum_hold(Duration::from_millis(400));
    let first = lock.acquire().await.unwrap();
    let second = tokio::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(60)).await;
    drop(first);
    let second = second.await.unwrap();
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert!(second.is_held(), "350 ms of 400 have passed since its turn began");
    assert_eq!(second.lost().await, Loss::MaximumHold);
}

#[test]
fn after_a_suspend_a_hold_is_over_at_once() {
    let clock = Clock::by_hand();
    let memory = Memory::default();
    let locks = Locks::builder().clock(clock.clone()).build(Box::new(memory)).unwrap();
    lockkeeper::blocking::block_on(async {
        let guard = locks.lock("a").acquire().await.unwrap();
        assert!(guard.is_held());
        clock.advance(Duration::from_secs(3600));
        assert!(!guard.is_held());
        guard.lost().await;
    });
}

#[test]
fn a_renewal_that_comes_after_the_end_does_not_bring_the_hold_back() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    troubled.switches.stalls.store(true, Ordering::SeqCst);
    lockkeeper::blocking::block_on(async {
        // A renewal takes a second here, the lease is shorter: it always comes too late.
        let guard = locks.lock("a").ttl(Duration::from_millis(300)).acquire().await.unwrap();
        let start = Instant::now();
        let mut was_held = true;
        while start.elapsed() < Duration::from_millis(1_500) {
            let is_held = guard.is_held();
            assert!(was_held || !is_held, "held again after {:?}", start.elapsed());
            was_held = is_held;
            std::thread::yield_now();
        }
        assert!(!was_held);
    });
}

#[test]
fn an_observer_that_panics_stops_nothing() {
    let locks = Locks::builder()
        .observe(|event: &lockkeeper::event::Event<'_>| {
            if let lockkeeper::event::Event::Lost { .. } = event {
                panic!("on purpose");
            }
        })
        .build(Box::new(Memory::default()))
        .unwrap();
    lockkeeper::blocking::block_on(async {
        for _ in 0..3 {
            let lock = locks.lock("a").maximum_hold(Duration::from_millis(20));
            let guard = lock.acquire_within(LONG).await.unwrap();
            assert_eq!(guard.lost().await, Loss::MaximumHold);
        }
    });
}

#[test]
fn a_clock_moved_by_hand_renews() {
    let clock = Clock::by_hand();
    let locks = Locks::builder().clock(clock.clone()).build(Box::new(Memory::default())).unwrap();
    lockkeeper::blocking::block_on(async {
        let guard = locks.lock("a").acquire().await.unwrap();
        for _ in 0..10 {
            let before = guard.remaining().unwrap();
            clock.advance(Duration::from_secs(4));
            let start = Instant::now();
            while guard.remaining().unwrap() < before && start.elapsed() < LONG {
                std::thread::yield_now();
            }
            assert!(guard.remaining().unwrap() >= before);
        }
    });
}

#[tokio::test]
async fn a_release_says_that_the_lock_was_not_ours_any_more() {
    let losses: Arc<Mutex<Vec<Loss>>> = Arc::default();
    let distant = Distant::default();
    let told = Arc::clone(&losses);
    let locks = distant.locks_with(|builder| {
        builder.answer_within(LONG).observe(move |event: &Event<'_>| {
            if let Event::Lost { loss, .. } = event {
                told.lock().unwrap().push((*loss).clone());
            }
        })
    });
    let key = Key::new("a").unwrap();
    for is_dropped in [false, true] {
        let guard = locks.lock("a").acquire().await.unwrap();
        distant.memory.take_away(&key);
        // No renewal is due yet: only the engine knows.
        assert!(guard.is_held());
        if is_dropped {
            drop(guard);
        } else {
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        }
    }
    until("both losses to be told", || losses.lock().unwrap().len() == 2);
    let losses = losses.lock().unwrap();
    assert!(losses.iter().all(|loss| matches!(loss, Loss::TakenAway(_))), "{losses:?}");
}

#[tokio::test]
async fn a_release_during_a_renewal_is_confirmed_or_not_said_to_be() {
    for is_taken_away in [false, true] {
        let distant = Distant::default();
        let locks = distant.locks();
        distant.wire.renewals.set(Service::LosesCalls);
        let lock = locks.lock("a").ttl(Duration::from_secs(3));
        let guard = lock.acquire().await.unwrap();
        while distant.wire.renewals.n_under_way() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if is_taken_away {
            distant.memory.take_away(&Key::new("a").unwrap());
        }
        let released = guard.release().await;
        assert_eq!(distant.wire.releases.n_answered(), 1);
        match is_taken_away {
            false => released.unwrap(),
            true => assert_eq!(released.unwrap_err().kind(), ErrorKind::Lost),
        }
    }
}

#[tokio::test]
async fn a_release_that_got_no_answer_is_no_loss_when_it_is_repeated() {
    let n_lost: Arc<AtomicUsize> = Arc::default();
    let distant = Distant::default();
    let told = Arc::clone(&n_lost);
    let locks = distant.locks_with(|builder| {
        builder.answer_within(Duration::from_millis(50)).observe(move |event: &Event<'_>| {
            told.fetch_add(usize::from(matches!(event, Event::Lost { .. })), Ordering::SeqCst);
        })
    });
    for is_dropped in [false, true] {
        let guard = locks.lock("a").acquire().await.unwrap();
        distant.wire.releases.set(Service::LosesAnswers);
        let n_answered = distant.wire.releases.n_answered();
        if is_dropped {
            drop(guard);
        } else {
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unreachable);
        }
        // The first release was carried out: whoever repeats it hears that the lock is not ours.
        distant.wire.releases.set(Service::Good);
        while distant.wire.releases.n_answered() == n_answered {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(n_lost.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_release_is_a_loss_if_a_renewal_finds_it_lost_meanwhile() {
    let troubled = Troubled::default();
    let locks = troubled.locks();
    let guard = locks.lock("a").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    troubled.switches.loses.store(true, Ordering::SeqCst);
    until("a renewal to be under way", || troubled.switches.n_renewals.load(Ordering::SeqCst) > 0);
    // The renewal has its answer as soon as it is looked for; the release itself would be a good one.
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}
