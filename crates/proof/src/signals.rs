//! Signals to the command at random moments: no work of it runs on without the lock.

use std::{fs, io, process::Command, thread, time::Duration};

use lab::{Folder, Process};
use nix::sys::signal::Signal;

use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

/// So many want the lock at once.
const N_CONTENDERS: usize = 4;
/// A signal comes within this time of the start.
const LONGEST_LIFE: Duration = Duration::from_millis(150);

/// Notes who of earlier runs still works, then works in the background, in a session of its own and
/// in the foreground. A process is known by its fence: numbers come again.
const JOB: &str = r#"
while read -r pid fence; do
    if grep -qz "^LOCKKEEPER_FENCE=$fence\$" "/proc/$pid/environ" 2> /dev/null; then
        echo "$pid of $fence beside $LOCKKEEPER_FENCE" >> overlaps
    fi
done < workers
: > workers
echo >> runs
sh work.sh &
setsid sh -c '(sh work.sh &)'
sh work.sh
"#;
const WORK: &str = r#"echo "$$ $LOCKKEEPER_FENCE" >> workers; exec sleep 600"#;

/// How every process of this proof is found.
const MARK: &str = "LOCKKEEPER_PROOF";

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let folder = Folder::new()?;
    for (name, text) in
        [("job.sh", JOB), ("work.sh", WORK), ("workers", ""), ("runs", ""), ("overlaps", "")]
    {
        fs::write(folder.join(name), text)?;
    }
    let n_signals = settings.count(400, 80);
    thread::scope(|scope| {
        let contenders: Vec<_> = (0..N_CONTENDERS)
            .map(|number| {
                let (folder, random) = (&folder, settings.random(number as u64));
                scope.spawn(move || contend(folder, n_signals / N_CONTENDERS, random))
            })
            .collect();
        contenders.into_iter().try_for_each(|contender| {
            contender.join().unwrap_or_else(|_| Err(Trouble::Failed("a contender panicked".into())))
        })
    })?;
    let n_runs = fs::read_to_string(folder.join("runs"))?.lines().count();
    let overlaps = fs::read_to_string(folder.join("overlaps"))?;
    let left = marked(&mark_of(&folder))?;
    println!("  {n_signals} signals, {n_runs} of them to a run whose job had begun");
    println!("  {} workers beside another run, {} left", overlaps.lines().count(), left.len());
    ensure!(overlaps.is_empty(), "work ran on without the lock: {overlaps}");
    ensure!(left.is_empty(), "processes {left:?} were left behind");
    ensure!(n_runs > 0, "no job ever began");
    Ok(())
}

/// Runs the job again and again, and ends it by a signal each time.
fn contend(folder: &Folder, n_signals: usize, mut random: fastrand::Rng) -> Outcome {
    let program = lab::program_beside("lockkeeper")?;
    for _ in 0..n_signals {
        let mut command = Command::new(&program);
        command.args(["run", "signals", "--", "sh", "job.sh"]);
        command.env("LOCKKEEPER_URL", folder.url("locks")).env(MARK, mark_of(folder));
        let mut run = Process::start({
            command.current_dir(folder.path());
            command
        })?;
        thread::sleep(LONGEST_LIFE.mul_f64(random.f64()));
        // A shell leaves an interrupt to what it runs in the foreground, and may go on.
        let signals: &[Signal] = match random.u8(..3) {
            0 => &[Signal::SIGTERM],
            1 => &[Signal::SIGHUP],
            _ => &[Signal::SIGINT, Signal::SIGTERM],
        };
        for signal in signals {
            run.signal(*signal)?;
        }
        run.wait(HANG).map_err(Trouble::violated("a run should end after a signal"))?;
    }
    Ok(())
}

fn mark_of(folder: &Folder) -> String {
    folder.path().display().to_string()
}

/// The processes whose environment has the mark.
fn marked(mark: &str) -> io::Result<Vec<String>> {
    let entry = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for process in fs::read_dir("/proc")? {
        let process = process?;
        // Those that are gone by now, or belong to others, are not ours.
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes()) {
            found.push(process.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found)
}
