//! A process that holds thousands of keys, and one that waits for thousands: what doing nothing costs.

use std::{env, io::Read, process::Command, thread, time::Duration};

use lab::{Folder, Process};
use lockkeeper::Locks;
use nix::sys::{
    prctl,
    resource::{Resource, getrlimit, setrlimit},
    signal::Signal,
};

use crate::{
    crew::HANG,
    settings::Settings,
    trouble::{Outcome, Trouble, ensure},
    worker,
};

/// The most that a thousand idle holds may use, in hundredths of a core.
const MOST_FOR_HOLDS: f64 = 1.0;
/// The same for a thousand keys that are waited for.
const MOST_FOR_WAITS: f64 = 3.0;
/// The kernel counts processor time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// More than there are threads for, so that both ways of waiting are seen.
const N_KEYS: u32 = 3_000;
/// For so many, each hold costs most: with more, each is checked less often.
const N_FEWER: u32 = 1_000;
/// So many keys have a thread each that waits for them.
const N_WITH_THREAD: u32 = 900;

pub(crate) fn prove(settings: &Settings) -> Outcome {
    let folder = Folder::new()?;
    let url = format!("file://{}", folder.path().display());
    let length = settings.count(Duration::from_secs(30), Duration::from_secs(10));
    drop(observe("hold", &url, N_FEWER, length, MOST_FOR_HOLDS)?);
    let _holds = observe("hold", &url, N_KEYS, length, MOST_FOR_HOLDS)?;
    let few = observe("wait for", &url, N_WITH_THREAD, length, MOST_FOR_WAITS)?;
    drop(few);
    observe("wait for", &url, N_KEYS, length, MOST_FOR_WAITS).map(drop)
}

/// Lets a process do nothing but this for so many keys, and looks at what it uses.
fn observe(what: &str, url: &str, n_keys: u32, length: Duration, most: f64) -> Outcome<Process> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["idler", what, url, &n_keys.to_string()]);
    let mut idler = Process::start(command)?;
    let said = idler.hear(HANG).map_err(Trouble::violated(format_args!("to {what} {n_keys}")))?;
    ensure!(said == "ready", "the process that should {what} {n_keys} keys said {said:?}");
    // What it does on coming is not idling.
    thread::sleep(Duration::from_secs(2));
    let before = lab::usage::cpu_ticks(idler.id())?;
    thread::sleep(length);
    let n_ticks = lab::usage::cpu_ticks(idler.id())? - before;
    let used = TICK.as_secs_f64() * n_ticks as f64 / length.as_secs_f64();
    let per_thousand = 100.0 * used / f64::from(n_keys) * 1000.0;
    println!(
        "  a process that does nothing but {what} {n_keys} keys: {per_thousand:.2} % of a core for \
         each 1,000 of them ({n_ticks} ticks in {length:?}; at most {most} %)"
    );
    let is_idle = per_thousand < most;
    ensure!(is_idle, "to {what} 1,000 keys costs {per_thousand:.2} % of a core");
    Ok(idler)
}

/// A process: holds or waits for so many keys until its input ends.
pub(crate) fn work(args: &[String]) -> Outcome {
    // Whatever happens to the proof, nobody is left behind.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let [what, url, n_keys] = args else {
        return Err(Trouble::Failed(format!("not the command line of an idler: {args:?}")));
    };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = Locks::connect(url).await?;
        let mut guards = Vec::new();
        for number in 0..n_keys.parse()? {
            let lock = locks.lock(&worker::key(number));
            if what == "hold" {
                guards.push(lock.acquire().await?);
            } else {
                tokio::spawn(async move { lock.acquire().await });
                tokio::task::yield_now().await;
            }
        }
        println!("ready");
        tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await??;
        Ok(())
    })
}
