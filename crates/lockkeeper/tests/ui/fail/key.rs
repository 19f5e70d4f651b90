//! Keys that could never be right.

use lockkeeper::{Guard, Locks, Result, locked};

struct Order {
    id: u64,
}

#[locked(key = "", locks = locks, busy = fail)]
async fn empty(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", locks = locks, busy = fail)]
async fn long(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{order.id", locks = locks, busy = fail)]
async fn unclosed(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:order.id}", locks = locks, busy = fail)]
async fn unopened(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{0}", locks = locks, busy = fail)]
async fn numbered(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{}", locks = locks, busy = fail)]
async fn unnamed(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{order id}", locks = locks, busy = fail)]
async fn not_an_expression(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{order.id(}", locks = locks, busy = fail)]
async fn unequal(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{order.id:width$}", locks = locks, busy = fail)]
async fn width_from_elsewhere(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{oder.id}", locks = locks, busy = fail)]
async fn misspelt(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{self.id}", locks = locks, busy = fail)]
async fn no_self(locks: &Locks, order: &Order) -> Result<()> {
    Ok(())
}

#[locked(key = "order:{guard.fence()}", locks = locks, busy = fail)]
async fn guard_too_early(locks: &Locks, guard: &Guard) -> Result<()> {
    Ok(())
}

const KEY: &str = "order";

#[locked(key = KEY, locks = locks, busy = fail)]
async fn not_a_literal(locks: &Locks) -> Result<()> {
    Ok(())
}

fn main() {}
