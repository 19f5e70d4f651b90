//! One process that holds very many locks for a long time: none is lost, each is renewed once in each
//! interval, many in one command; and waiting beside it costs nothing.

use std::{
    fs, io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lab::redis::Server;
use lockkeeper::{Guard, Locks, event::Event};
use tokio::task::JoinSet;

use super::{
    broken,
    commands::Commands,
    renewed::{Listener, key},
    two_threads,
};
use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
};

const TTL: Duration = Duration::from_secs(10);
const N_CYCLES: usize = 10_000;
const N_TASKS: usize = 256;
const N_WAITING: usize = 1_000;
/// What renewing takes: a script, and two commands in it for each lock.
const RENEWING: [&str; 3] = ["evalsha", "get", "pexpire"];
/// What we use to look, and what a new connection begins with: the first renewal opens one.
const BESIDES: [&str; 7] =
    ["multi", "info", "publish", "exec", "hello", "subscribe", "script|load"];

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let server = Server::start()?;
    two_threads()?.block_on(async {
        let seen = Arc::new(Seen::default());
        let observer = Arc::clone(&seen);
        let told = move |event: &Event<'_>| observer.add(event);
        let locks = Locks::builder().url(&server.url()).ttl(TTL).observe(told).connect().await?;
        come_and_go(&locks).await?;
        let n_locks = settings.count(100_000, 10_000);
        let guards = take_all(&server, &locks, n_locks).await?;
        keep_all(&server, &guards, &seen, settings.count(120, 20)).await?;
        wait_beside(&server, guards.len(), &seen, settings.count(30, 10)).await?;
        give_all_back(guards).await?;
        println!("  none lost; {}", seen.check()?);
        Ok(())
    })
}

/// What the locks tell of themselves.
#[derive(Debug, Default)]
struct Seen {
    n_lost: AtomicU64,
    n_troubled: AtomicU64,
    first_loss: OnceLock<String>,
    first_trouble: OnceLock<String>,
}

impl Seen {
    fn add(&self, event: &Event<'_>) {
        match event {
            Event::Lost { key, loss } => {
                self.n_lost.fetch_add(1, Ordering::Relaxed);
                self.first_loss.get_or_init(|| format!("{key:?}: {loss}"));
            }
            Event::Troubled { error, .. } => {
                self.n_troubled.fetch_add(1, Ordering::Relaxed);
                self.first_trouble.get_or_init(|| error.to_string());
            }
            _ => {}
        }
    }

    /// Checks that none was lost; says how often the server did not answer in time, and what was told then.
    fn check(&self) -> Outcome<String> {
        let (n_lost, n_troubled) = (&self.n_lost, &self.n_troubled);
        let [n_lost, n_troubled] = [n_lost, n_troubled].map(|count| count.load(Ordering::SeqCst));
        let first = |text: &OnceLock<String>| text.get().cloned().unwrap_or_default();
        let (loss, trouble) = (first(&self.first_loss), first(&self.first_trouble));
        ensure!(
            n_lost == 0,
            "{n_lost} locks were lost, first {loss}; {n_troubled} times {trouble}"
        );
        let first = if trouble.is_empty() { trouble } else { format!(", the first: {trouble}") };
        Ok(format!("{n_troubled} calls had to be repeated{first}"))
    }
}

/// Locks that come and go before leave nothing behind that renews.
async fn come_and_go(locks: &Locks) -> Outcome {
    let mut tasks = JoinSet::new();
    for task in 0..N_TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            for cycle in (task..N_CYCLES).step_by(N_TASKS) {
                let guard = locks.lock(&key(cycle)).acquire().await?;
                if cycle % 2 == 0 {
                    guard.release().await?;
                }
            }
            Ok(())
        });
    }
    all(tasks).await.map(drop)
}

async fn take_all(server: &Server, locks: &Locks, n_locks: usize) -> Outcome<Vec<Guard>> {
    let (ours_before, theirs_before) = (resident_bytes()?, used_bytes(server)?);
    let begun_at = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..N_TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for number in (task..n_locks).step_by(N_TASKS) {
                guards.push(locks.lock(&key(number)).acquire().await?);
            }
            Ok(guards)
        });
    }
    let guards: Vec<Guard> = all(tasks).await?.into_iter().flatten().collect();
    let took = begun_at.elapsed();
    let per_lock = |before: u64, after: u64| after.saturating_sub(before) / n_locks as u64;
    println!(
        "  {n_locks} locks taken in {:.1} s after {N_CYCLES} cycles; {} bytes a lock here, {} in the \
         server",
        took.as_secs_f64(),
        per_lock(ours_before, resident_bytes()?),
        per_lock(theirs_before, used_bytes(server)?),
    );
    Ok(guards)
}

