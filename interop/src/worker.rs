//! A process that uses a client of another language as it is told, one line at a time.
//!
//! | line | what the worker does | answers |
//! |---|---|---|
//! | `try KEY LEASE` | locks if it can be done at once | `held`, `busy` |
//! | `wait KEY LEASE` | locks, however long it takes | `held` |
//! | `unlock KEY` | unlocks what it locked last | `free`, `refused` if the lock is not its own |
//! | `extend KEY LEASE` | makes the lease last longer | `held` |
//! | `force KEY` | unlocks, whoever holds it | `free`, `busy` |
//! | `left KEY` | asks the client how long the lease lasts | milliseconds |
//!
//! A lease is a number of milliseconds, or `renewed`: the client's own, which it renews.

use std::{fs::File, path::Path, process::Command, time::Duration};

use lab::Process;

use crate::{
    Result,
    client::{Client, Language},
};

/// Longer than anything takes that comes to an end at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Worker(Process);

impl Worker {
    pub(crate) fn start(
        client: &Client,
        folder: &Path,
        addresses: impl Iterator<Item = String>,
    ) -> Result<Self> {
        let mut command = match client.language {
            Language::Python => {
                let mut command = Command::new(folder.join("venv/bin/python"));
                command.arg(folder.join("worker.py"));
                command
            }
            Language::Node => {
                let mut command = Command::new("node");
                command.arg(folder.join("worker.js"));
                command
            }
            Language::Java => {
                let class_path =
                    format!("{0}/target/classes:{0}/target/dependency/*", folder.display());
                let mut command = Command::new("java");
                command.args(["-XX:TieredStopAtLevel=1", "-cp", &class_path, "Worker"]);
                command
            }
        };
        // What the client logs, for whoever looks into a failure.
        let log = folder.join(format!("{}.log", client.name));
        command.arg(client.name).args(addresses);
        command.stderr(File::options().create(true).append(true).open(log)?);
        let mut worker = Self(Process::start(command)?);
        match worker.hear()?.as_str() {
            "ready" => Ok(worker),
            other => Err(format!("the worker said {other:?}").into()),
        }
    }

    /// Tells it to do something, and waits for no answer.
    pub(crate) fn say(&mut self, line: &str) -> Result<()> {
        Ok(self.0.say(line)?)
    }

    /// Its next answer.
    pub(crate) fn hear(&mut self) -> Result<String> {
        Ok(self.0.hear(PATIENCE).map_err(|error| format!("no answer of the worker: {error}"))?)
    }

    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        self.say(line)?;
        self.hear()
    }

    /// Tells it to do something whose outcome is known.
    pub(crate) fn expect(&mut self, line: &str, answer: &str) -> Result<()> {
        self.say(line)?;
        self.expect_answer(line, answer)
    }

    /// Waits for the answer to what it was told before.
    pub(crate) fn expect_answer(&mut self, line: &str, answer: &str) -> Result<()> {
        match self.hear()? {
            heard if heard == answer => Ok(()),
            heard => Err(format!("{line:?}: {heard:?} in place of {answer:?}").into()),
        }
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        Ok(self.0.kill()?)
    }
}
