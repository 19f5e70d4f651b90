//! Processes that count under one lock while holders and waiters are killed all the time.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    crew::{self, Crew, HANG, Worker},
    history::{self, Kills, Mark},
    log::{self, Count},
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
    worker::{self, Job},
};

/// Fifty idle processes may use this much together in five seconds; polling would use far more.
const MOST_TICKS: u64 = 5;

pub(crate) fn prove(settings: &Settings) -> Outcome {
    count_and_kill(settings)?;
    wait_at_no_cost(settings)
}

fn count_and_kill(settings: &Settings) -> Outcome {
    let (n_workers, n_kills) = (60, settings.count(600, 150));
    let job = Job::Count { n_keys: 1, longest_pause: Duration::from_micros(400) };
    let mut crew = Crew::new()?;
    let mut random = settings.random(0);
    let mut kills = Kills::new();
    let mut workers = Vec::new();
    for _ in 0..n_workers {
        workers.push(crew.hire(&job)?);
    }
    let log = crew.place.log(&worker::key(0));
    until_written(&log)?;
    for _ in 0..n_kills {
        thread::sleep(Duration::from_micros(random.u64(..8_000)));
        let chosen = choose(&workers, &log, &mut random)?;
        let mut victim = workers.swap_remove(chosen);
        ensure!(victim.process.ended()?.is_none(), "worker {} ended by itself", victim.number);
        kills.insert(victim.number, lab::monotonic_ns());
        victim.process.kill()?;
        workers.push(crew.hire(&job)?);
    }
    // All who are left get their turn before the end.
    thread::sleep(Duration::from_millis(200));
    crew.stop()?;
    for worker in &mut workers {
        worker.until_gone()?;
    }
    let entries = crew.history(&worker::key(0))?;
    let tally = history::check(&entries, &kills).map_err(Trouble::Violated)?;
    let count = Count::open(&crew.place.count(&worker::key(0)))?.read()?;
    ensure!(
        tally.count.contains(&count),
        "the count is {count}, but the history says {:?}",
        tally.count
    );
    println!(
        "  {n_workers} processes, {n_kills} x kill -9 ({} inside a hold): {} whole turns, never \
         two at once, fences grow, count {count} as the history says ({})",
        tally.n_cut_short,
        tally.n_turns,
        crew.file_system()?
    );
    Ok(())
}

fn until_written(log: &std::path::Path) -> Outcome {
    let give_up_at = Instant::now() + HANG;
    while fs::metadata(log).map_or(0, |meta| meta.len()) == 0 {
        ensure!(Instant::now() < give_up_at, "nobody has had a turn");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Every other time whoever is inside by the log, otherwise anybody: mostly one who waits.
fn choose(workers: &[Worker], log: &std::path::Path, random: &mut fastrand::Rng) -> Outcome<usize> {
    let anybody = random.usize(..workers.len());
    if random.bool() {
        return Ok(anybody);
    }
    let give_up_at = Instant::now() + Duration::from_millis(50);
    while Instant::now() < give_up_at {
        let inside = log::last(log)?.filter(|entry| entry.mark == Mark::Enter);
        let known = |number| workers.iter().position(|worker: &Worker| worker.number == number);
        if let Some(chosen) = inside.and_then(|entry| known(entry.worker)) {
            return Ok(chosen);
        }
    }
    Ok(anybody)
}

fn wait_at_no_cost(settings: &Settings) -> Outcome {
    const KEY: &str = "idle";
    let n_workers = 50;
    let pause = settings.count(Duration::from_secs(5), Duration::from_secs(3));
    let mut crew = Crew::new()?;
    let guard = crew.locks.lock(KEY).acquire()?;
    let mut workers = crew.line_up(KEY, n_workers)?;
    // What they do on coming is not waiting.
    thread::sleep(Duration::from_millis(300));
    let (ticks_before, sleeps_before) = used(&workers)?;
    thread::sleep(pause);
    let (ticks_after, sleeps_after) = used(&workers)?;
    let (n_ticks, n_wakes) = (ticks_after - ticks_before, sleeps_after - sleeps_before);
    println!(
        "  {n_workers} processes in line for {pause:?}: {n_ticks} ticks of processor time and \
         {n_wakes} wake-ups, all together"
    );
    ensure!(n_ticks <= MOST_TICKS, "those who wait used {n_ticks} ticks in {pause:?}");
    guard.release()?;
    crew::see_through(&mut workers)
}

fn used(workers: &[Worker]) -> Outcome<(u64, u64)> {
    let (mut n_ticks, mut n_sleeps) = (0, 0);
    for worker in workers {
        n_ticks += lab::usage::cpu_ticks(worker.process.id())?;
        n_sleeps += lab::usage::n_sleeps(worker.process.id())?;
    }
    Ok((n_ticks, n_sleeps))
}
