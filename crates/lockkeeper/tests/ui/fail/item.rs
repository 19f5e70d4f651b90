//! What cannot be locked.

use std::{future::Future, pin::Pin};

use lockkeeper::{Guard, Locks, Result, locked};

#[locked(key = "a", locks = LOCKS, busy = fail)]
struct Order;

#[locked(key = "a", locks = locks, busy = fail)]
const fn constant(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail)]
extern "C" fn foreign(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "a", locks = locks, busy = fail)]
async fn no_answer(locks: &Locks) {}

#[locked(key = "a", locks = locks, busy = fail)]
fn unit(locks: &Locks) -> () {}

#[locked(key = "a", locks = locks, busy = fail)]
fn future(locks: &Locks) -> impl Future<Output = Result<()>> {
    async { Ok(()) }
}

#[locked(key = "a", locks = locks, busy = fail)]
fn boxed(locks: &Locks) -> Pin<Box<dyn Future<Output = Result<()>>>> {
    Box::pin(async { Ok(()) })
}

#[locked(key = "a", locks = locks, busy = fail)]
async fn two_guards(locks: &Locks, one: &Guard, two: &Guard) -> Result<()> {
    Ok(())
}

trait Settle {
    #[locked(key = "a", locks = locks, busy = fail)]
    async fn no_body(locks: &Locks) -> Result<()>;
}

fn main() {}
