//! One hot key: many tasks of one process, each with an await while it holds the lock.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lab::Folder;
use lockkeeper::Locks;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
    task::{JoinHandle, yield_now},
};

use crate::{
    Result,
    table::{Cycles, Demand, Order, Variant, Verdict, measure as measure_table},
};

const N_TASKS: u32 = 64;
const MUTEX: &str = "tokio::sync::Mutex";
const FILE: &str = "Lockkeeper, file";
const MEMORY: &str = "Lockkeeper, memory";

pub(crate) fn measure(order: &Order) -> Result<Verdict> {
    let folder = Folder::new()?;
    let file_system = lab::file_system(folder.path())?;
    // The first two as `#[tokio::main]` makes them. One that can do no I/O has less to do between
    // two turns, so there the lock itself weighs more: shown, but nothing is asked of it.
    let current = Builder::new_current_thread().enable_all().build()?;
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let bare = Builder::new_current_thread().build()?;
    let demand = Demand { variant: FILE, against: MUTEX, at_least: 0.7 };
    let runtimes = [
        ("current_thread", current, vec![demand]),
        ("multi_thread(2)", multi, vec![demand]),
        ("current_thread without I/O", bare, vec![]),
    ];
    let mut verdict = Verdict::Met;
    for (number, (flavour, runtime, demands)) in runtimes.into_iter().enumerate() {
        let mutex = Arc::new(Mutex::new(()));
        let file = runtime.block_on(Locks::connect(&folder.url(&number.to_string())))?;
        let memory = runtime.block_on(Locks::connect("memory:"))?;
        let variants = vec![
            Variant::new(MUTEX, |n_turns| on_mutex(&runtime, &mutex, n_turns)),
            Variant::new(FILE, |n_turns| on_locks(&runtime, &file, n_turns)),
            Variant::new(MEMORY, |n_turns| on_locks(&runtime, &memory, n_turns)),
        ];
        let title =
            format!("hot: one key, {N_TASKS} tasks, an await inside ({file_system}, {flavour})");
        verdict = verdict.and(measure_table(
            &title,
            order,
            &Cycles::For(Duration::from_millis(20)),
            variants,
            &demands,
        )?);
    }
    Ok(verdict)
}

fn on_mutex(runtime: &Runtime, mutex: &Arc<Mutex<()>>, n_turns: u32) -> Result<Duration> {
    together(runtime, n_turns, |n_turns| {
        let mutex = Arc::clone(mutex);
        tokio::spawn(async move {
            for _ in 0..n_turns {
                let guard = mutex.lock().await;
                yield_now().await;
                drop(guard);
            }
            Ok(())
        })
    })
}

fn on_locks(runtime: &Runtime, locks: &Locks, n_turns: u32) -> Result<Duration> {
    together(runtime, n_turns, |n_turns| {
        let lock = locks.lock("hot");
        tokio::spawn(async move {
            for _ in 0..n_turns {
                let guard = lock.acquire().await?;
                yield_now().await;
                drop(guard);
            }
            Ok(())
        })
    })
}

/// The turns, shared out among tasks that start as one.
fn together(
    runtime: &Runtime,
    n_turns: u32,
    task: impl Fn(u32) -> JoinHandle<lockkeeper::Result<()>>,
) -> Result<Duration> {
    runtime.block_on(async {
        let begun_at = Instant::now();
        let tasks: Vec<_> = (0..N_TASKS)
            .map(|number| task(n_turns / N_TASKS + u32::from(number < n_turns % N_TASKS)))
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(begun_at.elapsed())
    })
}
