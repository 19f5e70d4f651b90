//! One at a time, and the same one twice.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use lockkeeper::blocking::Locks;

use super::ensure;
use crate::{Result, worker::Worker, yard::Yard};

pub(super) fn theirs_keeps_us_out(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    worker.expect(&format!("try {key} 600000"), "held")?;
    ensure(locks.lock(&key).try_acquire()?.is_none(), "we hold what they hold")?;
    worker.expect(&format!("unlock {key}"), "free")?;
    let guard = locks.lock(&key).try_acquire()?.ok_or("they unlocked, and we cannot lock")?;
    Ok(guard.release()?)
}

pub(super) fn ours_keeps_them_out(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    let guard = locks.lock(&key).try_acquire()?.ok_or("a new key is busy")?;
    worker.expect(&format!("try {key} 600000"), "busy")?;
    guard.release()?;
    worker.expect(&format!("try {key} 600000"), "held")?;
    worker.expect(&format!("unlock {key}"), "free")
}

pub(super) fn they_enter_twice(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    worker.expect(&format!("try {key} 600000"), "held")?;
    worker.expect(&format!("try {key} 600000"), "held")?;
    worker.expect(&format!("unlock {key}"), "free")?;
    ensure(locks.lock(&key).try_acquire()?.is_none(), "we hold what they unlocked once of twice")?;
    worker.expect(&format!("unlock {key}"), "free")?;
    ensure(locks.lock(&key).try_acquire()?.is_some(), "they unlocked twice, and we cannot lock")
}

pub(super) fn we_enter_twice(yard: &Yard<'_>) -> Result<()> {
    let (key, locks, mut worker) = (yard.key(), yard.locks()?, yard.worker()?);
    let owner = locks.owner();
    let outer = owner.lock(&key).try_acquire()?.ok_or("a new key is busy")?;
    let inner = owner.lock(&key).try_acquire()?.ok_or("we cannot enter twice")?;
    inner.release()?;
    worker.expect(&format!("try {key} 600000"), "busy")?;
    outer.release()?;
    worker.expect(&format!("try {key} 600000"), "held")
}

const N_TURNS: usize = 10;

/// What is seen by those who believe to be alone.
#[derive(Default)]
struct Room {
    is_taken: AtomicBool,
    n_overlaps: AtomicUsize,
    n_turns: AtomicUsize,
}

impl Room {
    fn visit(&self) {
        if self.is_taken.swap(true, Ordering::SeqCst) {
            self.n_overlaps.fetch_add(1, Ordering::SeqCst);
        }
        thread::yield_now();
        self.n_turns.fetch_add(1, Ordering::SeqCst);
        self.is_taken.store(false, Ordering::SeqCst);
    }
}

pub(super) fn a_crowd_takes_turns(yard: &Yard<'_>) -> Result<()> {
    let (key, room) = (yard.key(), Room::default());
    let (ours, theirs) = ([yard.locks()?, yard.locks()?], [yard.worker()?, yard.worker()?]);
    thread::scope(|scope| {
        let (key, room) = (&key, &room);
        let ours = ours.map(|locks| scope.spawn(move || our_turns(&locks, key, room)));
        let theirs = theirs.map(|worker| scope.spawn(move || their_turns(worker, key, room)));
        for visitor in ours.into_iter().chain(theirs) {
            visitor.join().map_err(|_| "a visitor panicked")??;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })?;
    let n_overlaps = room.n_overlaps.into_inner();
    ensure(n_overlaps == 0, format!("{n_overlaps} times two were in at once"))?;
    let n_turns = room.n_turns.into_inner();
    ensure(n_turns == 4 * N_TURNS, format!("{n_turns} turns in place of {}", 4 * N_TURNS))
}

fn our_turns(locks: &Locks, key: &str, room: &Room) -> Result<()> {
    for _ in 0..N_TURNS {
        let guard = locks.lock(key).acquire()?;
        room.visit();
        guard.release()?;
    }
    Ok(())
}

fn their_turns(mut worker: Worker, key: &str, room: &Room) -> Result<()> {
    for _ in 0..N_TURNS {
        // Long enough for a turn on a slow machine, and for python-redis-lock also the time after
        // which a waiter that nobody told asks again.
        worker.expect(&format!("wait {key} 5000"), "held")?;
        room.visit();
        worker.expect(&format!("unlock {key}"), "free")?;
    }
    Ok(())
}
