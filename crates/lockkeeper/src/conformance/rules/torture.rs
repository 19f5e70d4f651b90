//! Many at once: the one thing a lock is for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use super::{always, rule};
use crate::{
    api::{blocking::block_on, locks::Locks},
    conformance::{
        Rule,
        room::{Finding, Room, Stop, ensure},
    },
    engine::error::{Error, Result},
    time::clock::{Clock, Moment},
    tools::sync::Flag,
};

pub(super) const RULES: &[Rule] = &[rule!(
    always,
    nobody_is_inside_twice,
    "threads on several connections that take one key in all three ways are never inside together, and each has a larger fence than the one before"
)];

const N_CONNECTIONS: usize = 2;
const N_THREADS_EACH: usize = 3;
const ROUNDS: usize = 60;
/// When to stop though there are rounds left: a server may be slow.
const LONGEST: Duration = Duration::from_secs(3);

/// What the lock protects: a counter with no protection of its own, and what was seen of it.
#[derive(Default)]
struct Shared {
    inside: AtomicBool,
    n_overlaps: AtomicU32,
    n_fences_back: AtomicU32,
    last_fence: AtomicU64,
    n_turns: AtomicU32,
    n_running: AtomicU32,
    done: Flag,
}

async fn nobody_is_inside_twice(room: &Room<'_>) -> Finding {
    let key = room.key()?;
    let shared = Arc::new(Shared::default());
    let stop_at = room.clock.now() + LONGEST;
    let mut threads = Vec::new();
    for _ in 0..N_CONNECTIONS {
        let locks = room.locks().await?;
        for n in 0..N_THREADS_EACH {
            let (locks, shared, key) = (locks.clone(), Arc::clone(&shared), key.clone());
            let limit = room.limit();
            shared.n_running.fetch_add(1, Ordering::SeqCst);
            let spawned = thread::Builder::new().spawn(move || {
                let came = block_on(take_turns(&locks, key.as_str(), n, &shared, stop_at, limit));
                if shared.n_running.fetch_sub(1, Ordering::SeqCst) == 1 {
                    shared.done.raise();
                }
                came
            });
            let no_thread = |source| Stop::Skipped(format!("no thread to be had: {source}"));
            threads.push(spawned.map_err(no_thread)?);
        }
    }
    let longest = LONGEST + room.limit() * 2;
    room.within(longest, "all threads to have had their turns", shared.done.raised()).await?;
    for thread in threads {
        thread.join().unwrap_or_else(|_| Err(Error::refused("a thread panicked")))?;
    }
    let read = |number: &AtomicU32| number.load(Ordering::SeqCst);
    let n_turns = read(&shared.n_turns);
    let n_overlaps = read(&shared.n_overlaps);
    ensure!(n_overlaps == 0, "two were inside together in {n_overlaps} of {n_turns} turns");
    let n_back = read(&shared.n_fences_back);
    ensure!(n_back == 0, "the fence did not grow in {n_back} of {n_turns} turns");
    ensure!(n_turns > 0, "nobody had a turn");
    Ok(())
}

async fn take_turns(
    locks: &Locks,
    key: &str,
    n: usize,
    shared: &Shared,
    stop_at: Moment,
    limit: Duration,
) -> Result<()> {
    let lock = locks.lock(key);
    let lock = if n == 0 { lock.barging() } else { lock };
    for round in 0..ROUNDS {
        if Clock::default().now() >= stop_at {
            break;
        }
        let guard = match (n + round) % 3 {
            0 => lock.try_acquire().await?,
            _ => Some(lock.acquire_within(limit).await?),
        };
        let Some(guard) = guard else { continue };
        shared.n_turns.fetch_add(1, Ordering::SeqCst);
        if shared.inside.swap(true, Ordering::SeqCst) {
            shared.n_overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let before = shared.last_fence.swap(guard.fence(), Ordering::SeqCst);
        if guard.fence() != 0 && guard.fence() <= before {
            shared.n_fences_back.fetch_add(1, Ordering::SeqCst);
        }
        // Time for somebody else to come in, if anything lets them.
        thread::sleep(Duration::from_micros(200));
        shared.inside.store(false, Ordering::SeqCst);
        match round % 2 {
            0 => drop(guard),
            _ => guard.release().await?,
        }
    }
    Ok(())
}
