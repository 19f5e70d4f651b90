//! One of the processes that want the keys, over and over: it asks in every way there is, gives up
//! half-way, looks at its guards all the time, and writes everything down.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{ErrorKind, Guard, Locks};
use nix::sys::{prctl, signal::Signal};

use super::{
    N_KEYS, TTL,
    record::{Event, Record},
    resource::{Answer, Desk},
};
use crate::{
    crew::HANG,
    trouble::{Outcome, Trouble},
    worker,
};

/// How long the eyes are closed between two looks at a guard.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// How long one answer may take, which is what the library has if nothing is said.
const ANSWER: Duration = Duration::from_secs(2);
const N_TASKS: u64 = 2;

/// All that a contestant is told.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) url: String,
    pub(crate) resource: u16,
    pub(crate) folder: PathBuf,
    pub(crate) number: u32,
    pub(crate) seed: u64,
    /// Whether its tasks stand in one line, or each has locks of its own.
    pub(crate) shares: bool,
}

impl Orders {
    pub(crate) fn args(&self) -> [String; 7] {
        [
            "contestant".into(),
            self.url.clone(),
            self.resource.to_string(),
            self.folder.display().to_string(),
            self.number.to_string(),
            self.seed.to_string(),
            self.shares.to_string(),
        ]
    }

    fn parse(args: &[String]) -> Outcome<Self> {
        let [url, resource, folder, number, seed, shares] = args else {
            return Err(Trouble::Failed(format!("not the command line of a contestant: {args:?}")));
        };
        Ok(Self {
            url: url.clone(),
            resource: resource.parse()?,
            folder: folder.into(),
            number: number.parse()?,
            seed: seed.parse()?,
            shares: shares.parse()?,
        })
    }
}

/// Where a contestant writes.
pub(crate) fn record_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("contestant-{number}"))
}

/// Who had each key last, for those who look for holders to harm.
#[derive(Debug)]
pub(crate) struct Board(File);

impl Board {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let path = folder.join("board");
        options.read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    fn put(&self, key: u32, number: u32) -> io::Result<()> {
        self.0.write_all_at(&number.to_ne_bytes(), u64::from(key) * 4)
    }

    pub(crate) fn holder(&self, key: u32) -> Option<u32> {
        let mut number = [0; 4];
        self.0.read_exact_at(&mut number, u64::from(key) * 4).ok()?;
        Some(u32::from_ne_bytes(number))
    }
}

/// A process: works until its input ends, and says what it used before and after.
pub(crate) fn work(args: &[String]) -> Outcome {
    // Whatever happens to the proof, no contestant is left behind.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let orders = Orders::parse(args)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        told.store(true, Ordering::SeqCst);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = (lab::usage::n_threads()?, lab::usage::n_descriptors()?);
    let mut contestants = Vec::new();
    for task in 0..N_TASKS {
        contestants.push(runtime.block_on(Contestant::new(&orders, task, Arc::clone(&is_over)))?);
    }
    runtime.block_on(async {
        let mut tasks = Vec::new();
        let mut shared = None;
        for contestant in contestants {
            let locks = match shared.take() {
                Some(locks) if orders.shares => Some(locks),
                _ => connect(&orders.url, &is_over).await,
            };
            let Some(locks) = locks else { break };
            shared = Some(locks.clone());
            tasks.push(tokio::spawn(contestant.compete(locks)));
        }
        drop(shared);
        for task in tasks {
            task.await??;
        }
        Ok::<_, Trouble>(())
    })?;
    let after = runtime.block_on(settled_to(before))?;
    worker::say(&format!("{} {} {} {}", before.0, after.0, before.1, after.1))
}

