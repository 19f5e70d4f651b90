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

/// Whom nobody wakes, asks again: we after a second, they when the lease of 30 seconds is over. The
/// less there is between the two, the more rounds, so that a slow moment of the machine does not count.
const N_ROUNDS_OF_OURS: usize = 9;
const N_ROUNDS_OF_THEIRS: usize = 3;
const WE_ARE_WOKEN_WITHIN: Duration = Duration::from_millis(500);
const THEY_ARE_WOKEN_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn their_unlock_lets_us_in(yard: &Yard<'_>) -> Result<()> {
    their_unlock(yard, &yard.key(), &mut yard.worker()?, wait_a_moment).map(drop)
}

pub(super) fn our_release_lets_them_in(yard: &Yard<'_>) -> Result<()> {
    our_release(yard, &yard.key(), &mut yard.worker()?, wait_a_moment).map(drop)
}

pub(super) fn their_message_wakes_us(yard: &Yard<'_>) -> Result<()> {
    let mut worker = yard.worker()?;
    let usual = usual(N_ROUNDS_OF_OURS, || {
        let key = yard.key();
        their_unlock(yard, &key, &mut worker, || yard.wait_for_listener(&key))
    })?;
    ensure(usual < WE_ARE_WOKEN_WITHIN, format!("we come in {usual:?} after their unlock"))
}

pub(super) fn our_message_wakes_them(yard: &Yard<'_>) -> Result<()> {
    let mut worker = yard.worker()?;
    let usual = usual(N_ROUNDS_OF_THEIRS, || {
        let key = yard.key();
        our_release(yard, &key, &mut worker, || yard.wait_for_listener(&key))
    })?;
    ensure(usual < THEY_ARE_WOKEN_WITHIN, format!("they come in {usual:?} after our release"))
}

/// What half of the rounds do not exceed.
fn usual(n_rounds: usize, mut round: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut times = (0..n_rounds).map(|_| round()).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[n_rounds / 2])
}

/// Time to begin to wait, where that cannot be seen. Who comes later finds the lock free, which does
/// no harm.
fn wait_a_moment() -> Result<()> {
    thread::sleep(Duration::from_millis(300));
    Ok(())
}

/// How long after their unlock we come in.
fn their_unlock(
    yard: &Yard<'_>,
    key: &str,
    worker: &mut Worker,
    until_we_wait: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    let locks = yard.locks()?;
    worker.expect(&format!("try {key} 600000"), "held")?;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = locks.lock(key).acquire_within(PATIENCE);
            (guard, Instant::now())
        });
        until_we_wait()?;
        ensure(!waiter.is_finished(), "we hold what they hold")?;
        worker.expect(&format!("unlock {key}"), "free")?;
        let unlocked = Instant::now();
        let (guard, entered) = waiter.join().map_err(|_| "our waiter panicked")?;
        guard?.release()?;
        Ok(entered.saturating_duration_since(unlocked))
    })
}

/// How long after our release they come in.
fn our_release(
    yard: &Yard<'_>,
    key: &str,
    worker: &mut Worker,
    until_they_wait: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    let guard = yard.locks()?.lock(key).try_acquire()?.ok_or("a new key is busy")?;
    // The time after which a waiter of python-redis-lock that nobody told asks again.
    let wait = format!("wait {key} 5000");
    worker.say(&wait)?;
    until_they_wait()?;
    ensure(guard.is_held(), "our lock is lost")?;
    guard.release()?;
    let released = Instant::now();
    worker.expect_answer(&wait, "held")?;
    Ok(released.elapsed())
}
