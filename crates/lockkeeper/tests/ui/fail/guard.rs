//! Guards of the wrong kind, and a caller who passes one.

use lockkeeper::{Locks, Result, blocking, locked};

mod own {
    pub struct Guard;
}

#[locked(key = "a", locks = locks, busy = fail)]
async fn blocking_in_async(locks: &Locks, guard: &blocking::Guard) -> Result<u64> {
    Ok(guard.fence())
}

#[locked(key = "a", locks = locks, busy = fail)]
fn not_ours(locks: &Locks, _guard: &own::Guard) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail)]
fn right(locks: &Locks, guard: &lockkeeper::Guard) -> Result<u64> {
    Ok(guard.fence())
}

fn passes_a_guard(locks: &Locks, guard: &lockkeeper::Guard) -> Result<u64> {
    right(locks, guard)
}

fn main() {}
