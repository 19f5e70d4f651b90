//! The folder's floor: the number above which new key files begin.
//!
//! A new file would need its own durable mark before its first grant. Instead it begins below a
//! mark that is durable for the whole folder, which lies an hour ahead of the clock: one
//! `fdatasync` an hour instead of one for each key. Files that are cleaned up leave their numbers
//! here, so that the same key never begins lower.

use std::{fs::File, io, os::unix::fs::FileExt};

use nix::errno::Errno;

use super::{
    super::{
        failed,
        folder::Folder,
        queue::ranges::{LOCK, give_back, take},
    },
    layout::{Contents, Page, RECORD_AT},
    ledger::{above_all, lower},
    record::Record,
};
use crate::error::{Error, Result};

/// The file's name; no key has it, because keys do not begin with a dot.
pub(in super::super) const NAME: &str = ".floor";

/// How far the mark is raised at once: numbers begin at the clock's microseconds.
const HOUR_US: u64 = 3_600_000_000;
/// How far apart files begin while the floor is ahead of the clock: that a file removed by hand and
/// created again begins above what it gave out, unless it gave out more.
const APART: u64 = 1024;

#[derive(Debug)]
pub(in super::super) struct Floor<'a> {
    folder: &'a Folder,
    file: File,
    boot: u128,
}

/// What the floor is to become: files begin at `current`, and all below `durable` may be given out.
struct Wanted {
    current: u64,
    durable: u64,
}

impl<'a> Floor<'a> {
    pub(in super::super) fn open(folder: &'a Folder, boot: u128) -> Result<Self> {
        Ok(Self { folder, file: folder.open_file(NAME)?.0, boot })
    }

    /// A number at or above `least` and the floor, from which on `n_numbers` may be given out.
    pub(in super::super) fn begin(&self, least: u64, n_numbers: u64) -> Result<u64> {
        if let Some(record) = self.glance()?
            && record.end < least
            && least + n_numbers <= record.mark
        {
            return Ok(least);
        }
        let mut start = 0;
        self.change(|current| {
            start = current.max(least);
            // Ahead of the clock, nothing else would keep two beginnings apart.
            let current = if current < least { current } else { start + APART };
            Wanted { current, durable: start + n_numbers }
        })?;
        Ok(start)
    }

    /// Lets all new files begin at or above `number`.
    pub(in super::super) fn raise(&self, number: u64) -> Result<()> {
        if self.glance()?.is_some_and(|record| record.end >= number) {
            return Ok(());
        }
        self.change(|current| {
            let current = current.max(number);
            Wanted { current, durable: current }
        })
    }

    /// The record, if it can be trusted: read without the lock, it may be half written.
    fn glance(&self) -> Result<Option<Record>> {
        let page = Page::read(&self.file).map_err(|error| failed("read the floor", error))?;
        Ok(page.record().filter(|record| record.boot == self.boot))
    }

    fn change(&self, decide: impl FnOnce(u64) -> Wanted) -> Result<()> {
        loop {
            match take(&self.file, LOCK) {
                Ok(()) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed("lock the floor", errno.into())),
            }
        }
        let changed = self.change_locked(decide);
        give_back(&self.file, LOCK).map_err(|errno| failed("unlock the floor", errno.into()))?;
        changed
    }

    fn change_locked(&self, decide: impl FnOnce(u64) -> Wanted) -> Result<()> {
        let trouble = |error| failed("write the floor", error);
        let page = Page::read(&self.file).map_err(trouble)?;
        match page.contents() {
            Contents::Blank | Contents::Ours(_) => {}
            Contents::Newer(_) | Contents::Foreign => {
                return Err(Error::refused(format!(
                    "{NAME} in the folder of locks is not ours; use another folder"
                )));
            }
        }
        let (current, mark) = match page.record().filter(|record| record.boot == self.boot) {
            Some(record) => (record.end, record.mark),
            // All that was given out before lies below the mark, and nothing is durable above it.
            None => (above_all(&page), 0),
        };
        let wanted = decide(current);
        if wanted.current == current && wanted.durable <= mark {
            return Ok(());
        }
        let mark = if wanted.durable > mark {
            self.make_durable(&page, wanted.durable + HOUR_US).map_err(trouble)?
        } else {
            mark
        };
        let record = Record { boot: self.boot, end: wanted.current, mark, ..Record::default() };
        self.file.write_all_at(&record.encode(), RECORD_AT as u64).map_err(trouble)
    }

    fn make_durable(&self, page: &Page, mark: u64) -> io::Result<u64> {
        let mut slots = page.slots();
        slots[lower(slots)] = Some(mark);
        let mut page = Page::new("");
        page.set_slots(slots);
        page.write_head(&self.file)?;
        self.file.sync_data()?;
        self.folder.handle().sync_all()?;
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_700_000_000_000_000;

    #[test]
    fn begins_at_the_clock_and_then_above_what_was_cleaned_up() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path()).unwrap();
        let floor = Floor::open(&folder, 1).unwrap();
        assert_eq!(floor.begin(WALL, 10).unwrap(), WALL);
        floor.raise(WALL + 500).unwrap();
        let raised = floor.begin(WALL, 10).unwrap();
        assert!(raised >= WALL + 500, "{raised}");
        assert_eq!(floor.begin(WALL, 10).unwrap(), raised + APART);
        assert_eq!(floor.begin(raised + 5 * APART, 10).unwrap(), raised + 5 * APART);
        floor.raise(WALL + 2 * HOUR_US).unwrap();
        assert!(floor.begin(0, 10).unwrap() >= WALL + 2 * HOUR_US);
        let raised = floor.begin(0, 10).unwrap();
        floor.raise(WALL).unwrap();
        assert_eq!(floor.begin(0, 10).unwrap(), raised + APART);
    }

    #[test]
    fn a_new_boot_begins_above_everything_even_with_the_record_gone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path()).unwrap();
        let begun = Floor::open(&folder, 1).unwrap().begin(WALL, 1 << 20).unwrap();
        let floor = Floor::open(&folder, 2).unwrap();
        floor.file.write_all_at(&[0; 160], RECORD_AT as u64).unwrap();
        assert!(floor.begin(0, 10).unwrap() >= begun + (1 << 20));
        // Torn while its mark was raised: the other slot still stands.
        let begun = floor.begin(WALL + 2 * HOUR_US, 10).unwrap();
        let page = Page::read(&floor.file).unwrap();
        let torn = super::super::layout::SLOTS_AT[lower(page.slots())];
        floor.file.write_all_at(&[7; 16], torn as u64).unwrap();
        assert!(Floor::open(&folder, 3).unwrap().begin(0, 10).unwrap() >= begun + 10);
    }

    #[test]
    fn a_foreign_file_in_its_place_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "mine").unwrap();
        let handle = Folder::open(folder.path()).unwrap();
        let error = Floor::open(&handle, 1).unwrap().begin(WALL, 10).unwrap_err();
        assert!(error.to_string().contains("not ours"), "{error}");
        assert_eq!(std::fs::read(folder.path().join(NAME)).unwrap(), b"mine");
    }
}
