//! Options that are missing, unknown, doubled or wrong.

use lockkeeper::{Locks, Result, locked};

#[locked]
async fn nothing(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", busy = fail)]
async fn no_locks(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks)]
async fn no_choice(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, timeout = "5s")]
async fn unknown(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, key = "b")]
async fn twice(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, ttl = "99ms")]
async fn short(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, ttl = "25h")]
async fn long(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, ttl = 30)]
async fn number(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, maximum_hold = "soon")]
async fn soon(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail, barging = true)]
async fn barging(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key, locks = locks, busy = fail)]
async fn no_value(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a" locks = locks, busy = fail)]
async fn no_comma(locks: &Locks) -> Result<()> {
    Ok(())
}

// Every fault is reported, not only the first, and the function still exists for its callers.
#[locked(key = "", busy = perhaps, ttl = "1ms")]
async fn several(locks: &Locks) -> Result<()> {
    Ok(())
}

async fn calls(locks: &Locks) -> Result<()> {
    several(locks).await
}

fn main() {}
