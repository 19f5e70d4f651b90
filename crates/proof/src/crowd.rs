//! A crowd of processes on one key of an engine without fences: overlaps are counted by the clock that all
//! processes of the machine share, and a count in a file loses updates if two hold the lock at once.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use lab::{Folder, Process, memcached::Memcached};
use lockkeeper::Locks;
use nix::sys::{prctl, signal::Signal};

use crate::{
    crew::HANG,
    log::Count,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
    worker,
};

const N_PROCESSES: usize = 64;
const KEY: &str = "the-key";

/// From when to when one process held the lock, in nanoseconds.
type Hold = (u64, u64);

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let length = Duration::from_secs(settings.count(60, 5));
    let (server, folder) = (Memcached::start()?, Folder::new()?);
    let mut crowd = Vec::new();
    for number in 0..N_PROCESSES {
        let mut command = Command::new(env::current_exe()?);
        command.arg("one-of-a-crowd").arg(server.url()).arg(folder.path()).arg(number.to_string());
        crowd.push(Process::start(command)?);
    }
    for process in &mut crowd {
        process.hear(HANG)?;
    }
    for process in &mut crowd {
        process.say(&length.as_secs().to_string())?;
    }
    let (mut holds, mut turns) = (Vec::new(), Vec::new());
    for (number, process) in crowd.iter_mut().enumerate() {
        let should = || format!("process {number} should take its turns and end");
        process.hear(length + HANG).map_err(Trouble::violated(should()))?;
        let status = process.wait(HANG).map_err(Trouble::violated(should()))?;
        ensure!(status.success(), "process {number} ended with {status}");
        let own = read(&log_of(folder.path(), number))?;
        turns.push(own.len());
        holds.extend(own);
    }
    let (n_turns, n_overlaps) = (holds.len(), count_overlaps(&mut holds));
    let counted = Count::open(&folder.join("count"))?.read()?;
    let (fewest, most) = (turns.iter().min().unwrap_or(&0), turns.iter().max().unwrap_or(&0));
    let evictions = server.command("stats\r\n")?;
    let is_undisturbed = evictions.contains("STAT evictions 0\r\n");
    println!(
        "  {N_PROCESSES} processes on one key for {length:?}: {n_turns} turns ({:.0} a second), {n_overlaps} \
         overlaps, the luckiest had {most} turns and the unluckiest {fewest}",
        n_turns as f64 / length.as_secs_f64()
    );
    ensure!(is_undisturbed, "the server evicted items, so nothing was promised");
    ensure!(n_overlaps == 0, "{n_overlaps} times two held the lock at once");
    ensure!(counted == n_turns as u64, "{n_turns} turns, but the count is {counted}");
    Ok(())
}

/// How often a hold begins before an earlier one has ended.
fn count_overlaps(holds: &mut [Hold]) -> usize {
    holds.sort_unstable();
    let (mut last_end, mut n_overlaps) = (0, 0);
    for (begin, end) in holds {
        n_overlaps += usize::from(*begin < last_end);
        last_end = last_end.max(*end);
    }
    n_overlaps
}

fn log_of(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number}.log"))
}

fn read(log: &Path) -> Outcome<Vec<Hold>> {
    let text = fs::read_to_string(log)?;
    let hold = |line: &str| -> Option<Hold> {
        let (begin, end) = line.split_once(' ')?;
        Some((begin.parse().ok()?, end.parse().ok()?))
    };
    let holds: Option<Vec<_>> = text.lines().map(hold).collect();
    holds.ok_or_else(|| Trouble::Failed(format!("{} cannot be read", log.display())))
}

/// One of them: says that it is ready, is told for how many seconds, and says that it is done.
pub(crate) fn work(args: &[String]) -> Outcome {
    // Whatever happens to the proof, nobody is left behind.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let [url, folder, number] = args else {
        return Err(Trouble::Failed(format!("not the command line of one of a crowd: {args:?}")));
    };
    let (folder, number): (&Path, usize) = (folder.as_ref(), number.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = Locks::connect(url).await?;
        let counter = Count::open(&folder.join("count"))?;
        let (mut random, mut log) = (fastrand::Rng::with_seed(number as u64), String::new());
        worker::say("ready")?;
        let mut length = String::new();
        ensure!(io::stdin().read_line(&mut length)? > 0, "nobody said for how long");
        let ends_at = Instant::now() + Duration::from_secs(length.trim().parse()?);
        while Instant::now() < ends_at {
            let taken = locks.lock(KEY).acquire().await;
            let guard = taken.map_err(|error| Trouble::Violated(error.to_string()))?;
            let begin = lab::monotonic_ns();
            counter.write(counter.read()? + 1)?;
            let end = lab::monotonic_ns();
            log += &format!("{begin} {end}\n");
            if random.bool() {
                guard.release().await.map_err(|error| Trouble::Violated(error.to_string()))?;
            }
        }
        locks.settle().await;
        fs::write(log_of(folder, number), log)?;
        worker::say("done")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_seen() {
        assert_eq!(count_overlaps(&mut [(5, 9), (1, 3), (3, 4)]), 0);
        assert_eq!(count_overlaps(&mut [(1, 10), (2, 3), (4, 5), (10, 11)]), 2);
    }
}
