//! Two workers settle the same invoices; each invoice is settled by one of them at a time, and a
//! ledger that checks fences refuses whoever comes late.
#![allow(clippy::print_stdout, reason = "an example shows something")]

use std::{collections::HashMap, sync::Mutex};

use lockkeeper::{Locks, Result};

/// What the lock protects. It remembers the largest fence it has seen per invoice.
#[derive(Default)]
struct Ledger(Mutex<HashMap<u32, u64>>);

impl Ledger {
    fn settle(&self, invoice: u32, fence: u64) -> bool {
        let mut seen = self.0.lock().expect("no thread panics with the ledger");
        let last = seen.entry(invoice).or_default();
        let in_time = fence > *last;
        *last = fence.max(*last);
        in_time
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = Locks::connect("memory:").await?;
    let ledger = Ledger::default();
    let worker = async |name: &'static str| -> Result<()> {
        for invoice in 0..3 {
            let guard = locks.lock(&format!("invoice:{invoice}")).acquire().await?;
            assert!(ledger.settle(invoice, guard.fence()));
            println!("{name} settled {invoice} with fence {}", guard.fence());
            guard.release().await?;
        }
        Ok(())
    };
    let (a, b) = tokio::join!(worker("a"), worker("b"));
    a.and(b)?;
    // A worker that was asleep for too long comes with an old fence.
    assert!(!ledger.settle(0, 1));
    Ok(())
}
