//! Proofs: what is promised, tried on real processes that are killed, stopped and cancelled.
//!
//! `proof [NAME] [--seed N] [--quick] [--mode MODE]`, all of them without a name, prints what it measured. It
//! ends with 1 and says why when a promise was broken, with 2 when the proof itself could not be
//! carried out.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to people")]

mod crew;
mod history;
mod log;
mod settings;
mod trouble;
mod worker;

mod counter;
mod crowd;
mod drops;
mod fifo;
mod idle;
mod kills;
mod next_in_line;
mod redis;
mod signals;
mod tidy;
mod told;

use std::{env, process::ExitCode};

use crate::{
    redis::combined::mode::Mode,
    settings::{Order, Settings},
    trouble::{Outcome, Trouble},
};

type Proof = fn(&Settings) -> Outcome;

const PROOFS: [(&str, Proof); 14] = [
    ("signals", signals::prove),
    ("counter", counter::prove),
    ("kills", kills::prove),
    ("next-in-line", next_in_line::prove),
    ("fifo", fifo::prove),
    ("drops", drops::prove),
    ("tidy", tidy::prove),
    ("idle", idle::prove),
    ("told", told::prove),
    ("memcached-crowd", crowd::prove),
    ("redis-torture", redis::torture::prove),
    ("redis-held", redis::held::prove),
    ("redis-split", redis::split::prove),
    ("redis-combined", redis::combined::prove),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((first, rest)) if first == "worker" => worker::work(rest),
        Some((first, rest)) if first == "idler" => idle::work(rest),
        Some((first, rest)) if first == "one-of-a-crowd" => crowd::work(rest),
        Some((first, rest)) if first == "contender" => redis::contender::work(rest),
        Some((first, rest)) if first == "contestant" => redis::combined::contestant::work(rest),
        Some((first, rest)) if first == "latecomer" => {
            redis::combined::contestant::come_after(rest)
        }
        _ => {
            let (names, modes) = (PROOFS.map(|(name, _)| name), Mode::ALL.map(Mode::name));
            Settings::parse(&args, &names, &modes).and_then(|order| carry_out(&order))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Violated(what)) => {
            eprintln!("VIOLATED: {what}");
            ExitCode::from(1)
        }
        Err(Trouble::Failed(why)) => {
            eprintln!("the proof could not be carried out: {why}");
            ExitCode::from(2)
        }
    }
}

fn carry_out(order: &Order) -> Outcome {
    println!("seed {}{}", order.settings.seed, if order.settings.quick { ", quick" } else { "" });
    for (name, proof) in PROOFS {
        if order.name == "all" || order.name == name {
            let begun_at = std::time::Instant::now();
            println!("\n{name}");
            proof(&order.settings)?;
            println!("  holds ({:.1} s)", begun_at.elapsed().as_secs_f64());
        }
    }
    Ok(())
}
