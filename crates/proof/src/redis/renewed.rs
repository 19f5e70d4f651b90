//! Who is renewed when, as the server tells it: a message each time a key gets another end.

use std::{
    io,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use lab::redis::{Client, Server};

use super::commands::Commands;
use crate::trouble::{Outcome, Trouble, ensure};

const CHANNEL: &str = "__keyevent@0__:expire";
const BEGIN: &str = "begin";
const END: &str = "end";

/// The key of the lock with this number, among those that are watched.
pub(crate) fn key(number: usize) -> String {
    format!("held-{number}")
}

/// Somebody who writes down what the server tells.
#[derive(Debug)]
pub(crate) struct Listener {
    client: Client,
    before: Commands,
    thread: JoinHandle<io::Result<Tally>>,
}

impl Listener {
    pub(crate) fn start(server: &Server, n_locks: usize) -> Outcome<Self> {
        server.config_set("notify-keyspace-events", "Eg")?;
        // What comes in bursts is not to be cut off.
        server.config_set("client-output-buffer-limit", "pubsub 0 0 0")?;
        let mut ear = server.client()?;
        ear.command(&["SUBSCRIBE", CHANNEL])?.not_an_error()?;
        let thread = thread::spawn(move || listen(&mut ear, Tally::new(n_locks)));
        let mut client = server.client()?;
        let before = Commands::count_and_mark(&mut client, CHANNEL, BEGIN)?;
        Ok(Self { client, before, thread })
    }

    /// What was told, and what was counted, between the start and now.
    pub(crate) fn end(mut self) -> Outcome<(Tally, Commands)> {
        let after = Commands::count_and_mark(&mut self.client, CHANNEL, END)?;
        let tally = self.thread.join().map_err(|_| Trouble::Failed("nobody listened".into()))??;
        self.client.command(&["CONFIG", "SET", "notify-keyspace-events", ""])?.not_an_error()?;
        Ok((tally, after.since(&self.before)))
    }
}

fn listen(ear: &mut Client, mut tally: Tally) -> io::Result<Tally> {
    let mut has_begun = false;
    loop {
        let message = ear.receive()?;
        let told = message.list().last().map(|told| String::from_utf8_lossy(told.bytes()));
        match told.as_deref().unwrap_or_default() {
            BEGIN => has_begun = true,
            END => return Ok(tally),
            name if has_begun => tally.add(name, Instant::now()),
            _ => {}
        }
    }
}

/// How often each lock was renewed.
#[derive(Debug)]
pub(crate) struct Tally {
    locks: Vec<Renewed>,
    pub(crate) n_strangers: u64,
}

#[derive(Clone, Debug)]
struct Renewed {
    n_times: u64,
    last_at: Option<Instant>,
    shortest: Duration,
    longest: Duration,
}

impl Tally {
    fn new(n_locks: usize) -> Self {
        let never =
            Renewed { n_times: 0, last_at: None, shortest: Duration::MAX, longest: Duration::ZERO };
        Self { locks: vec![never; n_locks], n_strangers: 0 }
    }

    fn add(&mut self, name: &str, now: Instant) {
        let number = name.rsplit_once("}k:held-").and_then(|(_, number)| number.parse().ok());
        let Some(lock) = number.and_then(|number: usize| self.locks.get_mut(number)) else {
            self.n_strangers += 1;
            return;
        };
        if let Some(before) = lock.last_at.replace(now) {
            let gap = now.duration_since(before);
            lock.shortest = lock.shortest.min(gap);
            lock.longest = lock.longest.max(gap);
        }
        lock.n_times += 1;
    }

    pub(crate) fn n_renewals(&self) -> u64 {
        self.locks.iter().map(|lock| lock.n_times).sum()
    }

    /// Checks that every lock was renewed once in each interval; answers how often the lock renewed
    /// least and the one renewed most, and the shortest and the longest time between two renewals.
    pub(crate) fn check(
        &self,
        interval: Duration,
        length: Duration,
    ) -> Outcome<([u64; 2], [Duration; 2])> {
        let n_intervals = length.div_duration_f64(interval);
        let most_possible = n_intervals as u64 + 1;
        let (mut times, mut gaps) = ([u64::MAX, 0], [Duration::MAX, Duration::ZERO]);
        for (number, lock) in self.locks.iter().enumerate() {
            let key = key(number);
            ensure!(lock.n_times >= 2, "{key} was renewed {} times in {length:?}", lock.n_times);
            ensure!(
                lock.n_times <= most_possible,
                "{key} was renewed {} times in {length:?}, more than every {interval:?}",
                lock.n_times
            );
            // Half an interval would be a second renewal, two intervals one left out.
            ensure!(lock.shortest > interval / 2, "{key} was renewed after {:?}", lock.shortest);
            ensure!(lock.longest < interval * 2, "{key} was not renewed for {:?}", lock.longest);
            times = [times[0].min(lock.n_times), times[1].max(lock.n_times)];
            gaps = [gaps[0].min(lock.shortest), gaps[1].max(lock.longest)];
        }
        let expected = n_intervals * self.locks.len() as f64;
        let share = self.n_renewals() as f64 / expected;
        ensure!((0.9..1.1).contains(&share), "{share:.2} renewals of each lock in each interval");
        Ok((times, gaps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// One lock, renewed at these tenths of a second.
    fn told(tenths: &[u32]) -> Tally {
        let (mut tally, start) = (Tally::new(1), Instant::now());
        tenths.iter().for_each(|at| tally.add("lock:{abc}k:held-0", start + SECOND * *at / 10));
        tally
    }

    #[test]
    fn once_in_each_interval_is_well() {
        let tally = told(&[1, 11, 23, 33]);
        let (times, gaps) = tally.check(SECOND, SECOND * 4).unwrap();
        assert_eq!((times, gaps), ([4, 4], [SECOND, SECOND * 12 / 10]));
        assert_eq!((tally.n_renewals(), tally.n_strangers), (4, 0));
    }

    #[test]
    fn too_seldom_and_too_often_are_refused() {
        let six = [1, 7, 13, 19, 25, 31, 37];
        for tenths in [&[1][..], &[1, 11, 31], &[1, 11, 14, 21], &[1, 15, 29], &six] {
            told(tenths).check(SECOND, SECOND * 4).unwrap_err();
        }
        let mut tally = Tally::new(2);
        for name in ["lock:{abc}k:held-2", "lock:{abc}k:other", "lock:{abc}l:held-1"] {
            tally.add(name, Instant::now());
        }
        assert_eq!((tally.n_strangers, tally.n_renewals()), (3, 0));
    }
}
