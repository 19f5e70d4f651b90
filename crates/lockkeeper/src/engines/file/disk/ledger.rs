//! Numbers that never come twice, not even after a power loss.
//!
//! Within one boot of the machine the page cache is the truth: the record says which numbers are
//! given out. After a power loss any older state of a file may come back, so each file also says
//! which number has *durably* not been passed yet, in two slots of which only the lower is ever
//! overwritten. A later boot goes on above that mark.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::layout::{Page, SLOTS_AT, checksum, number};

/// The marks of a file; `None` is one that cannot be read.
pub(in super::super) type Slots = [Option<u64>; 2];

/// How far a mark is raised at once: one `fdatasync` for so many numbers.
const STEP: u64 = 1 << 26;

pub(super) fn slot_bytes(mark: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mark.to_le_bytes());
    bytes[8..].copy_from_slice(&checksum(&mark.to_le_bytes()).to_le_bytes());
    bytes
}

pub(super) fn slot_from(bytes: &[u8]) -> Option<u64> {
    let mark = number(bytes, 0);
    (number(bytes, 8) == checksum(&mark.to_le_bytes())).then_some(mark)
}

/// Where a number above all that were ever given out from this file can be found: after a new
/// boot, or when the record is damaged.
pub(in super::super) fn above_all(page: &Page) -> u64 {
    let [first, second] = page.slots();
    let given_out = page.record().map(|record| record.end);
    first.max(second).max(given_out).unwrap_or(0)
}

/// The slot to be overwritten: the one that would be missed least.
pub(in super::super) fn lower(slots: Slots) -> usize {
    usize::from(slots[1] < slots[0])
}

/// Makes a mark above `end` durable, and only then returns it.
pub(in super::super) fn raise(file: &File, folder: &File, end: u64) -> io::Result<u64> {
    let mark = end.saturating_add(STEP);
    let slots = Page::read(file)?.slots();
    file.write_all_at(&slot_bytes(mark), SLOTS_AT[lower(slots)] as u64)?;
    file.sync_data()?;
    // The file's name must outlast the power as well as its contents.
    folder.sync_all()?;
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_slot_is_not_read() {
        let bytes = slot_bytes(1_700_000_000_000_000);
        assert_eq!(slot_from(&bytes), Some(1_700_000_000_000_000));
        for n_whole in 0..16 {
            let mut torn = slot_bytes(1_600_000_000_000_000);
            torn[..n_whole].copy_from_slice(&bytes[..n_whole]);
            let read = slot_from(&torn);
            assert!(read.is_none() || torn == bytes || torn == slot_bytes(1_600_000_000_000_000));
        }
        assert_eq!(slot_from(&[0; 16]), None);
    }

    #[test]
    fn the_lower_or_unreadable_slot_is_overwritten() {
        assert_eq!(lower([None, None]), 0);
        assert_eq!(lower([Some(1), None]), 1);
        assert_eq!(lower([None, Some(1)]), 0);
        assert_eq!(lower([Some(2), Some(1)]), 1);
        assert_eq!(lower([Some(1), Some(2)]), 0);
    }

    #[test]
    fn raising_keeps_the_higher_mark_until_the_new_one_stands() {
        let folder = tempfile::tempdir().unwrap();
        let handle = File::open(folder.path()).unwrap();
        let path = folder.path().join("x");
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        let mut end = 10;
        for _ in 0..5 {
            let before = above_all(&Page::read(&file).unwrap());
            let mark = raise(&file, &handle, end).unwrap();
            let page = Page::read(&file).unwrap();
            assert_eq!(above_all(&page), mark);
            assert!(page.slots().contains(&Some(before).filter(|mark| *mark > 0)));
            end = mark + 1;
        }
    }
}
