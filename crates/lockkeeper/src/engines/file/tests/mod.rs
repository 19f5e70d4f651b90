//! The engine on real folders, in one process.

mod numbers;
mod refusals;

use std::{path::Path, time::Duration};

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::{
    engine::{Attempt, Grant, OwnerId, Patience, Released, Standing},
    time::clock::Clock,
    tools::fork::holds_in_child,
};

const LONG: Duration = Duration::from_secs(3600);

fn engine(folder: &Path) -> FileEngine {
    engine_in_boot(folder, 1)
}

fn engine_in_boot(folder: &Path, boot: u128) -> FileEngine {
    FileEngine::new(Folder::open(folder).unwrap(), boot)
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn request(name: &str) -> Request {
    Request::new(key(name), OwnerId(u128::from(std::process::id())), LONG)
}

fn claim(engine: &FileEngine, name: &str) -> Box<dyn Claim> {
    engine.claim(request(name))
}

fn now() -> Moment {
    Clock::default().now()
}

fn attempt(claim: &mut Box<dyn Claim>) -> Option<Grant> {
    match block_on(claim.attempt(now())).unwrap() {
        Attempt::Granted(grant) => Some(grant),
        Attempt::Busy { .. } => None,
    }
}

fn wait(claim: &mut Box<dyn Claim>) -> Grant {
    loop {
        match attempt(claim) {
            Some(grant) => return grant,
            None => block_on(claim.changed()),
        }
    }
}

fn release(claim: &mut Box<dyn Claim>) {
    block_on(claim.release(now())).unwrap();
}

/// Takes the key, gives it back, and answers its fence.
fn pass(engine: &FileEngine, name: &str) -> u64 {
    grant_of(engine, name).fence
}

fn grant_of(engine: &FileEngine, name: &str) -> Grant {
    let mut claim = claim(engine, name);
    let grant = attempt(&mut claim).unwrap();
    release(&mut claim);
    grant
}

fn n_in_line(engine: &FileEngine, name: &str) -> usize {
    block_on(engine.who(&key(name), now())).unwrap().line.len()
}

#[test]
fn claims_of_one_engine_exclude_each_other_and_fences_rise() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let (mut one, mut other) = (claim(&engine, "k"), claim(&engine, "k"));
    let first = attempt(&mut one).unwrap();
    assert_eq!(attempt(&mut one), Some(first.clone()), "asking again changes nothing");
    assert_eq!(attempt(&mut other), None);
    release(&mut one);
    let second = attempt(&mut other).unwrap();
    assert!(second.fence >= first.fence + u64::from(first.n_fences));
    release(&mut one);
    assert_eq!(attempt(&mut one), None, "a second release frees nobody else's lock");
}

#[test]
fn a_claim_that_only_tries_does_not_stand_in_line() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut holder = claim(&engine, "k");
    attempt(&mut holder).unwrap();
    let mut hasty = request("k");
    hasty.patience = Patience::Tries;
    let mut hasty = engine.claim(hasty);
    assert_eq!(attempt(&mut hasty), None);
    assert_eq!(n_in_line(&engine, "k"), 0);
    release(&mut holder);
    assert!(attempt(&mut hasty).is_some());
}

#[test]
fn who_waits_is_told_and_served_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut holder = claim(&engine, "k");
    attempt(&mut holder).unwrap();
    let (mut first, mut second) = (claim(&engine, "k"), claim(&engine, "k"));
    assert_eq!(attempt(&mut first), None);
    assert_eq!(attempt(&mut second), None);
    let who = block_on(engine.who(&key("k"), now())).unwrap();
    assert_eq!(who.holder.unwrap().pid, Some(std::process::id()));
    let pids: Vec<_> = who.line.iter().map(|party| party.pid).collect();
    assert_eq!(pids, [Some(std::process::id()); 2]);

    block_on(poll_once(second.changed()));
    release(&mut holder);
    let mut late = claim(&engine, "k");
    assert_eq!(attempt(&mut late), None, "those in line come first");
    let fence = wait(&mut first).fence;
    assert_eq!(attempt(&mut second), None);
    release(&mut first);
    assert!(wait(&mut second).fence > fence);
}

#[test]
fn a_wait_that_is_dropped_or_released_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut holder = claim(&engine, "k");
    attempt(&mut holder).unwrap();
    for _ in 0..200 {
        let (mut dropped, mut released) = (claim(&engine, "k"), claim(&engine, "k"));
        for waiting in [&mut dropped, &mut released] {
            assert_eq!(attempt(waiting), None);
            block_on(poll_once(waiting.changed()));
        }
        drop(dropped);
        release(&mut released);
    }
    release(&mut holder);
    // The threads of dropped waits close their files in their own time.
    let last = wait(&mut claim(&engine, "k"));
    assert!(last.fence > 0);
    assert_eq!(n_in_line(&engine, "k"), 0);
}

