//! The other processes: this program again, told what to do on its command line.

use std::{
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use lockkeeper::blocking::Locks;
use nix::sys::{prctl, signal::Signal};

use crate::{
    history::{Entry, Mark},
    log::{Count, Log},
    trouble::{Outcome, Trouble},
};

/// What a worker is there for.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// Takes the key once, says so, and keeps it until told otherwise.
    Stand { key: String },
    /// Counts under keys chosen at random, again and again, until the stop file appears.
    Count { n_keys: u32, longest_pause: Duration },
    /// Cleans up all the time, until the stop file appears.
    Tidy,
}

/// Where the workers of one proof meet.
#[derive(Clone, Debug)]
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.0.join("locks").display())
    }

    pub(crate) fn log(&self, key: &str) -> PathBuf {
        self.0.join(format!("{key}.log"))
    }

    pub(crate) fn count(&self, key: &str) -> PathBuf {
        self.0.join(format!("{key}.count"))
    }

    pub(crate) fn stop(&self) -> PathBuf {
        self.0.join("stop")
    }
}

/// The name of the key with this number.
pub(crate) fn key(number: u32) -> String {
    format!("key-{number}")
}

impl Job {
    /// The command line of a worker with this job.
    pub(crate) fn args(&self, place: &Place, worker: u32) -> Vec<String> {
        let mut args = vec!["worker".into(), place.0.display().to_string(), worker.to_string()];
        match self {
            Self::Stand { key } => args.extend(["stand".into(), key.clone()]),
            Self::Count { n_keys, longest_pause } => {
                let pause_us = longest_pause.as_micros().to_string();
                args.extend(["count".into(), n_keys.to_string(), pause_us]);
            }
            Self::Tidy => args.push("tidy".into()),
        }
        args
    }

    fn parse(args: &[&str]) -> Option<Self> {
        match args {
            ["stand", key] => Some(Self::Stand { key: (*key).into() }),
            ["count", n_keys, pause_us] => {
                let longest_pause = Duration::from_micros(pause_us.parse().ok()?);
                Some(Self::Count { n_keys: n_keys.parse().ok()?, longest_pause })
            }
            ["tidy"] => Some(Self::Tidy),
            _ => None,
        }
    }
}

/// Does what the command line says, which [`Job::args`] made.
pub(crate) fn work(args: &[String]) -> Outcome {
    // Whatever happens to the proof, no worker is left behind.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let parsed = match args[..] {
        [place, worker, ref job @ ..] => {
            Job::parse(job).zip(worker.parse().ok()).map(|(job, worker)| (place, worker, job))
        }
        _ => None,
    };
    let Some((place, worker, job)) = parsed else {
        return Err(Trouble::Failed(format!("not the command line of a worker: {args:?}")));
    };
    let place = Place(place.into());
    let locks = Locks::connect(&place.url())?;
    match job {
        Job::Stand { key } => stand(&locks, &place, worker, &key),
        Job::Count { n_keys, longest_pause } => {
            count(&locks, &place, worker, n_keys, longest_pause)
        }
        Job::Tidy => tidy(&locks, &place.stop()),
    }
}

fn stand(locks: &Locks, place: &Place, worker: u32, key: &str) -> Outcome {
    let mut log = Log::open(&place.log(key))?;
    let counter = Count::open(&place.count(key))?;
    let guard = locks.lock(key).acquire()?;
    let at_ns = lab::monotonic_ns();
    say(&format!("have {at_ns}"))?;
    let (fence, count) = (guard.fence(), counter.read()?);
    log.append(&Entry { mark: Mark::Enter, fence, worker, at_ns, count })?;
    let mut order = String::new();
    io::stdin().lock().read_line(&mut order)?;
    counter.write(count + 1)?;
    let at_ns = lab::monotonic_ns();
    log.append(&Entry { mark: Mark::Leave, fence, worker, at_ns, count: count + 1 })?;
    guard.release()?;
    Ok(())
}

fn count(
    locks: &Locks,
    place: &Place,
    worker: u32,
    n_keys: u32,
    longest_pause: Duration,
) -> Outcome {
    let mut keys = Vec::new();
    for name in (0..n_keys).map(key) {
        let files = (Log::open(&place.log(&name))?, Count::open(&place.count(&name))?);
        keys.push((locks.lock(&name), files));
    }
    let stop = place.stop();
    let mut random = fastrand::Rng::with_seed(worker.into());
    while !stop.exists() {
        let chosen = random.usize(..keys.len());
        let (lock, (log, counter)) = &mut keys[chosen];
        let guard = lock.acquire()?;
        let (fence, at_ns, count) = (guard.fence(), lab::monotonic_ns(), counter.read()?);
        log.append(&Entry { mark: Mark::Enter, fence, worker, at_ns, count })?;
        if !longest_pause.is_zero() {
            thread::sleep(longest_pause.mul_f32(random.f32()));
        }
        counter.write(count + 1)?;
        let at_ns = lab::monotonic_ns();
        log.append(&Entry { mark: Mark::Leave, fence, worker, at_ns, count: count + 1 })?;
        if random.bool() {
            guard.release()?;
        }
    }
    Ok(())
}

fn tidy(locks: &Locks, stop: &Path) -> Outcome {
    let (mut n_rounds, mut n_removed) = (0_u64, 0);
    while !stop.exists() {
        n_removed += locks.tidy(Duration::ZERO)?;
        n_rounds += 1;
    }
    say(&format!("removed {n_removed} in {n_rounds}"))
}

pub(crate) fn say(line: &str) -> Outcome {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
