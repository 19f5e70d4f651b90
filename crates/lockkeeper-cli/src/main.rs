//! The command `lockkeeper`: runs a command while it holds a lock, shows who holds and who waits.

mod args;
mod exit;
mod message;
mod output;
mod pages;
mod run;
mod status;

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod post;
#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod post;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Args, Command},
    exit::{Exit, Failure},
    run::Patience,
};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::report(&error).into(),
    };
    match perform(&args) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(text) = &failure.message {
                message::say(text);
            }
            failure.exit.into()
        }
    }
}

fn perform(args: &Args) -> Result<Exit, Failure> {
    let url = args.url();
    match &args.command {
        Command::Run { hold, within: None } => run::run(url, hold, Patience::Waits),
        Command::Run { hold, within: Some(limit) } => run::run(url, hold, Patience::Within(*limit)),
        Command::Try { hold } => run::run(url, hold, Patience::Tries),
        Command::Who { key, json } => status::who(url, key, (*json).into()),
        Command::Ls { json } => status::list(url, (*json).into()),
        Command::Tidy { idle } => status::tidy(url, *idle),
        Command::Completions { shell } => pages::completions(*shell),
        Command::Man => pages::man(),
    }
}
