//! One task that takes and releases one key in a file.

use std::{
    fs::File,
    path::Path,
    time::{Duration, Instant},
};

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use lab::Folder;
use lockkeeper::{Locks, blocking};
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    Result,
    table::{Cycles, Demand, Order, Pin, Variant, Verdict, measure as measure_table},
};

const BARE: &str = "bare OFD lock and unlock";
const DROPPED: &str = "Lockkeeper, guard dropped";
const RELEASED: &str = "Lockkeeper, release().await";
const BLOCKING: &str = "Lockkeeper, blocking facade";
const DISTRIBUTED: &str = "distributed-lock-file 0.2";

pub(crate) fn measure(order: &Order) -> Result<Verdict> {
    let _pin = Pin::new()?;
    let folder = Folder::new()?;
    let file_system = lab::file_system(folder.path())?;
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let locks = runtime.block_on(Locks::connect(&folder.url("locks")))?;
    let facade = blocking::Locks::connect(&folder.url("locks"))?;
    let ofd = open(&folder.join("ofd"))?;
    let flock = open(&folder.join("flock"))?;
    let provider = distributed_lock_file::FileLockProvider::new(folder.join("distributed"))?;
    let variants = vec![
        Variant::new(BARE, |n_cycles| bare_ofd(&ofd, n_cycles)),
        Variant::new(DROPPED, |n_cycles| dropped(&runtime, &locks, n_cycles)),
        Variant::new(RELEASED, |n_cycles| released(&runtime, &locks, n_cycles)),
        Variant::new(BLOCKING, |n_cycles| by_facade(&facade, n_cycles)),
        Variant::new("bare flock(2), File::lock and unlock", |n_cycles| {
            bare_flock(&flock, n_cycles)
        }),
        Variant::new(DISTRIBUTED, |n_cycles| distributed(&runtime, &provider, n_cycles)),
    ];
    let mut demands = Vec::new();
    for variant in [DROPPED, RELEASED, BLOCKING] {
        demands.push(Demand { variant, against: BARE, at_least: 0.5 });
        demands.push(Demand { variant, against: DISTRIBUTED, at_least: 8.0 });
    }
    let title = format!("file: one task, one key, nobody else ({file_system}, pinned to one core)");
    measure_table(&title, order, &Cycles::For(Duration::from_millis(4)), variants, &demands)
}

fn open(path: &Path) -> Result<File> {
    Ok(File::options().read(true).write(true).create(true).truncate(false).open(path)?)
}

fn bare_ofd(file: &File, n_cycles: u32) -> Result<Duration> {
    let flock = |kind: i32| libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    let (take, give_back) = (flock(libc::F_WRLCK), flock(libc::F_UNLCK));
    let begun_at = Instant::now();
    for _ in 0..n_cycles {
        fcntl(file, FcntlArg::F_OFD_SETLK(&take))?;
        fcntl(file, FcntlArg::F_OFD_SETLK(&give_back))?;
    }
    Ok(begun_at.elapsed())
}

fn bare_flock(file: &File, n_cycles: u32) -> Result<Duration> {
    let begun_at = Instant::now();
    for _ in 0..n_cycles {
        file.lock()?;
        file.unlock()?;
    }
    Ok(begun_at.elapsed())
}

pub(crate) fn dropped(runtime: &Runtime, locks: &Locks, n_cycles: u32) -> Result<Duration> {
    runtime.block_on(async {
        let begun_at = Instant::now();
        for _ in 0..n_cycles {
            drop(locks.lock("dropped").acquire().await?);
        }
        Ok(begun_at.elapsed())
    })
}

pub(crate) fn released(runtime: &Runtime, locks: &Locks, n_cycles: u32) -> Result<Duration> {
    runtime.block_on(async {
        let begun_at = Instant::now();
        for _ in 0..n_cycles {
            locks.lock("released").acquire().await?.release().await?;
        }
        Ok(begun_at.elapsed())
    })
}

pub(crate) fn by_facade(locks: &blocking::Locks, n_cycles: u32) -> Result<Duration> {
    let begun_at = Instant::now();
    for _ in 0..n_cycles {
        locks.lock("facade").acquire()?.release()?;
    }
    Ok(begun_at.elapsed())
}

fn distributed(
    runtime: &Runtime,
    provider: &distributed_lock_file::FileLockProvider,
    n_cycles: u32,
) -> Result<Duration> {
    let lock = provider.create_lock("k");
    runtime.block_on(async {
        let begun_at = Instant::now();
        for _ in 0..n_cycles {
            lock.acquire(None).await?.release().await?;
        }
        Ok(begun_at.elapsed())
    })
}
