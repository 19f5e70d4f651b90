//! One who takes turns under locks until its time is over: a task, or a process of its own.

use std::{
    io,
    time::{Duration, Instant},
};

use lockkeeper::Locks;
use nix::sys::{prctl, signal::Signal};

use super::{broken, witness::Visitor};
use crate::{
    trouble::{Outcome, Trouble, ensure},
    worker,
};

/// Takes turns under keys chosen at random; answers how many it had.
pub(crate) async fn take_turns(
    locks: &Locks,
    witness: &mut Visitor,
    n_keys: u32,
    mut random: fastrand::Rng,
    length: Duration,
) -> Outcome<u64> {
    let ends_at = Instant::now() + length;
    let mut n_turns = 0;
    loop {
        let key = worker::key(random.u32(..n_keys));
        let guard = locks.lock(&key).acquire().await.map_err(|error| broken(&error))?;
        let fence = guard.fence();
        let count = witness.enter(&key, fence).await?;
        witness.leave(&key, fence, count + 1).await?;
        n_turns += 1;
        let is_last = Instant::now() >= ends_at;
        // What is dropped last might not be given back before the process ends.
        if is_last || random.bool() {
            guard.release().await.map_err(|error| broken(&error))?;
        }
        if is_last {
            return Ok(n_turns);
        }
    }
}

/// The command line of a contender that is a process.
pub(crate) fn args(url: &str, witness: u16, number: u32) -> [String; 4] {
    ["contender".into(), url.into(), witness.to_string(), number.to_string()]
}

/// A process: says that it is ready, is told for how many seconds, and says how many turns it had.
pub(crate) fn work(args: &[String]) -> Outcome {
    // Whatever happens to the proof, no contender is left behind.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let [url, witness, number] = args else {
        return Err(Trouble::Failed(format!("not the command line of a contender: {args:?}")));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = Locks::connect(url).await?;
        let mut witness = Visitor::connect(witness.parse()?).await?;
        let random = fastrand::Rng::with_seed(number.parse()?);
        worker::say("ready")?;
        let mut length = String::new();
        ensure!(io::stdin().read_line(&mut length)? > 0, "nobody said for how long");
        let length = Duration::from_secs(length.trim().parse()?);
        let n_turns = take_turns(&locks, &mut witness, 1, random, length).await?;
        worker::say(&n_turns.to_string())
    })
}
