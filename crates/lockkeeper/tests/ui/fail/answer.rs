//! Answers that cannot say that the lock was not had.

use std::fmt;

use lockkeeper::{Locks, Result, locked};

#[locked(key = "a", locks = locks, busy = fail)]
async fn number(locks: &Locks) -> u32 {
    1
}

#[locked(key = "a", locks = locks, busy = fail)]
fn text(locks: &Locks) -> Option<String> {
    None
}

#[locked(key = "a", locks = locks, busy = fail)]
async fn foreign_error(locks: &Locks) -> std::result::Result<(), fmt::Error> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = skip)]
async fn no_option(locks: &Locks) -> Result<u32> {
    Ok(1)
}

fn main() {}
