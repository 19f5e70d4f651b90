//! Locks that are none, or of the wrong kind.

use lockkeeper::{Locks, Result, blocking, locked};

#[locked(key = "a", locks = name, busy = fail)]
async fn text(name: &str) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail)]
async fn would_block(locks: &blocking::Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = lock, busy = fail)]
async fn misspelt(locks: &Locks) -> Result<()> {
    Ok(())
}

fn main() {}
