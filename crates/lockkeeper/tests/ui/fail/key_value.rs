//! Placeholders whose value does not exist or cannot be written.

use lockkeeper::{Locks, Result, locked};

struct Order {
    id: u64,
}

#[locked(key = "order:{order}", locks = locks, busy = fail)]
async fn no_text(locks: &Locks, order: &Order) -> Result<()> {
    assert!(order.id > 0);
    Ok(())
}

#[locked(key = "order:{order.number}", locks = locks, busy = fail)]
fn no_field(locks: &Locks, order: &Order) -> Result<()> {
    assert!(order.id > 0);
    Ok(())
}

fn main() {}
