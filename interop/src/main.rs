//! Locks shared with the real clients of other languages, both ways.
//!
//! `interop [--only CLIENT]` starts servers, starts each client as a process of its own, runs the
//! checks that make sense with it, and prints a table. Ends with 1 if one of them fails.

mod checks;
mod client;
mod install;
mod table;
mod worker;
mod yard;

use std::{env, error::Error, process::ExitCode, time::Duration};

use lockkeeper::blocking::Locks;

use crate::{
    client::{CLIENTS, Client},
    table::Table,
    yard::Yard,
};

/// Whatever goes wrong in a check fails it, and says why.
type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        // This program starts itself as a holder that can be killed.
        ["hold", url, key, ttl_ms] => hold(url, key, ttl_ms).map(|()| true),
        [] => run(&CLIENTS.each_ref()),
        ["--only", name] => match CLIENTS.iter().find(|client| client.name == name) {
            Some(client) => run(&[client]),
            None => Err(usage().into()),
        },
        _ => Err(usage().into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn usage() -> String {
    let names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
    format!("usage: interop [--only CLIENT]; the clients are {}", names.join(", "))
}

/// Whether all checks passed.
fn run(clients: &[&Client]) -> Result<bool> {
    let mut table = Table::default();
    for client in clients {
        let folder = install::ensure(client.language)?;
        let yard = Yard::open(client, &folder)?;
        for check in checks::of(client) {
            let outcome = (check.run)(&yard);
            table.add(client.name, check.name, outcome);
        }
    }
    table.print(clients);
    Ok(table.n_failed() == 0)
}

/// Holds a lock until the process is killed.
fn hold(url: &str, key: &str, ttl_ms: &str) -> Result<()> {
    let ttl = Duration::from_millis(ttl_ms.parse()?);
    let locks = Locks::connect(url)?;
    let _guard = locks.lock(key).ttl(ttl).acquire()?;
    println!("held");
    loop {
        std::thread::park();
    }
}
