//! Primaries that are replaced and live on, by plan or because they were stopped for a while: fences never go back,
//! and how long two hold the lock at once is told.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lab::redis::Sentinels;
use lockkeeper::{Guard, Locks};

use super::two_threads;
use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

const TTL: Duration = Duration::from_secs(3);
const N_CONTENDERS: usize = 4;
const KEY: &str = "split";
/// As they are where nobody hurries them: so an old primary is one for 8 seconds and more.
const USUAL_PACE: [&str; 4] = ["info-period", "10000", "publish-period", "2000"];

pub(crate) fn prove(settings: &Settings) -> Outcome {
    for parameters in ["", "?wait-replicas=1"] {
        let all = Sentinels::start()?;
        for sentinel in &all.sentinels {
            let words = [&["SENTINEL", "DEBUG"][..], &USUAL_PACE].concat();
            sentinel.command(&words)?.not_an_error()?;
        }
        let seen = Arc::new(Seen::default());
        let url = format!("{}{parameters}", all.url());
        let contenders = start(&url, &seen)?;
        let watcher = thread::spawn({
            let seen = Arc::clone(&seen);
            move || seen.watch()
        });
        for _ in 0..settings.count(5, 1) {
            all.fail_over()?;
            goes_on(&seen)?;
            stop_for_a_while(&all)?;
            goes_on(&seen)?;
        }
        seen.is_over.store(true, Ordering::SeqCst);
        for contender in contenders {
            contender.join().map_err(|_| Trouble::Failed("a contender panicked".into()))??;
        }
        let overlaps =
            watcher.join().map_err(|_| Trouble::Failed("the watcher panicked".into()))?;
        let kind = if parameters.is_empty() { "" } else { " with wait-replicas=1" };
        println!(
            "  {} grants{kind}, ttl {TTL:?}: {overlaps}",
            seen.n_grants.load(Ordering::SeqCst)
        );
    }
    Ok(())
}

/// Stops the primary until another one has been in office for a while.
fn stop_for_a_while(all: &Sentinels) -> Outcome {
    let old = all.primary_number()?;
    all.servers[old].stop()?;
    let new = all.another_than(old);
    thread::sleep(Duration::from_secs(2));
    all.servers[old].go_on()?;
    new?;
    Ok(all.put_right(old)?)
}

fn goes_on(seen: &Seen) -> Outcome {
    let (n_before, begun_at) = (seen.n_grants.load(Ordering::SeqCst), Instant::now());
    while seen.n_grants.load(Ordering::SeqCst) < n_before + 20 {
        ensure!(begun_at.elapsed() < HANG, "nobody is granted the lock any more");
        if let Some(broken) = locked(&seen.broken).clone() {
            return Err(Trouble::Violated(broken));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What all contenders see.
#[derive(Debug, Default)]
struct Seen {
    is_over: AtomicBool,
    n_grants: AtomicU64,
    /// The largest fence that anybody was told.
    largest: AtomicU64,
    broken: Mutex<Option<String>>,
    held: [Mutex<Option<Guard>>; N_CONTENDERS],
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Each is a thread with connections of its own.
fn start(url: &str, seen: &Arc<Seen>) -> Outcome<Vec<thread::JoinHandle<Outcome>>> {
    let mut contenders = Vec::new();
    for number in 0..N_CONTENDERS {
        let (url, seen, runtime) = (url.to_owned(), Arc::clone(seen), two_threads()?);
        contenders.push(thread::spawn(move || runtime.block_on(contend(number, &url, &seen))));
    }
    Ok(contenders)
}

async fn contend(number: usize, url: &str, seen: &Seen) -> Outcome {
    let mut locks = Locks::connect(url).await?;
    let mut random = fastrand::Rng::with_seed(number as u64);
    while !seen.is_over.load(Ordering::SeqCst) {
        // Half of them are new each time, and go where the sentinels send them: those who stay must follow.
        if number % 2 == 1 {
            let Ok(anew) = Locks::connect(url).await else { continue };
            locks = anew;
        }
        let before = seen.largest.load(Ordering::SeqCst);
        // While there is no primary, or no replica, there is no lock.
        let Ok(guard) = locks.lock(KEY).ttl(TTL).acquire_within(HANG).await else { continue };
        let fence = guard.fence();
        seen.largest.fetch_max(fence, Ordering::SeqCst);
        seen.n_grants.fetch_add(1, Ordering::SeqCst);
        if fence <= before {
            let text = format!("fence {fence} was granted after {before} had been told");
            locked(&seen.broken).get_or_insert(text);
        }
        *locked(&seen.held[number]) = Some(guard);
        // Now and then for longer than it takes to renew.
        let ms = if random.u8(..10) == 0 { 2_000 } else { random.u64(..50) };
        tokio::time::sleep(Duration::from_millis(ms)).await;
        let guard = locked(&seen.held[number]).take();
        if let Some(guard) = guard {
            // Told that it is lost, or not: the next one will see.
            let _ = guard.release().await;
        }
    }
    Ok(())
}

impl Seen {
    /// Looks every millisecond whether more than one holds the lock.
    fn watch(&self) -> Overlaps {
        let (mut overlaps, mut since) = (Overlaps::default(), None);
        while !self.is_over.load(Ordering::SeqCst) {
            let held = self.held.each_ref().map(locked);
            let is_held = |guard: &&Option<Guard>| guard.as_ref().is_some_and(Guard::is_held);
            let n_held = held.iter().map(|guard| &**guard).filter(is_held).count();
            drop(held);
            if n_held > 1 {
                since.get_or_insert_with(Instant::now);
            } else if let Some(since) = since.take() {
                overlaps.add(since.elapsed());
            }
            thread::sleep(Duration::from_millis(1));
        }
        overlaps
    }
}

#[derive(Debug, Default)]
struct Overlaps {
    n: usize,
    longest: Duration,
    all: Duration,
}

impl Overlaps {
    fn add(&mut self, lasted: Duration) {
        self.n += 1;
        self.longest = self.longest.max(lasted);
        self.all += lasted;
    }
}

impl std::fmt::Display for Overlaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (n, longest, all) = (self.n, self.longest, self.all);
        write!(f, "{n} times two held it at once, the longest {longest:.1?}, {all:.1?} in all")
    }
}
