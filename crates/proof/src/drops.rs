//! Futures dropped at any point leave nothing behind: no claim, no thread, no descriptor.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use lockkeeper::Locks;
use tokio::runtime::Runtime;

use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

const N_KEYS: usize = 8;
const N_TASKS: u64 = 64;

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let folder = lab::Folder::new()?;
    for url in [folder.url("locks"), "memory:drops".into()] {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
        drop_everywhere(settings, &runtime, &url)?;
    }
    Ok(())
}

fn drop_everywhere(settings: &Settings, runtime: &Runtime, url: &str) -> Outcome {
    // Two, because the tasks of one are served by one claim: so claims wait for claims as well.
    let both = runtime.block_on(async {
        Ok::<_, Trouble>([Locks::connect(url).await?, Locks::connect(url).await?])
    })?;
    let engine = both[0].profile().engine;
    let n_drops = settings.count(100_000, 15_000);
    runtime.block_on(visit(settings, 1, &both, n_drops / 10))?;
    let before = settle(runtime, &both)?;
    let seen = runtime.block_on(visit(settings, 2, &both, n_drops))?;
    let give_up_at = Instant::now() + Duration::from_secs(10);
    let mut after = settle(runtime, &both)?;
    while !after.is_within(&before) && Instant::now() < give_up_at {
        after = settle(runtime, &both)?;
    }
    println!(
        "  {engine}: {} futures dropped, {} came to their end, {} turns, never two at once, fences \
         grow; then all keys free; {before} before, {after} after",
        seen.n_dropped.load(Ordering::SeqCst),
        seen.n_ended.load(Ordering::SeqCst),
        seen.n_turns.load(Ordering::SeqCst),
    );
    ensure!(after.is_within(&before), "{engine}: {before} before, {after} after {n_drops} drops");
    Ok(())
}

/// What this process uses while nobody holds or waits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Usage {
    n_threads: usize,
    n_descriptors: usize,
}

impl Usage {
    fn now() -> Outcome<Self> {
        let (n_threads, n_descriptors) = (lab::usage::n_threads()?, lab::usage::n_descriptors()?);
        Ok(Self { n_threads, n_descriptors })
    }

    fn is_within(&self, other: &Self) -> bool {
        self.n_threads <= other.n_threads && self.n_descriptors <= other.n_descriptors
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads and {} descriptors", self.n_threads, self.n_descriptors)
    }
}

/// Waits until no claim is left, takes every key at the first try, and looks.
fn settle(runtime: &Runtime, both: &[Locks]) -> Outcome<Usage> {
    runtime.block_on(async {
        let give_up_at = Instant::now() + HANG;
        loop {
            let listed = both[0].list().await?;
            if listed.iter().all(|listed| !listed.held && listed.n_waiting == 0) {
                break;
            }
            ensure!(Instant::now() < give_up_at, "claims are left: {listed:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for locks in both {
            for number in 0..N_KEYS {
                let Some(guard) = locks.lock(&key(number)).try_acquire().await? else {
                    return Err(Trouble::Violated(format!("{} is not free", key(number))));
                };
                guard.release().await?;
            }
        }
        Ok(())
    })?;
    // A thread that ends is counted for a moment longer.
    let mut usage = Usage::now()?;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let before = std::mem::replace(&mut usage, Usage::now()?);
        if usage == before {
            return Ok(usage);
        }
    }
}

fn key(number: usize) -> String {
    format!("drops-{number}")
}

/// What all visits see together.
#[derive(Debug, Default)]
struct Seen {
    n_dropped: AtomicU64,
    n_ended: AtomicU64,
    n_turns: AtomicU64,
    n_inside: [AtomicUsize; N_KEYS],
    last_fence: [AtomicU64; N_KEYS],
    n_overlaps: AtomicUsize,
    n_fences_back: AtomicUsize,
    n_errors: AtomicUsize,
}

