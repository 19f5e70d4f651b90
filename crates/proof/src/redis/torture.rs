//! Many who want the same keys for a long time: never two at once, no count lost, fences grow.

use std::{env, process::Command, time::Duration};

use lab::{Process, redis::Server};
use lockkeeper::Locks;

use super::{
    contender::{self, take_turns},
    two_threads,
    witness::{Visitor, Witness},
};
use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

const N_TASKS: u32 = 64;
const N_KEYS: u32 = 64;
const N_PROCESSES: u32 = 64;

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let length = Duration::from_secs(settings.count(60, 5));
    let turns = many_tasks(settings, length)?;
    report(&format!("{N_TASKS} tasks x {N_KEYS} keys"), &turns, length);
    let turns = many_processes(length)?;
    report(&format!("{N_PROCESSES} processes on one key"), &turns, length);
    Ok(())
}

fn report(who: &str, turns: &[u64], length: Duration) {
    let n_turns: u64 = turns.iter().sum();
    let (fewest, most) = (turns.iter().min().unwrap_or(&0), turns.iter().max().unwrap_or(&0));
    println!(
        "  {who} for {length:?}: {n_turns} turns ({:.0} a second, {fewest} to {most} each), never two \
         at once, no count lost, fences of each key grow",
        n_turns as f64 / length.as_secs_f64()
    );
}

fn many_tasks(settings: &Settings, length: Duration) -> Outcome<Vec<u64>> {
    let (server, witness) = (Server::start()?, Witness::start()?);
    let turns = two_threads()?.block_on(async {
        // Two, because the tasks of one are served by one claim: so claims wait for claims as well.
        let both = [Locks::connect(&server.url()).await?, Locks::connect(&server.url()).await?];
        let mut tasks = Vec::new();
        for task in 0..N_TASKS {
            let locks = both[task as usize % 2].clone();
            let mut witness = Visitor::connect(witness.port()).await?;
            let random = settings.random(task.into());
            tasks.push(tokio::spawn(async move {
                take_turns(&locks, &mut witness, N_KEYS, random, length).await
            }));
        }
        let mut turns = Vec::new();
        for (number, task) in tasks.into_iter().enumerate() {
            let ended = tokio::time::timeout(length + HANG, task).await;
            let Ok(ended) = ended else {
                return Err(Trouble::Violated(format!("task {number} hangs")));
            };
            turns.push(ended??);
        }
        nobody_is_left(&both[0]).await?;
        Ok(turns)
    })?;
    check_count(&witness, N_KEYS, &turns)?;
    Ok(turns)
}

fn many_processes(length: Duration) -> Outcome<Vec<u64>> {
    let (server, witness) = (Server::start()?, Witness::start()?);
    let mut processes = Vec::new();
    for number in 0..N_PROCESSES {
        let mut command = Command::new(env::current_exe()?);
        command.args(contender::args(&server.url(), witness.port(), number));
        processes.push(Process::start(command)?);
    }
    for process in &mut processes {
        process.hear(HANG)?;
    }
    for process in &mut processes {
        process.say(&length.as_secs().to_string())?;
    }
    let mut turns = Vec::new();
    for (number, process) in processes.iter_mut().enumerate() {
        // What went wrong there was said there.
        let should = || format!("process {number} should take its turns and end");
        let n_turns = process.hear(length + HANG).map_err(Trouble::violated(should()))?;
        turns.push(n_turns.parse()?);
        let status = process.wait(HANG).map_err(Trouble::violated(should()))?;
        ensure!(status.success(), "process {number} ended with {status}");
    }
    two_threads()?
        .block_on(async { nobody_is_left(&Locks::connect(&server.url()).await?).await })?;
    check_count(&witness, 1, &turns)?;
    Ok(turns)
}

fn check_count(witness: &Witness, n_keys: u32, turns: &[u64]) -> Outcome {
    let (n_turns, counted): (u64, _) = (turns.iter().sum(), witness.counted(n_keys)?);
    ensure!(counted == n_turns, "{n_turns} turns, but the count is {counted}");
    Ok(())
}

/// What was dropped just now may still be on its way back.
async fn nobody_is_left(locks: &Locks) -> Outcome {
    let mut n_looks = 0;
    loop {
        let mut listed = locks.list().await?;
        listed.retain(|listed| listed.held || listed.n_waiting > 0);
        if listed.is_empty() {
            return Ok(());
        }
        n_looks += 1;
        ensure!(n_looks < 100, "claims are left: {listed:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
