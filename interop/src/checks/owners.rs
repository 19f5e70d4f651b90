//! Who no longer holds a lock cannot unlock it for the one who does.

use lab::wait_until;

use super::ensure;
use crate::{Result, yard::Yard};

pub(super) fn their_late_unlock(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    worker.expect(&format!("try {key} 1000"), "held")?;
    yard.wait_until_free(&key)?;
    let guard = locks.lock(&key).try_acquire()?.ok_or("their lease is over, and we cannot lock")?;
    let answer = if yard.client.refuses { "refused" } else { "free" };
    worker.expect(&format!("unlock {key}"), answer)?;
    let other = yard.locks()?;
    ensure(other.lock(&key).try_acquire()?.is_none(), "they have unlocked what is ours")?;
    ensure(guard.is_held(), "our lock is lost")?;
    Ok(guard.release()?)
}

pub(super) fn our_late_release(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    let guard = locks.lock(&key).try_acquire()?.ok_or("a new key is busy")?;
    yard.take_away(&key)?;
    worker.expect(&format!("try {key} 600000"), "held")?;
    // Whether it says that the lock was lost is for our own tests to check.
    drop(guard.release());
    let other = yard.locks()?;
    ensure(other.lock(&key).try_acquire()?.is_none(), "we have unlocked what is theirs")?;
    worker.expect(&format!("unlock {key}"), "free")
}

pub(super) fn their_force(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    let ttl = std::time::Duration::from_secs(6);
    let guard = locks.lock(&key).ttl(ttl).try_acquire()?.ok_or("a new key is busy")?;
    worker.expect(&format!("force {key}"), "free")?;
    worker.expect(&format!("try {key} 600000"), "held")?;
    wait_until("our guard knows of its loss", || Ok(!guard.is_held()))?;
    drop(guard);
    let other = yard.locks()?;
    ensure(other.lock(&key).try_acquire()?.is_none(), "we have unlocked what is theirs")?;
    worker.expect(&format!("unlock {key}"), "free")
}
