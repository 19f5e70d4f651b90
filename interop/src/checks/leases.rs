//! Leases that are renewed, and leases that run out.

use std::time::Duration;

use super::ensure;
use crate::{
    Result,
    client::{Language, Renewal},
    worker::PATIENCE,
    yard::Yard,
};

/// Of a lock whose holder dies: long enough to be seen busy before it is over.
const LAST_LEASE_MS: u64 = 5000;

pub(super) fn theirs_is_renewed(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    match yard.client.renewal {
        Renewal::ByItself { lease, every } => {
            worker.expect(&format!("try {key} renewed"), "held")?;
            let first = yard.left_ms(&key)?.ok_or("no lease")?;
            ensure((lease / 2..=lease).contains(&first), format!("{first} ms and not {lease}"))?;
            let least = yard.wait_for_renewal(&key)?;
            ensure(least > (lease - every) / 2, format!("renewed when {least} ms were left"))?;
        }
        Renewal::ByHand | Renewal::None => {
            worker.expect(&format!("try {key} 10000"), "held")?;
            worker.expect(&format!("extend {key} 600000"), "held")?;
            let left = yard.left_ms(&key)?.ok_or("no lease")?;
            ensure(left > 10_000, format!("after an extension {left} ms are left"))?;
        }
    }
    ensure(locks.lock(&key).try_acquire()?.is_none(), "we hold what they hold")?;
    worker.expect(&format!("unlock {key}"), "free")
}

pub(super) fn ours_is_renewed(yard: &Yard<'_>) -> Result<()> {
    const TTL_MS: u64 = 6000;
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    let ttl = Duration::from_millis(TTL_MS);
    let guard = locks.lock(&key).ttl(ttl).try_acquire()?.ok_or("a new key is busy")?;
    for _ in 0..3 {
        yard.wait_for_renewal(&key)?;
    }
    worker.expect(&format!("try {key} 5000"), "busy")?;
    if yard.client.language == Language::Java {
        let left: u64 = worker.ask(&format!("left {key}"))?.parse()?;
        ensure((1..=TTL_MS).contains(&left), format!("they see {left} ms left"))?;
    }
    ensure(guard.is_held(), "our lock is lost")?;
    Ok(guard.release()?)
}

pub(super) fn their_holder_dies(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    let lease = match yard.client.renewal {
        Renewal::ByItself { .. } => "renewed".into(),
        Renewal::ByHand | Renewal::None => LAST_LEASE_MS.to_string(),
    };
    worker.expect(&format!("try {key} {lease}"), "held")?;
    worker.kill()?;
    ensure(locks.lock(&key).try_acquire()?.is_none(), "a lease is over with its process")?;
    Ok(locks.lock(&key).acquire_within(PATIENCE)?.release()?)
}

pub(super) fn our_holder_dies(yard: &Yard<'_>) -> Result<()> {
    let (key, mut worker) = (yard.key(), yard.worker()?);
    let mut holder = yard.holder(&key, LAST_LEASE_MS)?;
    holder.kill()?;
    worker.expect(&format!("try {key} 5000"), "busy")?;
    worker.expect(&format!("wait {key} 5000"), "held")
}
