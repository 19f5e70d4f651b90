//! Running other programs, one step after the other.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// What went wrong, for the person at the terminal.
pub(crate) type Done = Result<(), String>;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs cargo in the root, and says what it runs.
pub(crate) fn cargo(arguments: &[&str]) -> Done {
    cargo_with(arguments, &[])
}

/// The same with environment variables.
pub(crate) fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Done {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(arguments).envs(environment.iter().copied());
    eprintln!("$ cargo {}", arguments.join(" "));
    run(&mut command)
}

pub(crate) fn run(command: &mut Command) -> Done {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Heavy proofs, with the command built the way users get it.
pub(crate) fn proof(rest: &[String]) -> Done {
    cargo(&["build", "--release", "--package", "lockkeeper-cli", "--package", "proof"])?;
    let run = ["run", "--release", "--package", "proof", "--"];
    cargo(&run.into_iter().chain(rest.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// Benches, in a workspace of their own: peers are no dependencies of ours.
pub(crate) fn bench(rest: &[String]) -> Done {
    cargo(&["build", "--profile", "dist", "--package", "lockkeeper-cli"])?;
    let run = ["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"];
    cargo(&run.into_iter().chain(rest.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// The clients of other languages, in a workspace of its own for the same reason.
pub(crate) fn interop(rest: &[String]) -> Done {
    let run = ["run", "--manifest-path", "interop/Cargo.toml", "--"];
    cargo(&run.into_iter().chain(rest.iter().map(String::as_str)).collect::<Vec<_>>())
}
