//! `busy` that is no choice, or a wait without its length.

use lockkeeper::{Locks, Result, locked};

#[locked(key = "a", locks = locks, busy = panic)]
async fn unknown(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = "fail")]
async fn quoted(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = wait)]
async fn endless(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = wait(5))]
async fn five_what(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = wait("5 parsecs"))]
async fn parsecs(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = wait("0s"))]
async fn no_time(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = skip("5s"))]
async fn skips_slowly(locks: &Locks) -> Result<Option<()>> {
    Ok(Some(()))
}

fn main() {}
