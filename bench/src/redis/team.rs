//! The workers: one process for each language, kept alive from the first run to the last.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use lab::{Process, usage::cpu_ticks};
use nix::unistd::{SysconfVar, sysconf};

use super::{
    foreign,
    talk::{Answer, Request},
};
use crate::Result;

/// What a worker is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Language {
    Rust,
    Python,
    Node,
    Java,
    Go,
}

impl Language {
    /// How long it must run before it is as fast as it gets: some compile while they run.
    pub(crate) fn warm_up(self) -> Duration {
        match self {
            Self::Java => Duration::from_secs(8),
            Self::Node => Duration::from_secs(2),
            Self::Rust | Self::Python | Self::Go => Duration::from_millis(500),
        }
    }
}

/// Longer than what any worker needs beyond the time of a run: the last ones in line.
const PATIENCE: Duration = Duration::from_secs(60);

/// The servers' addresses and process numbers, and the workers that were needed so far.
#[derive(Debug)]
pub(crate) struct Team {
    addresses: Vec<String>,
    servers: Vec<u32>,
    workers: HashMap<(Language, usize), Process>,
    us_per_tick: f64,
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) answer: Answer,
    /// Microseconds of processor time, of all servers.
    pub(crate) server_us: f64,
    /// The same of all workers.
    pub(crate) client_us: f64,
}

impl Team {
    pub(crate) fn new(servers: &[lab::redis::Server]) -> Result<Self> {
        let ticks = sysconf(SysconfVar::CLK_TCK)?.ok_or("the kernel has no tick")?;
        Ok(Self {
            addresses: servers.iter().map(lab::redis::Server::address).collect(),
            servers: servers.iter().map(lab::redis::Server::pid).collect(),
            workers: HashMap::new(),
            us_per_tick: 1e6 / ticks as f64,
        })
    }

    /// Runs it in so many processes at once.
    pub(crate) fn run(
        &mut self,
        language: Language,
        n_processes: usize,
        request: &Request,
    ) -> Result<Sample> {
        let (server_before, client_before) = self.cpu(language, n_processes)?;
        for number in 0..n_processes {
            self.worker(language, number)?.say(&request.to_string())?;
        }
        let mut all: Option<Answer> = None;
        for number in 0..n_processes {
            let line = self.worker(language, number)?.hear(request.window + PATIENCE);
            let line = line.map_err(|error| format!("{}: {error}", request.variant))?;
            let answer = line.parse().map_err(|error| format!("{}: {error}", request.variant))?;
            all = Some(all.map_or(answer, |all| all.beside(answer)));
        }
        let (server_after, client_after) = self.cpu(language, n_processes)?;
        Ok(Sample {
            answer: all.ok_or("a row needs a process")?,
            server_us: (server_after - server_before) as f64 * self.us_per_tick,
            client_us: (client_after - client_before) as f64 * self.us_per_tick,
        })
    }

    /// The worker, which is started if it does not run yet.
    fn worker(&mut self, language: Language, number: usize) -> Result<&mut Process> {
        match self.workers.entry((language, number)) {
            Entry::Occupied(worker) => Ok(worker.into_mut()),
            Entry::Vacant(place) => {
                let mut command = foreign::program(language)?;
                command.args(&self.addresses);
                Ok(place.insert(Process::start(command)?))
            }
        }
    }

    /// Ticks of servers and workers until now.
    fn cpu(&mut self, language: Language, n_processes: usize) -> Result<(u64, u64)> {
        let (mut server, mut client) = (0, 0);
        for id in &self.servers {
            server += cpu_ticks(*id)?;
        }
        for number in 0..n_processes {
            client += cpu_ticks(self.worker(language, number)?.id())?;
        }
        Ok((server, client))
    }
}
