//! The processes that want the keys, and what is done to them and to their connections.

use std::{
    env, io,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lab::{Folder, Process, redis::Client};
use nix::sys::signal::Signal;

use super::{
    N_KEYS, TTL,
    contestant::{Board, Orders, record_of},
    holds::Witnessed,
    record,
    tally::Tally,
};
use crate::{crew::HANG, trouble::Outcome};

const N_PROCESSES: usize = 24;

pub(crate) struct Crowd {
    folder: Folder,
    board: Board,
    /// For the next one.
    orders: Orders,
    present: Vec<Present>,
    /// Those who have been killed or have gone.
    gone: Vec<Witnessed>,
    random: fastrand::Rng,
    pub(crate) tally: Tally,
    /// Who ended by itself, did not end, or left something behind in its own process.
    faults: Vec<String>,
}

struct Present {
    process: Process,
    number: u32,
    stops: Vec<(u64, u64)>,
    /// Since when it is stopped, and when it goes on.
    stopped: Option<(u64, Instant)>,
}

impl Crowd {
    pub(crate) fn gather(
        url: &str,
        resource: u16,
        shares: bool,
        mut random: fastrand::Rng,
    ) -> Outcome<Self> {
        let folder = Folder::new()?;
        let (board, seed) = (Board::open(folder.path())?, random.u64(..1 << 32));
        let path = folder.path().to_owned();
        let orders =
            Orders { url: url.to_owned(), resource, folder: path, number: 0, seed, shares };
        let (present, gone, faults, tally) = (Vec::new(), Vec::new(), Vec::new(), Tally::default());
        let mut crowd = Self { folder, board, orders, present, gone, random, tally, faults };
        for _ in 0..N_PROCESSES {
            crowd.hire()?;
        }
        Ok(crowd)
    }

    /// Only the thread that outlives them all may start them: they end with it.
    fn hire(&mut self) -> Outcome {
        let mut command = Command::new(env::current_exe()?);
        command.args(self.orders.args());
        let (process, number) = (Process::start(command)?, self.orders.number);
        self.present.push(Present { process, number, stops: Vec::new(), stopped: None });
        self.orders.number += 1;
        Ok(())
    }

    /// Does harm until then, to the processes and to the connections at these ports.
    pub(crate) fn torment(&mut self, ports: &[u16], until: Instant) -> Outcome {
        while Instant::now() < until {
            let pause_until = Instant::now() + Duration::from_millis(self.random.u64(40..400));
            while Instant::now() < pause_until {
                self.wake(|wake_at| wake_at <= Instant::now())?;
                thread::sleep(Duration::from_millis(5));
            }
            match self.random.u32(..100) {
                ..35 => self.stop_one()?,
                35..55 => self.kill_one()?,
                55..80 => self.cut(ports),
                _ => self.flush(ports),
            }
            self.replace_the_fallen()?;
        }
        self.wake(|_| true)
    }

    /// Nobody ends by itself; what it had to say against that was said there.
    fn replace_the_fallen(&mut self) -> Outcome {
        for at in (0..self.present.len()).rev() {
            if let Some(status) = self.present[at].process.ended()? {
                let fallen = self.present.swap_remove(at);
                self.faults.push(format!("contestant {} ended with {status}", fallen.number));
                self.say_goodbye(fallen, Some(lab::monotonic_ns()))?;
                self.hire()?;
            }
        }
        Ok(())
    }

    /// Every other time whoever had a key last, otherwise anybody: mostly one who waits.
    fn choose(&mut self) -> usize {
        let anybody = self.random.usize(..self.present.len());
        if self.random.bool() {
            return anybody;
        }
        let holder = self.board.holder(self.random.u32(..N_KEYS));
        let chosen = self.present.iter().position(|present| Some(present.number) == holder);
        chosen.unwrap_or(anybody)
    }

    /// For less than a ttl sometimes, mostly for more.
    fn stop_one(&mut self) -> Outcome {
        let chosen = self.choose();
        let length = TTL.mul_f64(0.3 + self.random.f64() * 2.5);
        let present = &mut self.present[chosen];
        if present.stopped.is_none() {
            present.stopped = Some((lab::monotonic_ns(), Instant::now() + length));
            present.process.signal(Signal::SIGSTOP)?;
            self.tally.count("stops");
        }
        Ok(())
    }

    fn wake(&mut self, is_due: impl Fn(Instant) -> bool) -> Outcome {
        for present in &mut self.present {
            if let Some((since, _)) = present.stopped.filter(|(_, wake_at)| is_due(*wake_at)) {
                present.process.signal(Signal::SIGCONT)?;
                present.stops.push((since, lab::monotonic_ns()));
                present.stopped = None;
            }
        }
        Ok(())
    }

    fn kill_one(&mut self) -> Outcome {
        let chosen = self.choose();
        let mut victim = self.present.swap_remove(chosen);
        let killed_at = lab::monotonic_ns();
        victim.process.kill()?;
        self.say_goodbye(victim, Some(killed_at))?;
        self.tally.count("kills");
        self.hire()
    }

    fn say_goodbye(&mut self, who: Present, killed_at: Option<u64>) -> Outcome {
        let lines = record::read(&record_of(self.folder.path(), who.number))?;
        let mut stops = who.stops;
        stops.extend(who.stopped.map(|(since, _)| (since, lab::monotonic_ns())));
        self.gone.push(Witnessed { number: who.number, lines, killed_at, stops });
        Ok(())
    }

    /// Cuts all connections at a server, or one.
    fn cut(&mut self, ports: &[u16]) {
        let port = ports[self.random.usize(..ports.len())];
        let (one, pushed) = (self.random.bool(), self.random.bool());
        let kind = if pushed { "pubsub" } else { "normal" };
        let luck = self.random.usize(..1_000);
        let cut = || -> io::Result<()> {
            let mut client = patient(port)?;
            if !one {
                return client.command(&["CLIENT", "KILL", "TYPE", kind]).map(drop);
            }
            let list = client.command(&["CLIENT", "LIST"])?.not_an_error()?.text();
            let ids: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
            let id = ids[luck % ids.len()].trim_start_matches("id=");
            client.command(&["CLIENT", "KILL", "ID", id]).map(drop)
        };
        // A server that is dead or paused cuts nobody.
        if cut().is_ok() {
            self.tally.count("client kills");
        }
    }

    fn flush(&mut self, ports: &[u16]) {
        let port = ports[self.random.usize(..ports.len())];
        let flushed = patient(port).and_then(|mut client| client.command(&["SCRIPT", "FLUSH"]));
        if flushed.is_ok() {
            self.tally.count("script flushes");
        }
    }

    /// Has all of them stop wanting, and end; answers what they wrote, and who left something
    /// behind in its own process or did not end.
    pub(crate) fn disperse(mut self) -> Outcome<(Vec<Witnessed>, Vec<String>)> {
        for present in &mut self.present {
            present.process.say_no_more();
        }
        for mut present in std::mem::take(&mut self.present) {
            let number = present.number;
            match present.process.hear(HANG) {
                Ok(usage) => {
                    self.faults.extend(grown(&usage).map(|how| format!("{number}: {how}")));
                }
                Err(error) => {
                    self.faults.push(format!("contestant {number} does not end: {error}"));
                }
            }
            if let Ok(status) = present.process.wait(HANG / 10)
                && !status.success()
            {
                self.faults.push(format!("contestant {number} ended with {status}"));
            }
            self.say_goodbye(present, None)?;
        }
        Ok((self.gone, self.faults))
    }
}

/// What a process still had after its locks were gone.
fn grown(usage: &str) -> Option<String> {
    let numbers: Vec<usize> = usage.split(' ').flat_map(str::parse).collect();
    match numbers[..] {
        [threads, threads_after, files, files_after] => {
            let grown = threads_after > threads || files_after > files;
            grown.then(|| {
                format!("threads {threads} to {threads_after}, files {files} to {files_after}")
            })
        }
        _ => Some(format!("said {usage:?}")),
    }
}

/// Whether somebody who comes now gets every key: the longest wait for one, or what went wrong.
pub(crate) fn send_latecomer(url: &str) -> Outcome<Result<Duration, String>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["latecomer", url]);
    let mut process = Process::start(command)?;
    let mut longest = 0;
    for key in 0..N_KEYS {
        match process.hear(HANG) {
            Ok(waited) => longest = longest.max(waited.parse()?),
            Err(error) => return Ok(Err(format!("key-{key} cannot be taken any more: {error}"))),
        }
    }
    match process.wait(HANG)? {
        status if status.success() => Ok(Ok(Duration::from_millis(longest))),
        status => Ok(Err(format!("who came after all was over ended with {status}"))),
    }
}

fn patient(port: u16) -> io::Result<Client> {
    let client = Client::connect(port)?;
    client.be_patient_for(Duration::from_millis(300))?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_keeps_is_told() {
        assert_eq!(grown("2 2 9 9"), None);
        assert_eq!(grown("2 1 9 8"), None);
        for usage in ["2 3 9 9", "2 2 9 10", "", "2 2 9"] {
            assert!(grown(usage).is_some(), "{usage}");
        }
    }
}
