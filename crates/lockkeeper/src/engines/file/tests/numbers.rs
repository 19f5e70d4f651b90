//! What a power loss may leave behind: fences must rise all the same.

use std::{fs::File, os::unix::fs::FileExt};

use super::*;
use crate::engines::file::{
    disk::{
        floor,
        layout::{FILE_BYTES, Page, RECORD_AT, SLOTS_AT},
        ledger::lower,
        record::RECORD_BYTES,
    },
    queue::ranges::{LOCK, try_take},
};

fn key_file(folder: &Path) -> File {
    File::options().read(true).write(true).open(folder.join("k.lock")).unwrap()
}

/// Loses the power in one way after some grants, and takes the key in the next boot.
fn check(n_passes: usize, damage: impl Fn(&File)) {
    let folder = tempfile::tempdir().unwrap();
    let mut end = 0;
    for boot in 1..4 {
        let engine = engine_in_boot(folder.path(), boot);
        for _ in 0..n_passes {
            let grant = grant_of(&engine, "k");
            assert!(grant.fence >= end, "{grant:?} after numbers up to {end}");
            end = grant.fence + u64::from(grant.n_fences);
        }
        drop(engine);
        damage(&key_file(folder.path()));
    }
}

#[test]
fn an_unharmed_file_goes_on() {
    check(100, |_| {});
}

#[test]
fn a_lost_or_torn_record_goes_on() {
    check(100, |file| file.write_all_at(&[0; RECORD_BYTES], RECORD_AT as u64).unwrap());
    check(100, |file| file.write_all_at(&[9; RECORD_BYTES / 2], RECORD_AT as u64).unwrap());
}

#[test]
fn a_new_file_that_never_reached_the_disk_goes_on() {
    check(100, |file| file.set_len(0).unwrap());
    check(100, |file| file.write_all_at(&[0; FILE_BYTES], 0).unwrap());
}

#[test]
fn a_torn_slot_with_the_record_lost_goes_on() {
    check(100, |file| {
        let torn = SLOTS_AT[lower(Page::read(file).unwrap().slots())];
        file.write_all_at(&[3; 16], torn as u64).unwrap();
        file.write_all_at(&[0; RECORD_BYTES], RECORD_AT as u64).unwrap();
    });
}

/// So many grants that the file needs durable marks of its own.
#[test]
fn numbers_beyond_the_first_allotment_survive_with_one_slot_only() {
    check(20_000, |file| {
        let torn = SLOTS_AT[lower(Page::read(file).unwrap().slots())];
        file.write_all_at(&[3; 16], torn as u64).unwrap();
        file.write_all_at(&[0; RECORD_BYTES], RECORD_AT as u64).unwrap();
    });
}

#[test]
fn a_record_damaged_in_the_same_boot_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let first = pass(&engine, "k");
    key_file(folder.path()).write_all_at(&[5; 8], RECORD_AT as u64).unwrap();
    assert!(pass(&engine, "k") > first);
}

#[test]
fn a_key_removed_by_tidy_begins_higher_even_after_a_power_loss() {
    let folder = tempfile::tempdir().unwrap();
    let one = engine_in_boot(folder.path(), 1);
    let mut last = 0;
    for _ in 0..20_000 {
        last = pass(&one, "k");
    }
    assert_eq!(block_on(one.tidy(Duration::ZERO, now())).unwrap(), 1);
    assert!(!folder.path().join("k.lock").exists());
    // The floor's record is lost, its durable mark is not.
    let floor = File::options().write(true).open(folder.path().join(".floor")).unwrap();
    floor.write_all_at(&[0; RECORD_BYTES], RECORD_AT as u64).unwrap();
    assert!(pass(&engine_in_boot(folder.path(), 2), "k") > last);
}

#[test]
fn a_removal_that_was_cut_short_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let first = pass(&engine, "k");
    let path = folder.path().join("k.lock");
    let second_name = folder.path().join("kept");
    std::fs::hard_link(&path, &second_name).unwrap();
    let mut file = engine.shared.pool.take(&key("k")).unwrap();
    file.try_lock().unwrap();
    assert!(file.retire().unwrap());
    drop(file);
    // As if the remover had died between the mark and the removal.
    std::fs::rename(&second_name, &path).unwrap();
    assert!(pass(&engine, "k") > first);
}

/// Somebody was stopped while it changed the floor: new keys are granted all the same, at once, and
/// their numbers survive a power loss without the floor's help.
#[test]
fn a_new_key_needs_no_free_floor() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_in_boot(folder.path(), 1);
    let cleaned_up = pass(&engine, "old");
    assert_eq!(block_on(engine.tidy(Duration::ZERO, now())).unwrap(), 1);
    let floor = folder.path().join(floor::NAME);
    let floor = File::options().read(true).write(true).open(floor).unwrap();
    assert_eq!(try_take(&floor, LOCK).unwrap(), Tried::Taken);
    // A boot in which the floor was not raised yet.
    let engine = engine_in_boot(folder.path(), 2);
    assert!(pass(&engine, "old") > cleaned_up);
    let grant = grant_of(&engine, "k");
    assert_eq!(block_on(engine.tidy(Duration::ZERO, now())).unwrap(), 0, "they stay meanwhile");
    key_file(folder.path()).write_all_at(&[0; RECORD_BYTES], RECORD_AT as u64).unwrap();
    let next = pass(&engine_in_boot(folder.path(), 3), "k");
    assert!(next >= grant.fence + u64::from(grant.n_fences));
}
