//! The workers of one proof, seen from the proof.

use std::{
    env,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lab::{Folder, Process};
use lockkeeper::blocking::Locks;

use crate::{
    history::Entry,
    log,
    trouble::{Outcome, Trouble, ensure},
    worker::{Job, Place},
};

/// Long enough that only a hang takes it.
pub(crate) const HANG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) place: Place,
    pub(crate) locks: Locks,
    n_hired: u32,
    folder: Folder,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: u32,
    pub(crate) process: Process,
}

/// Sees each of the line have its turn, one after the other, and go.
pub(crate) fn see_through(workers: &mut [Worker]) -> Outcome {
    for worker in &mut *workers {
        worker.has_it_at_ns()?;
        worker.let_go();
    }
    for worker in workers {
        worker.until_gone()?;
    }
    Ok(())
}

impl Crew {
    pub(crate) fn new() -> Outcome<Self> {
        let folder = Folder::new()?;
        let place = Place(folder.path().to_owned());
        let locks = Locks::connect(&place.url())?;
        Ok(Self { place, locks, n_hired: 0, folder })
    }

    pub(crate) fn file_system(&self) -> Outcome<String> {
        Ok(lab::file_system(self.folder.path())?)
    }

    pub(crate) fn hire(&mut self, job: &Job) -> Outcome<Worker> {
        let number = self.n_hired;
        self.n_hired += 1;
        let mut command = Command::new(env::current_exe()?);
        command.args(job.args(&self.place, number));
        Ok(Worker { number, process: Process::start(command)? })
    }

    /// Hires workers one after the other, each of which stands in line before the next comes.
    pub(crate) fn line_up(&mut self, key: &str, n_workers: usize) -> Outcome<Vec<Worker>> {
        let job = Job::Stand { key: key.into() };
        let mut workers = Vec::new();
        let n_before = self.locks.who(key)?.line.len();
        for n_hired in 1..=n_workers {
            workers.push(self.hire(&job)?);
            self.until_waiting(key, n_before + n_hired)?;
        }
        Ok(workers)
    }

    pub(crate) fn until_waiting(&self, key: &str, n_waiting: usize) -> Outcome {
        let give_up_at = Instant::now() + HANG;
        while self.locks.who(key)?.line.len() != n_waiting {
            ensure!(
                Instant::now() < give_up_at,
                "{n_waiting} should be in line for {key}, but {:?}",
                self.locks.who(key)?
            );
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    pub(crate) fn history(&self, key: &str) -> Outcome<Vec<Entry>> {
        Ok(log::read(&self.place.log(key))?)
    }

    /// Has those stop who look for it.
    pub(crate) fn stop(&self) -> Outcome {
        Ok(std::fs::write(self.place.stop(), "")?)
    }
}

impl Worker {
    /// Waits until it has the lock, and answers since when.
    pub(crate) fn has_it_at_ns(&mut self) -> Outcome<u64> {
        let said = self.process.hear(HANG).map_err(Trouble::violated(format_args!(
            "worker {} should have the lock",
            self.number
        )))?;
        let at_ns = said.strip_prefix("have ").and_then(|at_ns| at_ns.parse().ok());
        at_ns.ok_or_else(|| Trouble::Failed(format!("worker {} said {said:?}", self.number)))
    }

    /// Tells it to let go, which it does soon.
    pub(crate) fn let_go(&mut self) {
        self.process.say_no_more();
    }

    /// Waits until it has gone by itself, without complaint.
    pub(crate) fn until_gone(&mut self) -> Outcome {
        let number = self.number;
        let status = self.process.wait(HANG);
        let status =
            status.map_err(Trouble::violated(format_args!("worker {number} should end")))?;
        ensure!(status.success(), "worker {number} ended with {status}");
        Ok(())
    }
}
