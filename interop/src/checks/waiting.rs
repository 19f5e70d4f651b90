//! Those who wait are let in, and woken where the wire has a message for that.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::ensure;
use crate::{
    Result,
    worker::{PATIENCE, Worker},
    yard::Yard,
};

/// Time for somebody to begin to wait. Who comes later finds the lock free, which does no harm.
const A_MOMENT: Duration = Duration::from_millis(300);

/// So often, so that those who are not woken take much longer than [`QUICK`]: we ask again after 10
/// seconds, they when the lease is over.
const N_ROUNDS: usize = 4;
const QUICK: Duration = Duration::from_secs(20);

pub(super) fn their_unlock_lets_us_in(yard: &Yard<'_>) -> Result<()> {
    let (key, mut worker) = (yard.key(), yard.worker()?);
    their_unlock(yard, &key, &mut worker, || Ok(()))
}

pub(super) fn their_message_wakes_us(yard: &Yard<'_>) -> Result<()> {
    let mut worker = yard.worker()?;
    let began = Instant::now();
    for _ in 0..N_ROUNDS {
        let key = yard.key();
        their_unlock(yard, &key, &mut worker, || yard.wait_for_listener(&key))?;
    }
    ensure(began.elapsed() < QUICK, "nobody woke us")
}

fn their_unlock(
    yard: &Yard<'_>,
    key: &str,
    worker: &mut Worker,
    is_waited: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let locks = yard.locks()?;
    worker.expect(&format!("try {key} 600000"), "held")?;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| locks.lock(key).acquire_within(PATIENCE));
        is_waited()?;
        thread::sleep(A_MOMENT);
        ensure(!waiter.is_finished(), "we hold what they hold")?;
        worker.expect(&format!("unlock {key}"), "free")?;
        let guard = waiter.join().map_err(|_| "our waiter panicked")??;
        Ok(guard.release()?)
    })
}

pub(super) fn our_release_lets_them_in(yard: &Yard<'_>) -> Result<()> {
    let (key, mut worker) = (yard.key(), yard.worker()?);
    our_release(yard, &key, &mut worker, || Ok(()))
}

pub(super) fn our_message_wakes_them(yard: &Yard<'_>) -> Result<()> {
    let mut worker = yard.worker()?;
    let began = Instant::now();
    for _ in 0..N_ROUNDS {
        let key = yard.key();
        our_release(yard, &key, &mut worker, || yard.wait_for_listener(&key))?;
    }
    ensure(began.elapsed() < QUICK, "nobody woke them")
}

fn our_release(
    yard: &Yard<'_>,
    key: &str,
    worker: &mut Worker,
    is_waited: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let guard = yard.locks()?.lock(key).try_acquire()?.ok_or("a new key is busy")?;
    // The time after which a waiter of python-redis-lock that nobody told asks again.
    let wait = format!("wait {key} 5000");
    worker.say(&wait)?;
    is_waited()?;
    thread::sleep(A_MOMENT);
    ensure(guard.is_held(), "our lock is lost")?;
    guard.release()?;
    worker.expect_answer(&wait, "held")
}