#[test]
fn a_barging_claim_overtakes_those_in_line() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let (mut holder, mut patient) = (claim(&engine, "k"), claim(&engine, "k"));
    attempt(&mut holder).unwrap();
    assert_eq!(attempt(&mut patient), None);
    release(&mut holder);
    let mut barging = request("k");
    barging.order = crate::engine::Order::Barging;
    assert!(attempt(&mut engine.claim(barging)).is_some());
}

#[test]
fn a_removed_file_is_told_as_a_loss_and_the_next_claim_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut claim = claim(&engine, "k");
    let first = attempt(&mut claim).unwrap();
    assert!(matches!(block_on(claim.renew(now())), Ok(Standing::Held(_))));
    std::fs::remove_file(folder.path().join("k.lock")).unwrap();
    assert!(matches!(block_on(claim.renew(now())), Ok(Standing::Lost(_))));
    release(&mut claim);
    let later = now() + Duration::from_secs(1);
    let again = block_on(claim.attempt(later)).unwrap();
    assert!(matches!(again, Attempt::Granted(grant) if grant.fence > first.fence));
    assert!(folder.path().join("k.lock").exists());
}

#[test]
fn a_release_tells_that_the_file_was_removed_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let (path, other) = (folder.path().join("k.lock"), folder.path().join("other"));
    let remove = || std::fs::remove_file(&path).unwrap();
    let replace = || {
        std::fs::copy(&path, &other).unwrap();
        std::fs::rename(&other, &path).unwrap();
    };
    for (harm, released) in [
        (&remove as &dyn Fn(), Released::NotOurs),
        (&replace, Released::NotOurs),
        (&|| {}, Released::Done),
    ] {
        let mut claim = claim(&engine, "k");
        attempt(&mut claim).unwrap();
        assert!(matches!(block_on(claim.renew(now())), Ok(Standing::Held(_))));
        harm();
        assert_eq!(block_on(claim.release(now())).unwrap(), released);
        assert_eq!(block_on(claim.release(now())).unwrap(), Released::Done, "it is told once");
        assert!(attempt(&mut claim).is_some(), "the next one takes the file that is there");
        release(&mut claim);
    }
}

#[test]
fn a_folder_that_was_replaced_is_found_again() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("locks");
    let engine = engine(&folder);
    pass(&engine, "k");
    std::fs::rename(&folder, parent.path().join("away")).unwrap();
    let mut claim = claim(&engine, "k");
    let later = now() + Duration::from_secs(1);
    assert!(matches!(block_on(claim.attempt(later)), Ok(Attempt::Granted(_))));
    assert!(folder.join("k.lock").exists());
}

#[test]
fn a_duplicate_of_the_descriptor_keeps_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut holder = claim(&engine, "k");
    assert!(holder.descriptor().unwrap().is_none());
    attempt(&mut holder).unwrap();
    let duplicate = holder.descriptor().unwrap().unwrap();
    drop(holder);
    let mut other = claim(&engine, "k");
    assert_eq!(attempt(&mut other), None);
    drop(duplicate);
    wait(&mut other);
}

#[test]
fn a_forked_child_leaves_its_parents_lock_alone() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let mut holder = claim(&engine, "k");
    attempt(&mut holder).unwrap();
    let mut waiting = claim(&engine, "k");
    assert_eq!(attempt(&mut waiting), None);
    let mut both = Some((holder, waiting));
    assert!(holds_in_child(|| {
        let (mut holder, waiting) = both.take().unwrap();
        let is_refused = block_on(holder.attempt(now())).is_err();
        let is_released = block_on(holder.release(now())).is_ok();
        drop((holder, waiting));
        is_refused && is_released
    }));
    let probe = self::engine(folder.path());
    assert_eq!(attempt(&mut claim(&probe, "k")), None);
    assert_eq!(n_in_line(&probe, "k"), 1);
}

#[test]
fn tidy_removes_what_is_neither_held_nor_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let fence = pass(&engine, "idle");
    let mut holder = claim(&engine, "held");
    attempt(&mut holder).unwrap();
    assert_eq!(block_on(engine.tidy(LONG, now())).unwrap(), 0, "nothing is that old");
    assert_eq!(block_on(engine.tidy(Duration::ZERO, now())).unwrap(), 1);
    let listed = block_on(engine.list(now())).unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].held && listed[0].key == key("held"));
    assert!(pass(&engine, "idle") > fence);
}

#[test]
fn keys_made_up_for_one_use_do_not_leave_a_file_each() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    for number in 0..600 {
        pass(&engine, &format!("order:{number}"));
    }
    let n_files = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(n_files <= 300, "{n_files}");
}
