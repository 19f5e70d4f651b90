//! The command `lockkeeper`: runs a command while it holds a lock, shows who holds and who waits.
// On Linux the program begins in linux/process.rs, which says why.
#![cfg_attr(all(target_os = "linux", not(test)), no_main)]
#![cfg_attr(test, allow(dead_code, reason = "tests begin elsewhere"))]

mod args;
mod embedded;
mod exit;
mod message;
mod output;
mod pages;
mod passed_on;
mod run;
mod status;

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod post;
#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod post;

use std::ffi::OsString;

use clap::Parser;

use crate::{
    args::{Args, Command},
    exit::{Exit, Failure},
    passed_on::PassedOn,
    run::Patience,
};

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    begin(&std::env::args_os().collect::<Vec<_>>()).code().into()
}

/// Does what the command line says.
fn begin(words: &[OsString]) -> Exit {
    let mut args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => {
            post::survive_broken_pipes();
            return args::report(&error, words);
        }
    };
    perform(&mut args).unwrap_or_else(|failure| {
        if let Some(text) = &failure.message {
            message::say(text);
        }
        failure.exit
    })
}

fn perform(args: &mut Args) -> Result<Exit, Failure> {
    let holds = matches!(args.command, Command::Run { .. } | Command::Try { .. });
    if !holds {
        post::survive_broken_pipes();
    }
    let url = match args.command {
        Command::Completions { .. } | Command::Man => None,
        // What is passed on to the command is what we use ourselves.
        _ if holds => passed_on::url(args.url())?.or_else(embedded::url),
        _ => passed_on::url(args.url())?,
    };
    let url = url.as_deref();
    if let Command::Run { hold, .. } | Command::Try { hold } = &mut args.command {
        hold.passed_on = PassedOn::new(url);
    }
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