async fn keep_all(server: &Server, guards: &[Guard], seen: &Seen, seconds: u64) -> Outcome {
    let listener = Listener::start(server, guards.len())?;
    let (begun_at, ticks_before) = (Instant::now(), lab::usage::cpu_ticks(std::process::id())?);
    pass(seconds, seen).await?;
    let n_ticks = lab::usage::cpu_ticks(std::process::id())? - ticks_before;
    let length = begun_at.elapsed();
    let (tally, commands) = listener.end()?;
    check_all_held(guards)?;
    let (n_scripts, n_renewals) = (commands.of("evalsha"), commands.of("pexpire"));
    let ([fewest, most], [shortest, longest]) = tally.check(TTL / 3, length)?;
    println!(
        "  held for {:.0} s: {n_renewals} renewals, {fewest} to {most} of each lock, {:.2} to {:.2} s \
         apart; {:.0} commands a second, {:.0} renewals in each; {n_ticks} ticks of processor time here",
        length.as_secs_f64(),
        shortest.as_secs_f64(),
        longest.as_secs_f64(),
        n_scripts as f64 / length.as_secs_f64(),
        n_renewals as f64 / n_scripts as f64,
    );
    ensure!(tally.n_strangers == 0, "{} renewals of what is not held", tally.n_strangers);
    ensure!(
        n_renewals == tally.n_renewals(),
        "the server counts {n_renewals} renewals, but tells of {}",
        tally.n_renewals()
    );
    ensure!(n_renewals >= 10 * n_scripts, "{n_scripts} scripts for {n_renewals} renewals");
    ensure!(n_others(&commands) == 0, "more than renewals: {commands:?}");
    Ok(())
}

/// Lets time pass in which nothing may be lost.
async fn pass(seconds: u64, seen: &Seen) -> Outcome {
    let ends_at = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < ends_at {
        tokio::time::sleep(Duration::from_millis(200)).await;
        seen.check()?;
    }
    Ok(())
}

/// Tasks that wait for a key that somebody else holds.
async fn wait_beside(server: &Server, n_locks: usize, seen: &Seen, seconds: u64) -> Outcome {
    const KEY: &str = "busy";
    let holder = Locks::connect(&server.url()).await?;
    let waiting = Locks::connect(&server.url()).await?;
    let guard = holder.lock(KEY).ttl(TTL).acquire().await.map_err(|error| broken(&error))?;
    let mut tasks = JoinSet::new();
    for _ in 0..N_WAITING {
        let lock = waiting.lock(KEY);
        tasks.spawn(async move { lock.acquire().await?.release().await });
    }
    // What they do on coming is not waiting.
    tokio::time::sleep(TTL / 2).await;
    let listener = Listener::start(server, n_locks)?;
    pass(seconds, seen).await?;
    let (_, commands) = listener.end()?;
    let n_others = n_others(&commands);
    println!(
        "  {N_WAITING} tasks waiting beside it for {seconds} s: {} commands a second, and {n_others} \
         in all that are no renewals",
        commands.of("evalsha") / seconds,
    );
    // Their place is confirmed once a second, with four commands in a script, and the lock that they
    // wait for takes two more to renew; each task asking once would be a thousand.
    let most = 6 * seconds + 10;
    ensure!(n_others <= most, "{n_others} commands by those who wait, not {most}: {commands:?}");
    guard.release().await.map_err(|error| broken(&error))?;
    all(tasks).await.map(drop)
}

/// How many commands had nothing to do with renewals.
fn n_others(commands: &Commands) -> u64 {
    commands.besides(&[&RENEWING[..], &BESIDES].concat())
}

async fn give_all_back(guards: Vec<Guard>) -> Outcome {
    check_all_held(&guards)?;
    let mut tasks = JoinSet::new();
    let mut guards = guards.into_iter();
    let share = guards.len().div_ceil(N_TASKS);
    for _ in 0..N_TASKS {
        let share: Vec<Guard> = guards.by_ref().take(share).collect();
        tasks.spawn(async move {
            for guard in share {
                guard.release().await?;
            }
            Ok(())
        });
    }
    all(tasks).await.map(drop)
}

fn check_all_held(guards: &[Guard]) -> Outcome {
    let n_held = guards.iter().filter(|guard| guard.is_held()).count();
    ensure!(n_held == guards.len(), "{n_held} of {} are held", guards.len());
    Ok(())
}

/// Waits for all, of which none may fail.
async fn all<T: 'static>(mut tasks: JoinSet<lockkeeper::Result<T>>) -> Outcome<Vec<T>> {
    let mut answers = Vec::new();
    let in_time = tokio::time::timeout(HANG * 5, async {
        while let Some(ended) = tasks.join_next().await {
            answers.push(ended?.map_err(|error| broken(&error))?);
        }
        Ok::<_, Trouble>(())
    });
    let hangs = |_| Trouble::Violated("not all come to their end".into());
    in_time.await.map_err(hangs)??;
    Ok(answers)
}

fn used_bytes(server: &Server) -> Outcome<u64> {
    Ok(server.info("used_memory")?.parse()?)
}

/// The memory this process has.
fn resident_bytes() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))? * 1024)
}
