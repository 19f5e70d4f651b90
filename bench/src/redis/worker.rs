//! The worker for everything in Rust: `bench worker ADDRESS…`, spoken to over its input.

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, BufRead},
};

use tokio::runtime::{Builder, Runtime};

use super::{
    direct::{self, Direct},
    ours::{
        Company::{Apart, Shared},
        End::{Dropped, Released},
        Ours,
    },
    peers::{Distributed, Rslock},
    raw::Raw,
    talk::{Answer, Request},
    tally::{Contender, Tasks},
};
use crate::Result;

/// A variant with its connections.
type Run = Box<dyn FnMut(&Request) -> Result<Answer>>;

/// Answers requests until there are no more.
pub(crate) fn run(addresses: &[String]) -> Result<()> {
    let mut opened: HashMap<String, Run> = HashMap::new();
    for line in io::stdin().lock().lines() {
        match answer(&mut opened, addresses, &line?) {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error: {error}"),
        }
    }
    Ok(())
}

fn answer(opened: &mut HashMap<String, Run>, addresses: &[String], line: &str) -> Result<Answer> {
    let request: Request = line.parse()?;
    let name = format!("{} {:?} {}", request.variant, request.keys, request.n_contenders);
    match opened.entry(name) {
        Entry::Occupied(mut run) => run.get_mut()(&request),
        Entry::Vacant(place) => place.insert(open(addresses, &request)?)(&request),
    }
}

fn open(addresses: &[String], request: &Request) -> Result<Run> {
    let urls: Vec<_> = addresses.iter().map(|address| format!("redis://{address}")).collect();
    let first = addresses.first().ok_or("a worker needs the address of a server")?;
    let ours = |runtime, how| Ours::tasks(runtime, addresses, request, how);
    Ok(match request.variant.as_str() {
        "raw" => {
            let mut raw = Raw::new(first, request)?;
            Box::new(move |request| raw.run(request))
        }
        "direct" => {
            let mut direct = Direct::new(first, request)?;
            Box::new(move |request| direct.run(request))
        }
        "direct-tasks" => running(direct::Task::all(current()?, first, request)?),
        "ours" => running(ours(current()?, (Released, Shared))?),
        "ours-dropped" => running(ours(current()?, (Dropped, Shared))?),
        "ours-two-threads" => running(ours(two_threads()?, (Released, Shared))?),
        "ours-apart" => running(ours(current()?, (Released, Apart))?),
        "ours-threads" => {
            let mut ours = Ours::threads(current, addresses, request)?;
            Box::new(move |request| ours.run(request))
        }
        "rslock" => running(Rslock::tasks(current()?, &urls, request)),
        "rslock-two-threads" => running(Rslock::tasks(two_threads()?, &urls, request)),
        "distributed-lock" => running(Distributed::tasks(current()?, &urls, request)?),
        other => return Err(format!("no variant is called {other:?}").into()),
    })
}

fn running<C: Contender>(mut tasks: Tasks<C>) -> Run {
    Box::new(move |request| tasks.run(request))
}

fn current() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn two_threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
