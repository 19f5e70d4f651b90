//! One task that takes and releases one key in memory: what the core costs without an engine.

use std::time::{Duration, Instant};

use lockkeeper::{Locks, blocking};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
};

use crate::{
    Result,
    file::{by_facade, dropped, released},
    table::{Cycles, Order, Pin, Variant, Verdict, measure as measure_table},
};

pub(crate) fn measure(order: &Order) -> Result<Verdict> {
    let _pin = Pin::new()?;
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let mutex = Mutex::new(());
    let locks = runtime.block_on(Locks::connect("memory:"))?;
    let facade = blocking::Locks::connect("memory:")?;
    let variants = vec![
        Variant::new("tokio::sync::Mutex", |n_cycles| Ok(on_mutex(&runtime, &mutex, n_cycles))),
        Variant::new("Lockkeeper, guard dropped", |n_cycles| dropped(&runtime, &locks, n_cycles)),
        Variant::new("Lockkeeper, release().await", |n_cycles| {
            released(&runtime, &locks, n_cycles)
        }),
        Variant::new("Lockkeeper, blocking facade", |n_cycles| by_facade(&facade, n_cycles)),
    ];
    let title = "memory: one task, one key, nobody else (pinned to one core)";
    measure_table(title, order, &Cycles::For(Duration::from_millis(4)), variants, &[])
}

fn on_mutex(runtime: &Runtime, mutex: &Mutex<()>, n_cycles: u32) -> Duration {
    runtime.block_on(async {
        let begun_at = Instant::now();
        for _ in 0..n_cycles {
            drop(std::hint::black_box(mutex.lock().await));
        }
        begun_at.elapsed()
    })
}