/// What is used when threads and connections have had time to end, which they do on the runtime.
async fn settled_to(before: (usize, usize)) -> Outcome<(usize, usize)> {
    let give_up_at = Instant::now() + HANG / 4;
    loop {
        let after = (lab::usage::n_threads()?, lab::usage::n_descriptors()?);
        let is_settled = after.0 <= before.0 && after.1 <= before.1;
        if is_settled || Instant::now() > give_up_at {
            return Ok(after);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Again and again: faults do not wait until everybody is there.
async fn connect(url: &str, is_over: &AtomicBool) -> Option<Locks> {
    while !is_over.load(Ordering::SeqCst) {
        match Locks::builder().url(url).ttl(TTL).connect().await {
            Ok(locks) => return Some(locks),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    None
}

/// One task of such a process.
struct Contestant {
    number: u32,
    desk: Desk,
    record: Record,
    board: Board,
    random: fastrand::Rng,
    next_call: u64,
    is_over: Arc<AtomicBool>,
}

impl Contestant {
    async fn new(orders: &Orders, task: u64, is_over: Arc<AtomicBool>) -> Outcome<Self> {
        let seed = orders.seed.wrapping_mul(1_000_003) + u64::from(orders.number) * N_TASKS + task;
        Ok(Self {
            number: orders.number,
            desk: Desk::connect(orders.resource).await?,
            record: Record::open(&record_of(&orders.folder, orders.number))?,
            board: Board::open(&orders.folder)?,
            random: fastrand::Rng::with_seed(seed),
            next_call: task,
            is_over,
        })
    }

    async fn compete(mut self, locks: Locks) -> Outcome {
        while !self.is_over.load(Ordering::SeqCst) {
            let (call, key) = (self.next_call, self.random.u32(..N_KEYS));
            self.next_call += N_TASKS;
            if let Some(guard) = self.ask(&locks, call, key).await? {
                self.hold(call, key, guard).await?;
            }
            let pause = Duration::from_micros(self.random.u64(..8_000));
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Asks in one of all ways; writes down how it ended.
    async fn ask(&mut self, locks: &Locks, call: u64, key: u32) -> Outcome<Option<Guard>> {
        let lock = locks.lock(&worker::key(key));
        let short = Duration::from_micros(self.random.u64(..60_000));
        let long = Duration::from_millis(self.random.u64(4_000..15_000));
        let way = self.random.u32(..100);
        let limit = match way {
            ..50 => long,
            50..80 => short,
            _ => ANSWER,
        };
        let limit_ns = u64::try_from(limit.as_nanos())?;
        self.record.write(call, Event::Ask { key, at: lab::monotonic_ns(), limit: limit_ns })?;
        let asked = match way {
            ..65 => lock.acquire_within(limit).await.map(Some),
            65..80 => match tokio::time::timeout(limit, lock.acquire()).await {
                Ok(asked) => asked.map(Some),
                Err(_) => return self.end(call, "Dropped".into()),
            },
            _ => lock.try_acquire().await,
        };
        let at = lab::monotonic_ns();
        match asked {
            Ok(Some(guard)) => {
                let fence = guard.fence();
                let (look, left) = look_at(&guard);
                self.record.write(call, Event::Have { fence, at, look, left })?;
                Ok(Some(guard))
            }
            Ok(None) => self.end(call, "Busy".into()),
            Err(error) => {
                let is_busy = error.kind() == ErrorKind::TimedOut;
                if !is_busy {
                    tokio::time::sleep(Duration::from_millis(self.random.u64(10..100))).await;
                }
                self.end(call, in_words(&error))
            }
        }
    }

    fn end(&mut self, call: u64, how: String) -> Outcome<Option<Guard>> {
        self.record.write(call, Event::End { at: lab::monotonic_ns(), how })?;
        Ok(None)
    }

    /// Reads, stays a while, writes, and gives back in one of two ways.
    async fn hold(&mut self, call: u64, key: u32, guard: Guard) -> Outcome {
        let (name, fence) = (worker::key(key), guard.fence());
        self.board.put(key, self.number)?;
        let answer = self.desk.read(&name, fence).await?;
        let mut is_held = self.look(call, &guard)?;
        match answer {
            Answer::Stale if is_held => self.record.write(call, Event::Refused)?,
            Answer::Stale => {}
            Answer::Done { count, step } => {
                self.record.write(call, Event::Read { step })?;
                is_held = self.stay(call, &guard).await?;
                // Too late is for the resource to refuse, if there is a fence to refuse by.
                if is_held || fence > 0 {
                    let answer = self.desk.write(&name, fence, count + 1).await?;
                    is_held = self.look(call, &guard)?;
                    match answer {
                        Answer::Done { step, .. } if is_held => {
                            self.record.write(call, Event::Wrote { step })?;
                        }
                        Answer::Stale if is_held => self.record.write(call, Event::Refused)?,
                        Answer::Done { .. } | Answer::Stale => {}
                    }
                }
            }
        }
        self.record.write(call, Event::Leave { at: lab::monotonic_ns() })?;
        let how = if self.random.u8(..10) < 6 {
            guard.release().await.map_or_else(|error| in_words(&error), |()| "Ok".into())
        } else {
            drop(guard);
            "Ok".into()
        };
        Ok(self.record.write(call, Event::Left { at: lab::monotonic_ns(), how })?)
    }

    /// Mostly short, sometimes long enough to be renewed; answers whether it is held to the end.
    async fn stay(&mut self, call: u64, guard: &Guard) -> Outcome<bool> {
        let longest_us = match self.random.u32(..100) {
            ..80 => 3_000,
            80..98 => 30_000,
            _ => 1_800_000,
        };
        let until = Instant::now() + Duration::from_micros(self.random.u64(..longest_us));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(guard.is_held());
            }
            tokio::time::sleep(left.min(BETWEEN_LOOKS)).await;
            if !self.look(call, guard)? {
                return Ok(false);
            }
        }
    }

    fn look(&mut self, call: u64, guard: &Guard) -> Outcome<bool> {
        let (look, left) = look_at(guard);
        let event = match left {
            0 => Event::Over { at: lab::monotonic_ns() },
            left => Event::Held { look, left },
        };
        self.record.write(call, event)?;
        Ok(left > 0)
    }
}

/// The moment before the look, and how much was left: so the guard vouched at least for their sum.
fn look_at(guard: &Guard) -> (u64, u64) {
    let look = lab::monotonic_ns();
    let left = guard.remaining().map_or(u64::MAX / 2, |left| left.as_nanos() as u64);
    (look, left)
}

/// On one line.
fn in_words(error: &lockkeeper::Error) -> String {
    format!("{:?} {error}", error.kind()).replace(['\n', '\r'], " ")
}

/// A process that comes when all is over and takes each key once, saying how long that took, in ms.
pub(crate) fn come_after(args: &[String]) -> Outcome {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let [url] = args else {
        return Err(Trouble::Failed(format!("not the command line of a latecomer: {args:?}")));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = Locks::builder().url(url).ttl(TTL).connect().await?;
        for key in (0..N_KEYS).map(worker::key) {
            let begun = Instant::now();
            let guard = locks.lock(&key).acquire_within(HANG / 2).await?;
            worker::say(&begun.elapsed().as_millis().to_string())?;
            guard.release().await?;
        }
        Ok(())
    })
}
