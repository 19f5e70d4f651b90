//! Side by side with the raw engine and with other lock libraries, all in one run.
//!
//! `bench [TABLE…] [--only NAME] [--rounds N] [--check]` prints one table in Markdown for each name,
//! or all of them. With `--only` there are just the base and the variants with NAME in their names.
//! With `--check` it ends with 1 if a stated ratio is not met.

mod table;

mod command;
mod file;
mod hot;
mod memory;
mod redis;

use std::{env, error::Error, process::ExitCode};

use crate::table::{Order, Verdict};

/// Whatever goes wrong here ends the run.
type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

type Table = fn(&Order) -> Result<Verdict>;

const TABLES: [(&str, Table); 8] = [
    ("file", file::measure),
    ("hot", hot::measure),
    ("command", command::measure),
    ("memory", memory::measure),
    ("redis-one", redis::one),
    ("redis-many", redis::many),
    ("redis-hot", redis::hot),
    ("redis-redlock", redis::redlock),
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
    let mut args = env::args().skip(1).peekable();
    // The bench starts itself as one of the programs that it measures.
    if args.next_if(|arg| arg == "worker").is_some() {
        redis::work(&args.collect::<Vec<_>>())?;
        return Ok(Verdict::Met);
    }
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--check" => is_check = true,
            "--only" => order.only = Some(args.next().ok_or("--only needs a name")?),
            "--rounds" => {
                order.n_rounds = Some(args.next().ok_or("--rounds needs a number")?.parse()?);
            }
            name if TABLES.iter().any(|(known, _)| *known == name) => names.push(arg),
            other => {
                let known = TABLES.map(|(name, _)| name).join(", ");
                return Err(format!("{other:?} is not a table: {known}").into());
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
