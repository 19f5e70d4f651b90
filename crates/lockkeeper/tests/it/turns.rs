//! The line: turns, their order, their fences.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use lockkeeper::{
    blocking::block_on,
    event::Event,
    {Locks, engines::memory::Memory},
};

use crate::tools::{LONG, memory};

#[tokio::test]
async fn tasks_are_served_in_the_order_they_came() {
    let locks = memory().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..200 {
        let (locks, served) = (locks.clone(), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            let guard = locks.lock("a").acquire().await.unwrap();
            served.lock().unwrap().push((n, guard.fence()));
        }));
        tokio::task::yield_now().await;
    }
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    let served = served.lock().unwrap();
    assert!(served.iter().map(|(n, _)| *n).eq(0..200), "{served:?}");
    assert!(served.is_sorted_by(|a, b| a.1 < b.1), "fences must grow: {served:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_cost_few_claims_and_every_turn_has_a_larger_fence() {
    let n_granted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_granted);
    let locks = Locks::builder()
        .observe(move |event: &Event<'_>| {
            if let Event::Granted { .. } = event {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        })
        .build(Box::new(Memory::default()))
        .unwrap();
    let last = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (locks, last) = (locks.clone(), Arc::clone(&last));
            tokio::spawn(async move {
                for _ in 0..50 {
                    let guard = locks.lock("hot").acquire().await.unwrap();
                    let before = last.swap(guard.fence(), Ordering::SeqCst);
                    assert!(before < guard.fence(), "{before} then {}", guard.fence());
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let n_granted = n_granted.load(Ordering::Relaxed);
    assert!(n_granted <= 64 * 50 / 16, "{n_granted} claims for 3200 turns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_busy_process_does_not_keep_a_key_from_another() {
    // Two `Locks` on one table contend like two processes.
    let memory = Memory::default();
    let others = Locks::with_engine(memory.clone()).unwrap();
    let locks = Locks::with_engine(memory).unwrap();
    let stop = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (locks, stop) = (locks.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while stop.load(Ordering::Relaxed) == 0 {
                    let _guard = locks.lock("hot").acquire().await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..20 {
        others.lock("hot").acquire_within(LONG).await.unwrap().release().await.unwrap();
    }
    stop.store(1, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn turns_are_passed_on_only_between_equal_terms() {
    let locks = memory().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move {
            let guard = locks.lock("a").ttl(Duration::from_millis(300)).acquire().await.unwrap();
            guard.remaining().unwrap()
        }
    });
    tokio::task::yield_now().await;
    drop(guard);
    let remaining = waits.await.unwrap();
    assert!(remaining <= Duration::from_millis(300), "{remaining:?} is not of its own ttl");
}

#[tokio::test]
async fn a_stranger_is_never_let_in_twice() {
    let locks = memory().await;
    let _guard = locks.lock("a").acquire().await.unwrap();
    let again = locks.lock("a").acquire_within(Duration::from_millis(50)).await;
    assert!(again.is_err());
}

#[tokio::test]
async fn keys_by_the_thousand_are_forgotten_and_found_again() {
    let locks = memory().await;
    let kept: Vec<_> = (0..50).map(|n| locks.lock(&format!("kept {n}"))).collect();
    let mut guards = Vec::new();
    for n in 0..5_000 {
        let guard = locks.lock(&format!("order:{n}")).acquire().await.unwrap();
        if n % 100 == 0 {
            guards.push(guard);
        }
    }
    for (n, lock) in kept.iter().enumerate() {
        let guard = lock.acquire().await.unwrap();
        assert!(locks.lock(&format!("kept {n}")).try_acquire().await.unwrap().is_none());
        drop(guard);
    }
    for n in (0..5_000).step_by(100) {
        assert!(locks.lock(&format!("order:{n}")).try_acquire().await.unwrap().is_none(), "{n}");
    }
}

/// A waker that has something which it drops with itself, as the task of an executor may.
struct Owning<T>(T);

impl<T: Send + Sync + 'static> Wake for Owning<T> {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_replaced_may_end_the_turn_that_is_waited_for() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let locks = block_on(memory());
        let guard = block_on(locks.lock("a").acquire()).unwrap();
        let mut waits = Box::pin(async move { locks.lock("a").acquire().await.unwrap() });
        let owning = Waker::from(Arc::new(Owning(guard)));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&owning)).is_pending());
        drop(owning);
        tell.send(block_on(waits).fence()).unwrap();
    });
    let fence = told.recv_timeout(LONG).expect("it waits for ever");
    assert!(fence > 0);
}
