//! The chores of this repository: `cargo xtask test | bench | interop | proof | api`.
#![allow(clippy::print_stderr, reason = "this is a command")]

mod api;
mod checks;
mod manifest;
mod packages;
mod steps;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test            installs what the tests need, then runs format, lints, tests, docs and examples
  proof [NAME]    heavy proofs with real processes (all of them without a name; --quick, --seed N, --mode M)
  bench [TABLE]   side by side with the raw engine and with peers (--check fails on a missed ratio)
  api [--keep]    compares the public API with the one that is kept, or keeps it anew
  interop         shares locks with the real clients of other languages (--only CLIENT)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((command, rest)) => match (command.as_str(), rest) {
            ("test", []) => checks::all(),
            ("proof", rest) => steps::proof(rest),
            ("bench", rest) => steps::bench(rest),
            ("api", rest) => api::check(rest),
            ("interop", rest) => {
                packages::ensure(packages::FOR_INTEROP).and_then(|()| steps::interop(rest))
            }
            _ => Err(USAGE.into()),
        },
        None => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
