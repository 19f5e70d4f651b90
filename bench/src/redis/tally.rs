//! Counts what contenders do until their time is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;

use super::talk::{Answer, Keys, Request};
use crate::Result;

/// The count of one contender.
#[derive(Debug)]
pub(crate) struct Tally {
    number: usize,
    /// Who had the key before.
    last: Arc<AtomicUsize>,
    ends_at: Instant,
    n_cycles: u64,
    n_hand_overs: u64,
    /// Nanoseconds of each cycle, if there is one contender only.
    times: Option<Vec<u64>>,
}

impl Tally {
    /// One for each contender; the time runs from now.
    pub(crate) fn start(request: &Request) -> Vec<Self> {
        let nobody = || Arc::new(AtomicUsize::new(usize::MAX));
        let ends_at = Instant::now() + request.window;
        let shared = nobody();
        (0..request.n_contenders)
            .map(|number| Self {
                number,
                last: match request.keys {
                    Keys::Same => Arc::clone(&shared),
                    Keys::Distinct => nobody(),
                },
                ends_at,
                n_cycles: 0,
                n_hand_overs: 0,
                times: (request.n_contenders == 1).then(Vec::new),
            })
            .collect()
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.ends_at
    }

    /// To be called while the lock is held. What comes after the end is not counted: those who wait
    /// by then still get their turn, but without the competition.
    pub(crate) fn held(&mut self) {
        if !self.is_over() {
            self.n_cycles += 1;
            let before = self.last.swap(self.number, Ordering::Relaxed);
            self.n_hand_overs += u64::from(before != self.number);
        }
    }

    /// To be called after each cycle.
    pub(crate) fn cycle_took(&mut self, begun_at: Instant) {
        if let Some(times) = &mut self.times {
            times.push(u64::try_from(begun_at.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// All counts together.
    pub(crate) fn sum(tallies: &mut [Self], window: Duration) -> Answer {
        let mut answer = Answer {
            took_us: u64::try_from(window.as_micros()).unwrap_or(u64::MAX),
            least: u64::MAX,
            ..Answer::default()
        };
        for tally in tallies {
            answer.n_cycles += tally.n_cycles;
            answer.n_hand_overs += tally.n_hand_overs;
            answer.least = answer.least.min(tally.n_cycles);
            answer.most = answer.most.max(tally.n_cycles);
            if let Some(times) = &mut tally.times {
                times.sort_unstable();
                answer.p50_ns = times.get(times.len() / 2).copied().unwrap_or(0);
            }
        }
        answer
    }
}

/// One task's way to take the lock and give it back.
pub(crate) trait Contender: Send + 'static {
    /// Tells the tally while it holds the lock.
    fn cycle(&mut self, tally: &mut Tally) -> impl Future<Output = Result<()>> + Send;
}

/// Contenders that run as tasks of one runtime and keep their connections between runs.
#[derive(Debug)]
pub(crate) struct Tasks<C> {
    pub(crate) runtime: Runtime,
    pub(crate) contenders: Vec<C>,
}

impl<C: Contender> Tasks<C> {
    pub(crate) fn run(&mut self, request: &Request) -> Result<Answer> {
        let mut tallies = self.run_for(Tally::start(request))?;
        Ok(Tally::sum(&mut tallies, request.window))
    }

    /// One tally for each contender.
    fn run_for(&mut self, tallies: Vec<Tally>) -> Result<Vec<Tally>> {
        let Self { runtime, contenders } = self;
        runtime.block_on(all_until_over(contenders, tallies))
    }
}

/// Contenders with a thread and a runtime each, as if each were a program of its own.
#[derive(Debug)]
pub(crate) struct Threads<C>(pub(crate) Vec<Tasks<C>>);

impl<C: Contender> Threads<C> {
    pub(crate) fn run(&mut self, request: &Request) -> Result<Answer> {
        let tallies = Tally::start(request);
        let tallies = thread::scope(|scope| {
            let threads: Vec<_> = self
                .0
                .iter_mut()
                .zip(tallies)
                .map(|(tasks, tally)| scope.spawn(|| tasks.run_for(vec![tally])))
                .collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a contender panicked")?);
            joined.collect::<Result<Vec<_>>>()
        })?;
        let mut tallies: Vec<_> = tallies.into_iter().flatten().collect();
        Ok(Tally::sum(&mut tallies, request.window))
    }
}

async fn all_until_over<C: Contender>(
    contenders: &mut Vec<C>,
    tallies: Vec<Tally>,
) -> Result<Vec<Tally>> {
    let start = tallies.into_iter().zip(contenders.drain(..));
    // The future of `block_on` itself is polled in another way than a task.
    let tasks: Vec<_> =
        start.map(|(tally, contender)| tokio::spawn(until_over(contender, tally))).collect();
    let mut tallies = Vec::new();
    for task in tasks {
        let (contender, tally) = task.await??;
        contenders.push(contender);
        tallies.push(tally);
    }
    Ok(tallies)
}

async fn until_over<C: Contender>(mut contender: C, mut tally: Tally) -> Result<(C, Tally)> {
    while !tally.is_over() {
        let begun_at = Instant::now();
        contender.cycle(&mut tally).await?;
        tally.cycle_took(begun_at);
    }
    Ok((contender, tally))
}
