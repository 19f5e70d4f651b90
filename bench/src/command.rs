//! The command against flock(1): start, lock, run `true`, unlock, end.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use lab::Folder;

use crate::{
    Result,
    table::{Cycles, Demand, Order, Variant, Verdict, measure as measure_table},
};

const N_RUNS: u32 = 50;
const FLOCK: &str = "flock f true";
const RUN: &str = "lockkeeper run k -- true";

pub(crate) fn measure(order: &Order) -> Result<Verdict> {
    let program = program()?;
    let folder = Folder::new()?;
    let file_system = lab::file_system(folder.path())?;
    let (file, url) = (folder.join("flock"), folder.url("locks"));
    let (flock, alone) = (on_path("flock")?, on_path("true")?);
    let variants = vec![
        Variant::new(FLOCK, |n_runs| {
            repeat(n_runs, || Command::new(&flock).arg(&file).arg("true").spawn())
        }),
        Variant::new(RUN, |n_runs| {
            repeat(n_runs, || {
                let mut command = Command::new(&program);
                command.env("LOCKKEEPER_URL", &url).args(["run", "k", "--", "true"]).spawn()
            })
        }),
        Variant::new("true alone", |n_runs| repeat(n_runs, || Command::new(&alone).spawn())),
    ];
    // At most 1.35 times as slow.
    let demands = [Demand { variant: RUN, against: FLOCK, at_least: 1.0 / 1.35 }];
    let title = format!("command: a cycle is one run, {N_RUNS} in a row ({file_system})");
    measure_table(&title, order, &Cycles::Fixed(N_RUNS), variants, &demands)
}

fn repeat(n_runs: u32, start: impl Fn() -> io::Result<Child>) -> Result<Duration> {
    let begun_at = Instant::now();
    for _ in 0..n_runs {
        let status = start()?.wait()?;
        if !status.success() {
            return Err(format!("the command ended with {status}").into());
        }
    }
    Ok(begun_at.elapsed())
}

/// Where a command is, so that looking for it is no part of the run.
fn on_path(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is not installed").into())
}

/// The command as the other workspace builds it: in a shared target folder, or in its own.
fn program() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist/lockkeeper");
    let found = lab::program_beside("lockkeeper").ok().or_else(|| own.is_file().then_some(own));
    found.ok_or_else(|| "build the command first: cargo build --profile dist -p lockkeeper-cli".into())
}
