//! The line at a key file: places are locked bytes, so the dead leave it by themselves.
//!
//! Who joins takes the place after the highest one. A place is never taken without its byte, and
//! `arrivals` changes after each join: whoever has seen the line empty at one value need not look
//! again until it changes.

pub(super) mod crew;
pub(super) mod processes;
pub(super) mod ranges;
pub(super) mod wait;

use std::{fs::File, io, os::unix::fs::FileExt};

use self::ranges::{Bytes, GATE, PLACES, Tried, give_back, taken_place, try_take};
use super::disk::layout::{ARRIVALS_AT, number};

/// Joins the line unless somebody else is just doing so; answers our place.
pub(super) fn join(file: &File) -> io::Result<Option<u64>> {
    match try_take(file, GATE)? {
        Tried::Taken => join_with_gate(file).map(Some),
        Tried::Busy => Ok(None),
    }
}

/// Joins the line; the gate must be ours, and is given back.
fn join_with_gate(file: &File) -> io::Result<u64> {
    let joined = take_next_place(file).and_then(|place| announce(file).map(|()| place));
    if joined.is_err() {
        // After an error that is told, and the file is closed soon, which frees the place too.
        let _ = give_back(file, PLACES);
    }
    give_back(file, GATE)?;
    joined
}

fn take_next_place(file: &File) -> io::Result<u64> {
    let mut place = after_the_last(file)?;
    while try_take(file, Bytes::place(place))? == Tried::Busy {
        place += 1;
    }
    Ok(place)
}

/// Nobody has a place at or above the answer: galloping, then halving.
fn after_the_last(file: &File) -> nix::Result<u64> {
    let Some(mut highest) = taken_place(file, PLACES)? else { return Ok(0) };
    let mut step = 1;
    while let Some(place) = taken_place(file, Bytes::places_from(highest + step))? {
        highest = place;
        step *= 2;
    }
    Ok(highest_between(file, highest, highest + step)? + 1)
}

/// The highest taken place below `end`; `low` is known to be taken.
fn highest_between(file: &File, mut low: u64, mut end: u64) -> nix::Result<u64> {
    while low + 1 < end {
        let middle = low + (end - low) / 2;
        match taken_place(file, Bytes::places(middle, end))? {
            Some(place) => low = place,
            None => end = middle,
        }
    }
    Ok(low)
}

/// Only whoever has the gate writes here.
fn announce(file: &File) -> io::Result<()> {
    let mut bytes = [0; 8];
    // A file that nobody has filled yet is shorter; it has seen no arrivals.
    let n_bytes = file.read_at(&mut bytes, ARRIVALS_AT as u64)?;
    let arrivals = number(&bytes[..n_bytes], 0) + 1;
    file.write_all_at(&arrivals.to_le_bytes(), ARRIVALS_AT as u64)
}

/// The highest taken place below ours: the one to wait for.
pub(super) fn before(file: &File, place: u64) -> nix::Result<Option<u64>> {
    let mut step = 1;
    loop {
        // The place right below is taken more often than not.
        let from = place.saturating_sub(step);
        if from == place {
            return Ok(None);
        }
        match taken_place(file, Bytes::places(from, place))? {
            Some(low) => return highest_between(file, low, place).map(Some),
            None if from == 0 => return Ok(None),
            None => step *= 8,
        }
    }
}

/// Whether anybody else stands in line.
pub(super) fn is_empty(file: &File) -> nix::Result<bool> {
    Ok(taken_place(file, PLACES)?.is_none())
}

/// All places that somebody has, the first one first.
pub(super) fn places(file: &File) -> nix::Result<Vec<u64>> {
    let mut places = Vec::new();
    let mut unknown = vec![PLACES];
    while let Some(bytes) = unknown.pop() {
        if let Some(place) = taken_place(file, bytes)? {
            places.push(place);
            let (below, above) = bytes.without(place);
            unknown.extend(below.into_iter().chain(above));
        }
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn open(folder: &Path) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options.open(folder.join("x")).unwrap()
    }

    #[test]
    fn places_are_given_in_order_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let probe = open(folder.path());
        assert!(is_empty(&probe).unwrap());
        let files: Vec<File> = (0..40).map(|_| open(folder.path())).collect();
        for (at, file) in (0..).zip(&files) {
            assert_eq!(join(file).unwrap(), Some(at));
            assert_eq!(before(file, at).unwrap(), at.checked_sub(1));
        }
        assert!(!is_empty(&probe).unwrap());
        assert_eq!(places(&probe).unwrap(), (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn those_who_left_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let mut files: Vec<Option<File>> = (0..100).map(|_| Some(open(folder.path()))).collect();
        for file in files.iter().flatten() {
            join(file).unwrap();
        }
        for left in (3..70).chain(80..99) {
            files[left] = None;
        }
        let last = files[99].as_ref().unwrap();
        assert_eq!(before(last, 99).unwrap(), Some(79));
        assert_eq!(before(files[70].as_ref().unwrap(), 70).unwrap(), Some(2));
        assert_eq!(before(files[0].as_ref().unwrap(), 0).unwrap(), None);
        let probe = open(folder.path());
        assert_eq!(
            places(&probe).unwrap(),
            [0, 1, 2].into_iter().chain(70..80).chain([99]).collect::<Vec<_>>()
        );
        assert_eq!(join(&probe).unwrap(), Some(100));
    }

    #[test]
    fn a_closed_gate_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (open(folder.path()), open(folder.path()));
        assert_eq!(try_take(&inside, GATE).unwrap(), Tried::Taken);
        assert_eq!(join(&outside).unwrap(), None);
        assert_eq!(join_with_gate(&inside).unwrap(), 0);
        assert_eq!(join(&outside).unwrap(), Some(1));
    }

    #[test]
    fn watching_a_place_does_not_look_like_having_it() {
        let folder = tempfile::tempdir().unwrap();
        let (watcher, probe) = (open(folder.path()), open(folder.path()));
        ranges::watch(&watcher, Bytes::place(0)).unwrap();
        assert!(is_empty(&probe).unwrap());
    }
}
