//! What happens to the line when a holder is killed or stopped, or somebody in the middle dies.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{
    crew::{self, Crew, Worker},
    history::{self, Kills},
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

const KEY: &str = "next";
/// Within this time of the holder's death, the next in line must have the lock.
const PROMISED: Duration = Duration::from_millis(100);

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let mut crew = Crew::new()?;
    let mut kills = Kills::new();
    kill_holders(&mut crew, settings.count(50, 20), &mut kills)?;
    kill_in_the_middle(&mut crew, &mut settings.random(0))?;
    stop_the_holder(&mut crew)?;
    let entries = crew.history(KEY)?;
    history::check(&entries, &kills).map_err(Trouble::Violated)?;
    Ok(())
}

fn kill_holders(crew: &mut Crew, n_kills: usize, kills: &mut Kills) -> Outcome {
    let guard = crew.locks.lock(KEY).acquire()?;
    let mut holder = next_worker(crew)?;
    guard.release()?;
    holder.has_it_at_ns()?;
    let mut times = Vec::new();
    for _ in 0..n_kills {
        let mut next = next_worker(crew)?;
        let killed_at_ns = lab::monotonic_ns();
        holder.process.signal(Signal::SIGKILL)?;
        kills.insert(holder.number, killed_at_ns);
        times.push(Duration::from_nanos(next.has_it_at_ns()?.saturating_sub(killed_at_ns)));
        holder = next;
    }
    holder.let_go();
    holder.until_gone()?;
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "  {n_kills} x kill -9 of the holder: the next has it after {median:.1?} (median), \
         {worst:.1?} (worst)"
    );
    ensure!(median <= PROMISED, "the next in line had to wait {median:?}, not {PROMISED:?}");
    Ok(())
}

fn next_worker(crew: &mut Crew) -> Outcome<Worker> {
    let mut workers = crew.line_up(KEY, 1)?;
    workers.pop().ok_or_else(|| Trouble::Failed("nobody was hired".into()))
}

fn kill_in_the_middle(crew: &mut Crew, random: &mut fastrand::Rng) -> Outcome {
    let n_entries_before = crew.history(KEY)?.len();
    let guard = crew.locks.lock(KEY).acquire()?;
    let mut workers = crew.line_up(KEY, 10)?;
    for _ in 0..3 {
        let chosen = random.usize(1..workers.len() - 1);
        workers.remove(chosen).process.kill()?;
    }
    crew.until_waiting(KEY, workers.len())?;
    guard.release()?;
    crew::see_through(&mut workers)?;
    let expected: Vec<u32> = workers.iter().map(|worker| worker.number).collect();
    let entries = crew.history(KEY)?;
    history::check_order(&entries[n_entries_before..], &expected).map_err(Trouble::Violated)?;
    println!("  3 of 10 in line killed in the middle: the other 7 in order, nobody lost");
    Ok(())
}

fn stop_the_holder(crew: &mut Crew) -> Outcome {
    let guard = crew.locks.lock(KEY).acquire()?;
    let mut holder = next_worker(crew)?;
    guard.release()?;
    holder.has_it_at_ns()?;
    let mut next = next_worker(crew)?;
    holder.process.signal(Signal::SIGSTOP)?;
    let stopped_at = Instant::now();
    let mut n_tries = 0;
    while stopped_at.elapsed() < Duration::from_secs(3) {
        ensure!(
            crew.locks.lock(KEY).try_acquire()?.is_none(),
            "a try got a lock whose holder was stopped"
        );
        n_tries += 1;
        thread::sleep(Duration::from_millis(10));
    }
    let n_in_line = crew.locks.who(KEY)?.line.len();
    ensure!(n_in_line == 1, "{n_in_line} in line behind a stopped holder, not 1");
    holder.let_go();
    let continued_at_ns = lab::monotonic_ns();
    holder.process.signal(Signal::SIGCONT)?;
    let has_it_at_ns = next.has_it_at_ns()?;
    ensure!(has_it_at_ns > continued_at_ns, "the next had it before the holder went on");
    let after = Duration::from_nanos(has_it_at_ns - continued_at_ns);
    holder.until_gone()?;
    next.let_go();
    next.until_gone()?;
    println!(
        "  holder stopped for 3 s: {n_tries} tries were told busy, the next waited; it had it \
         {after:.1?} after SIGCONT"
    );
    Ok(())
}
