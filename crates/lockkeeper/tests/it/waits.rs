//! Who waits where for an engine at a distance.

use std::{
    sync::{Arc, atomic::AtomicUsize, mpsc},
    thread,
    time::{Duration, Instant},
};

use lockkeeper::blocking;
use tokio::runtime::{Builder, Runtime};

use crate::{
    cancelling::{drop_somewhere, one_visit},
    distant::{Distant, Service, Wire},
    tools::{LONG, poll_once, until},
};

/// The same place, at the end of a wire of its own.
fn beside(distant: &Distant) -> Distant {
    Distant { memory: distant.memory.clone(), wire: Arc::new(Wire::default()) }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

#[tokio::test]
async fn what_is_asked_and_released_is_sent_by_the_callers_own_thread() {
    let distant = Distant::default();
    let locks = distant.locks();
    for _ in 0..3 {
        locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    }
    let here = [thread::current().id(); 3];
    assert_eq!(distant.wire.attempts.sent_by(), here);
    assert_eq!(distant.wire.releases.sent_by(), here);
}

#[test]
fn one_who_waits_alone_waits_in_its_own_thread() {
    let distant = Distant::default();
    let other = beside(&distant);
    let held = blocking::block_on(distant.locks().lock("a").acquire()).unwrap();
    let waiting = thread::spawn({
        let locks = other.locks();
        move || {
            let guard = current_thread().block_on(locks.lock("a").acquire_within(LONG)).unwrap();
            (guard.fence(), thread::current().id())
        }
    });
    until("a first attempt", || other.wire.attempts.n_answered() > 0);
    let fence = held.fence();
    drop(held);
    let (won, there) = waiting.join().unwrap();
    assert!(won > fence);
    let sent_by = other.wire.attempts.sent_by();
    assert!(sent_by.len() > 1 && sent_by.iter().all(|thread| *thread == there), "{sent_by:?}");
}

#[test]
fn a_blocked_runtime_stops_nobody_else() {
    let distant = Distant::default();
    let first = beside(&distant);
    let held = blocking::block_on(distant.locks().lock("a").acquire()).unwrap();
    let (unblock, blocked) = mpsc::channel::<()>();
    let locks = first.locks();
    // A task waits in a runtime of its own, which then is blocked.
    let runtime = thread::spawn({
        let (locks, wire) = (locks.clone(), Arc::clone(&first.wire));
        move || {
            current_thread().block_on(async {
                let lock = locks.lock("a");
                let mut wait = Box::pin(lock.acquire());
                while wire.attempts.n_answered() == 0 {
                    assert!(poll_once(&mut wait).await.is_none());
                }
                blocked.recv_timeout(2 * LONG).unwrap();
            });
        }
    });
    until("the first one to wait", || first.wire.attempts.n_answered() > 0);
    drop(held);
    // Not those who want another key, nor those at other locks who want the same: its place in
    // the queue ends, as nobody asks about it.
    for (locks, key) in [(&locks, "b"), (&distant.locks(), "b"), (&distant.locks(), "a")] {
        let guard = blocking::block_on(locks.lock(key).acquire_within(LONG)).unwrap();
        assert!(guard.is_held(), "{key}");
    }
    unblock.send(()).unwrap();
    runtime.join().unwrap();
}

#[test]
fn a_second_in_line_does_not_depend_on_the_runtime_of_the_first() {
    let distant = Distant::default();
    let other = beside(&distant);
    let held = blocking::block_on(distant.locks().lock("a").acquire()).unwrap();
    let locks = other.locks();
    let lock = locks.lock("a");
    let mut first = Box::pin(lock.acquire());
    while other.wire.attempts.n_answered() == 0 {
        assert!(blocking::block_on(poll_once(&mut first)).is_none());
    }
    // From here on nobody polls the first, as in a blocked runtime. The second joins its line.
    let second = thread::spawn({
        let locks = locks.clone();
        move || blocking::block_on(locks.lock("a").acquire_within(LONG)).map(|guard| guard.fence())
    });
    let fence = held.fence();
    drop(held);
    until("a grant", || {
        let holder = blocking::block_on(locks.who("a")).unwrap().holder;
        holder.is_some_and(|holder| holder.fence > Some(fence))
    });
    // It was the first one's turn; when that goes, the second has it.
    drop(first);
    assert!(second.join().unwrap().unwrap() > fence + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_at_a_distance_are_all_served() {
    let distant = Distant::default();
    let mut tasks = Vec::new();
    for n in 0..8 {
        let locks = beside(&distant).locks();
        for _ in 0..(1 + n % 3) {
            let locks = locks.clone();
            tasks.push(tokio::spawn(async move {
                let mut last = 0;
                for round in 0..50 {
                    let guard = locks.lock("hot").acquire_within(LONG).await.unwrap();
                    assert!(guard.fence() > last);
                    last = guard.fence();
                    match round % 2 {
                        0 => drop(guard),
                        _ => guard.release().await.unwrap(),
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn one_who_stops_waiting_leaves_the_queue() {
    let distant = Distant::default();
    let other = beside(&distant);
    let held = distant.locks().lock("a").acquire().await.unwrap();
    let locks = other.locks();
    for _ in 0..20 {
        let wait = locks.lock("a");
        let wait = wait.acquire_within(Duration::from_millis(5));
        assert!(wait.await.is_err());
    }
    let start = Instant::now();
    while !locks.who("a").await.unwrap().line.is_empty() {
        assert!(start.elapsed() < LONG, "still in the queue");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Nor does one whose answer never came.
    other.wire.attempts.set(Service::LosesAnswers);
    let wait = locks.lock("a");
    assert!(wait.acquire_within(Duration::from_millis(5)).await.is_err());
    other.wire.attempts.set(Service::Good);
    drop(held);
    assert!(distant.locks().lock("a").acquire_within(LONG).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_dropped_anywhere_leave_the_key_to_others() {
    let distant = Distant::default();
    let n_inside: Arc<AtomicUsize> = Arc::default();
    let mut tasks = Vec::new();
    for task in 0..12u64 {
        // Every third has locks of its own and waits alone; the others share a line in twos.
        let locks = distant.locks();
        for mate in 0..1 + u64::from(task % 3 > 0) {
            let (locks, n_inside) = (locks.clone(), Arc::clone(&n_inside));
            tasks.push(tokio::spawn(async move {
                let mut random = (task * 2 + mate + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                for _ in 0..100 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let seed = random >> 33;
                    let visit = one_visit(&locks, &n_inside, "hot", seed >> 3);
                    drop_somewhere(visit, (seed >> 10) as u32 % 12).await;
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(distant.locks().lock("hot").acquire_within(LONG).await.unwrap().is_held());
}

/// A waker that can be counted.
struct Counted;

impl std::task::Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test]
async fn the_waker_of_one_who_gave_up_is_not_kept_for_those_behind() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let connect = async || lockkeeper::Locks::connect(&url).await.unwrap();
    let (locks, elsewhere) = (connect().await, connect().await);
    let _guard = elsewhere.lock("a").acquire().await.unwrap();
    let counted = Arc::new(Counted);
    let waker = Arc::clone(&counted).into();
    let (first, second) = (locks.lock("a"), locks.lock("a"));
    let mut first = Box::pin(first.acquire());
    assert!(first.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    let mut second = Box::pin(second.acquire());
    assert!(crate::tools::poll_once(&mut second).await.is_none());
    drop((first, waker));
    crate::tools::until("the waker to be dropped", || Arc::strong_count(&counted) == 1);
}

#[tokio::test]
async fn the_waker_of_one_who_waited_is_not_kept() {
    let distant = Distant::default();
    let (locks, elsewhere) = (distant.locks(), beside(&distant).locks());
    for is_dropped in [false, true] {
        let guard = elsewhere.lock("a").acquire().await.unwrap();
        let n_answered = distant.wire.attempts.n_answered();
        let counted = Arc::new(Counted);
        let waker = Arc::clone(&counted).into();
        let lock = locks.lock("a");
        let mut wait = Box::pin(lock.acquire());
        let mut context = std::task::Context::from_waker(&waker);
        while distant.wire.attempts.n_answered() == n_answered {
            assert!(wait.as_mut().poll(&mut context).is_pending());
        }
        assert!(wait.as_mut().poll(&mut context).is_pending());
        if is_dropped {
            drop(wait);
            guard.release().await.unwrap();
        } else {
            guard.release().await.unwrap();
            while wait.as_mut().poll(&mut context).is_pending() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(wait);
        }
        drop(waker);
        crate::tools::until("the waker to be dropped", || Arc::strong_count(&counted) == 1);
    }
}

#[tokio::test]
async fn one_who_only_tries_never_waits_for_a_turn_of_another_task() {
    let distant = Distant::default();
    let locks = distant.locks();
    distant.wire.attempts.set(Service::KeepsAnswers);
    let lock = locks.lock("a");
    let (mut first, mut second) = (Box::pin(lock.try_acquire()), Box::pin(lock.try_acquire()));
    assert!(poll_once(&mut first).await.is_none());
    assert!(poll_once(&mut second).await.is_none());
    distant.wire.attempts.set(Service::Good);
    let guard = tokio::time::timeout(LONG, first).await.expect("an answer").unwrap();
    assert!(guard.is_some());
    let answer = tokio::time::timeout(LONG / 6, second).await.expect("an answer").unwrap();
    assert!(answer.is_none());
}

#[tokio::test]
async fn one_who_tries_behind_one_who_waits_is_told_busy_at_once() {
    let distant = Distant::default();
    let held = beside(&distant).locks().lock("a").acquire().await.unwrap();
    let locks = distant.locks();
    let lock = locks.lock("a");
    // The first is asking when the others come.
    distant.wire.attempts.set(Service::KeepsAnswers);
    let mut first = Box::pin(lock.try_acquire());
    assert!(poll_once(&mut first).await.is_none());
    let mut waits = Box::pin(lock.acquire());
    assert!(poll_once(&mut waits).await.is_none());
    let mut second = Box::pin(lock.try_acquire());
    let at_once = poll_once(&mut second).await;
    distant.wire.attempts.set(Service::Good);
    assert!(first.await.unwrap().is_none());
    assert!(poll_once(&mut waits).await.is_none());
    let second = match at_once {
        Some(answer) => answer,
        None => tokio::time::timeout(LONG, second).await.expect("an answer to one who tries"),
    };
    assert!(second.unwrap().is_none());
    drop(held);
    assert!(tokio::time::timeout(LONG, waits).await.unwrap().unwrap().is_held());
}
