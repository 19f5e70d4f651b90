//! Side by side with the raw engine and with other lock libraries, all in one run.
//!
//! `bench [TABLE…] [--rounds N] [--check]` prints one table in Markdown for each name, or
//! all of them. With `--check` it ends with 1 if a stated ratio is not met.

mod table;

mod command;
mod file;
mod hot;
mod memory;

use std::{env, error::Error, process::ExitCode};

use crate::table::{Order, Verdict};

/// Whatever goes wrong here ends the run.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

type Table = fn(&Order) -> Result<Verdict>;

const TABLES: [(&str, Table); 4] = [
    ("file", file::measure),
    ("hot", hot::measure),
    ("command", command::measure),
    ("memory", memory::measure),
];

fn main() -> ExitCode {
    match run() {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            eprintln!("the bench could not be run: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<Verdict> {
    let mut order = Order::default();
    let (mut names, mut is_check) = (Vec::new(), false);
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--check" => is_check = true,
            "--rounds" => {
                order.n_rounds = Some(args.next().ok_or("--rounds needs a number")?.parse()?);
            }
            name if TABLES.iter().any(|(known, _)| *known == name) => names.push(arg),
            other => {
                return Err(format!("{other:?} is not a table: file, hot, command, memory").into());
            }
        }
    }
    let mut verdict = Verdict::Met;
    for (name, table) in TABLES {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            verdict = verdict.and(table(&order)?);
        }
    }
    Ok(if is_check { verdict } else { Verdict::Met })
}
