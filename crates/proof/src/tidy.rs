//! Cleaning up all the time harms nobody who uses the same keys.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    crew::{Crew, HANG},
    history::{self, Kills},
    log::Count,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
    worker::{self, Job},
};

const N_KEYS: u32 = 8;

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let n_cycles = settings.count(100_000, 10_000);
    let mut crew = Crew::new()?;
    let job = Job::Count { n_keys: N_KEYS, longest_pause: Duration::ZERO };
    let mut workers = [crew.hire(&job)?, crew.hire(&job)?, crew.hire(&job)?];
    let mut tidier = crew.hire(&Job::Tidy)?;
    let mut n_before = 0;
    let mut progress_at = Instant::now();
    loop {
        thread::sleep(Duration::from_millis(100));
        let n_counted = counted(&crew)?;
        if n_counted >= n_cycles {
            break;
        }
        if n_counted > n_before {
            (n_before, progress_at) = (n_counted, Instant::now());
        }
        ensure!(progress_at.elapsed() < HANG, "nothing moves after {n_counted} cycles");
        for worker in workers.iter_mut().chain([&mut tidier]) {
            ensure!(worker.process.ended()?.is_none(), "worker {} ended by itself", worker.number);
        }
    }
    crew.stop()?;
    for worker in &mut workers {
        worker.until_gone()?;
    }
    let removed = tidier.process.hear(HANG)?;
    tidier.until_gone()?;
    let mut n_turns = 0;
    for key in (0..N_KEYS).map(worker::key) {
        let tally = history::check(&crew.history(&key)?, &Kills::new());
        n_turns +=
            tally.map_err(|text| Trouble::Violated(format!("{key}: {text}")))?.n_turns as u64;
    }
    ensure!(n_turns == counted(&crew)?, "{n_turns} turns, but {} counted", counted(&crew)?);
    println!(
        "  3 processes on {N_KEYS} keys, a fourth cleaning up: {n_turns} turns, never two at once, \
         fences of each key grow; files {removed} rounds"
    );
    Ok(())
}

fn counted(crew: &Crew) -> Outcome<u64> {
    let mut n_counted = 0;
    for key in (0..N_KEYS).map(worker::key) {
        n_counted += Count::open(&crew.place.count(&key))?.read()?;
    }
    Ok(n_counted)
}