async fn visit(
    settings: &Settings,
    part: u64,
    both: &[Locks; 2],
    n_drops: u64,
) -> Outcome<Arc<Seen>> {
    let seen = Arc::new(Seen::default());
    let tasks: Vec<_> = (0..N_TASKS)
        .map(|task| {
            let mut random = settings.random(part * N_TASKS + task);
            let (locks, seen) = (both[(task % 2) as usize].clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                while seen.n_dropped.load(Ordering::Relaxed) < n_drops {
                    let (n_polls, limit) =
                        (random.u32(1..7), Duration::from_micros(random.u64(..3_000)));
                    let by_time = random.u8(..4) == 0;
                    let visit = one_visit(&locks, &seen, random.fork());
                    let ended = if by_time {
                        tokio::time::timeout(limit, visit).await.is_ok()
                    } else {
                        poll_some(visit, n_polls).await
                    };
                    let counter = if ended { &seen.n_ended } else { &seen.n_dropped };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        let ended = tokio::time::timeout(HANG * 5, task).await;
        ensure!(ended.is_ok(), "a task hangs after {:?} drops", seen.n_dropped);
        ended??;
    }
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    ensure!(count(&seen.n_overlaps) == 0, "two inside, {} times", count(&seen.n_overlaps));
    ensure!(
        count(&seen.n_fences_back) == 0,
        "fences went back {} times",
        count(&seen.n_fences_back)
    );
    ensure!(count(&seen.n_errors) == 0, "{} requests failed", count(&seen.n_errors));
    Ok(seen)
}

/// Polls so many times, then drops it wherever it is; answers whether it had come to its end.
async fn poll_some<F: Future>(future: F, n_polls: u32) -> bool {
    let mut future = pin!(future);
    let mut n_left = n_polls;
    std::future::poll_fn(|context| {
        if n_left == 0 {
            return Poll::Ready(false);
        }
        if future.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        n_left -= 1;
        // Again at once: a caller who gives up wherever it happens to be.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

async fn one_visit(locks: &Locks, seen: &Seen, mut random: fastrand::Rng) {
    let number = random.usize(..N_KEYS);
    let lock = locks.lock(&key(number));
    let asked = match random.u8(..4) {
        0 => lock.try_acquire().await,
        1 => match lock.acquire_within(Duration::from_micros(random.u64(..500))).await {
            Err(error) if error.kind() == lockkeeper::ErrorKind::TimedOut => Ok(None),
            other => other.map(Some),
        },
        _ => lock.acquire().await.map(Some),
    };
    let guard = match asked {
        Ok(Some(guard)) => guard,
        Ok(None) => return,
        Err(error) => {
            eprintln!("  {error}");
            seen.n_errors.fetch_add(1, Ordering::SeqCst);
            return;
        }
    };
    // Declared after the guard, so that it goes first wherever this future is dropped.
    let inside = Inside::enter(seen, number, guard.fence());
    for _ in 0..random.u8(..3) {
        tokio::task::yield_now().await;
    }
    drop(inside);
    if random.bool()
        && let Err(error) = guard.release().await
    {
        eprintln!("  {error}");
        seen.n_errors.fetch_add(1, Ordering::SeqCst);
    }
}

/// Somebody inside a key, counted until it is dropped.
struct Inside<'a>(&'a AtomicUsize);

impl<'a> Inside<'a> {
    fn enter(seen: &'a Seen, number: usize, fence: u64) -> Self {
        let n_inside = &seen.n_inside[number];
        if n_inside.fetch_add(1, Ordering::SeqCst) != 0 {
            seen.n_overlaps.fetch_add(1, Ordering::SeqCst);
        }
        if seen.last_fence[number].swap(fence, Ordering::SeqCst) >= fence {
            seen.n_fences_back.fetch_add(1, Ordering::SeqCst);
        }
        seen.n_turns.fetch_add(1, Ordering::Relaxed);
        Self(n_inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
