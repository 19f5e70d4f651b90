//! First come, first served, also when some in the middle die.

use crate::{
    crew::Crew,
    history::{self, Kills},
    settings::Settings,
    trouble::{Outcome, Trouble},
};

const KEY: &str = "fifo";

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let mut crew = Crew::new()?;
    let (n_rounds, n_workers) = (settings.count(20, 3), settings.count(50, 20));
    let mut random = settings.random(0);
    for _ in 0..n_rounds {
        serve_in_order(&mut crew, n_workers, 0, &mut random)?;
    }
    println!("  {n_rounds} lines of {n_workers} processes: served in order");
    for _ in 0..n_rounds {
        serve_in_order(&mut crew, n_workers, 3, &mut random)?;
    }
    println!("  {n_rounds} lines of {n_workers}, three killed in the middle: the others in order");
    let entries = crew.history(KEY)?;
    let tally = history::check(&entries, &Kills::new()).map_err(Trouble::Violated)?;
    println!("  {} turns in all, never two at once, fences grow", tally.n_turns);
    Ok(())
}

/// A line of workers behind our own hold; some of them are killed where they stand.
fn serve_in_order(
    crew: &mut Crew,
    n_workers: usize,
    n_killed: usize,
    random: &mut fastrand::Rng,
) -> Outcome {
    let n_entries_before = crew.history(KEY)?.len();
    let guard = crew.locks.lock(KEY).acquire()?;
    let mut workers = crew.line_up(KEY, n_workers)?;
    for _ in 0..n_killed {
        let chosen = random.usize(1..workers.len() - 1);
        workers.remove(chosen).process.kill()?;
    }
    for worker in &mut workers {
        worker.let_go();
    }
    guard.release()?;
    for worker in &mut workers {
        worker.until_gone()?;
    }
    let expected: Vec<u32> = workers.iter().map(|worker| worker.number).collect();
    let entries = crew.history(KEY)?;
    history::check_order(&entries[n_entries_before..], &expected).map_err(Trouble::Violated)
}
