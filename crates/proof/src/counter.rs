//! The command: many processes add one to a number in a file, and none is lost.

use std::{fs, io, process::Command};

use lab::{Folder, Process};

use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

/// Adds one, in a way that loses counts as soon as two do it at once.
const ADD: &str = "read n < count; echo $((n + 1)) > count";
/// Runs the command so many times.
const REPEAT: &str =
    r#"i=0; while [ $i -lt "$1" ]; do "$0" run counter -- sh -c "$2" || exit; i=$((i + 1)); done"#;

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let program = lab::program_beside("lockkeeper")?;
    let (n_processes, n_turns) = (100, settings.count(100, 10));
    let folder = Folder::new()?;
    fs::write(folder.join("count"), "0\n")?;
    let mut processes = Vec::new();
    for _ in 0..n_processes {
        let mut command = Command::new("sh");
        command.arg("-c").arg(REPEAT).arg(&program).arg(n_turns.to_string()).arg(ADD);
        command.env("LOCKKEEPER_URL", folder.url("locks")).current_dir(folder.path());
        processes.push(Process::start(command)?);
    }
    for (number, process) in processes.iter_mut().enumerate() {
        let status = process.wait(HANG * 10);
        let status =
            status.map_err(Trouble::violated(format_args!("process {number} should end")))?;
        ensure!(status.success(), "process {number} ended with {status}");
    }
    let count = fs::read_to_string(folder.join("count"))?;
    let count: usize = count.trim().parse().map_err(io::Error::other)?;
    let expected = n_processes * n_turns;
    println!("  {n_processes} processes x {n_turns} runs of the command: {count}");
    ensure!(count == expected, "the count is {count}, not {expected}");
    Ok(())
}
