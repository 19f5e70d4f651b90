//! The folder's floor: the number above which new key files begin.
//!
//! A new file would need its own durable mark before its first grant. Instead it begins below a
//! mark that is durable for the whole folder, which lies an hour ahead of the clock: one
//! `fdatasync` an hour instead of one for each key. Files that are cleaned up leave their numbers
//! here, so that the same key never begins lower.
//!
//! Nobody waits for the floor: whoever changes it may be stopped with the lock in hand. A new file
//! then makes a durable mark of its own, and a file that was to be cleaned up stays.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{
    layout::{Contents, Page, RECORD_AT},
    ledger::{above_all, lower},
    record::Record,
};
use crate::{
    engine::error::{Error, Result},
    engines::file::{
        failed,
        folder::Folder,
        queue::ranges::{LOCK, Tried, give_back, try_take},
    },
};

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

/// Where a new file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Beginning {
    pub(in super::super) start: u64,
    /// Whether the floor's mark covers it; if not, the file needs a durable mark of its own before it
    /// gives out a number.
    pub(in super::super) is_durable: bool,
}

/// The answer to a change of the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Change {
    Done,
    /// Somebody else is at it.
    Busy,
}

impl<'a> Floor<'a> {
    pub(in super::super) fn open(folder: &'a Folder, boot: u128) -> Result<Self> {
        Ok(Self { folder, file: folder.open_file(NAME)?.0, boot })
    }

    /// A number at or above `least` and the floor, from which on `n_numbers` may be given out.
    pub(in super::super) fn begin(&self, least: u64, n_numbers: u64) -> Result<Beginning> {
        if let Some(record) = self.glance()?
            && record.end < least
            && least + n_numbers <= record.mark
        {
            return Ok(Beginning { start: least, is_durable: true });
        }
        let mut start = 0;
        let change = self.change(|current| {
            start = current.max(least);
            // Ahead of the clock, nothing else would keep two beginnings apart.
            let current = if current < least { current } else { start + APART };
            Wanted { current, durable: start + n_numbers }
        })?;
        match change {
            Change::Done => Ok(Beginning { start, is_durable: true }),
            // What is cleaned up is entered here before its file goes, so what this file must begin
            // above stands here already, whatever is being written.
            Change::Busy => Ok(Beginning { start: self.current()?.max(least), is_durable: false }),
        }
    }

    /// Lets all new files begin at or above `number`.
    pub(in super::super) fn raise(&self, number: u64) -> Result<Change> {
        if self.glance()?.is_some_and(|record| record.end >= number) {
            return Ok(Change::Done);
        }
        self.change(|current| {
            let current = current.max(number);
            Wanted { current, durable: current }
        })
    }

    /// Where files begin, as far as can be seen without the lock: too high at worst.
    fn current(&self) -> Result<u64> {
        let page = Page::read(&self.file).map_err(|error| failed("read the floor", error))?;
        let record = page.record().filter(|record| record.boot == self.boot);
        Ok(record.map_or_else(|| above_all(&page), |record| record.end))
    }

    /// The record, if it can be trusted: read without the lock, it may be half written.
    fn glance(&self) -> Result<Option<Record>> {
        let page = Page::read(&self.file).map_err(|error| failed("read the floor", error))?;
        Ok(page.record().filter(|record| record.boot == self.boot))
    }

    fn change(&self, decide: impl FnOnce(u64) -> Wanted) -> Result<Change> {
        let tried = try_take(&self.file, LOCK);
        match tried.map_err(|errno| failed("lock the floor", errno.into()))? {
            Tried::Taken => {}
            Tried::Busy => return Ok(Change::Busy),
        }
        let changed = self.change_locked(decide);
        give_back(&self.file, LOCK).map_err(|errno| failed("unlock the floor", errno.into()))?;
        changed.map(|()| Change::Done)
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

    impl Floor<'_> {
        fn start(&self, least: u64, n_numbers: u64) -> u64 {
            let begun = self.begin(least, n_numbers).unwrap();
            assert!(begun.is_durable);
            begun.start
        }
    }

    #[test]
    fn begins_at_the_clock_and_then_above_what_was_cleaned_up() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path()).unwrap();
        let floor = Floor::open(&folder, 1).unwrap();
        assert_eq!(floor.start(WALL, 10), WALL);
        floor.raise(WALL + 500).unwrap();
        let raised = floor.start(WALL, 10);
        assert!(raised >= WALL + 500, "{raised}");
        assert_eq!(floor.start(WALL, 10), raised + APART);
        assert_eq!(floor.start(raised + 5 * APART, 10), raised + 5 * APART);
        floor.raise(WALL + 2 * HOUR_US).unwrap();
        assert!(floor.start(0, 10) >= WALL + 2 * HOUR_US);
        let raised = floor.start(0, 10);
        floor.raise(WALL).unwrap();
        assert_eq!(floor.start(0, 10), raised + APART);
    }

    #[test]
    fn a_new_boot_begins_above_everything_even_with_the_record_gone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path()).unwrap();
        let begun = Floor::open(&folder, 1).unwrap().start(WALL, 1 << 20);
        let floor = Floor::open(&folder, 2).unwrap();
        floor.file.write_all_at(&[0; 160], RECORD_AT as u64).unwrap();
        assert!(floor.start(0, 10) >= begun + (1 << 20));
        // Torn while its mark was raised: the other slot still stands.
        let begun = floor.start(WALL + 2 * HOUR_US, 10);
        let page = Page::read(&floor.file).unwrap();
        let torn = super::super::layout::SLOTS_AT[lower(page.slots())];
        floor.file.write_all_at(&[7; 16], torn as u64).unwrap();
        assert!(Floor::open(&folder, 3).unwrap().start(0, 10) >= begun + 10);
    }

    #[test]
    fn nobody_waits_for_a_busy_floor() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path()).unwrap();
        let busy = Floor::open(&folder, 1).unwrap();
        busy.raise(WALL + 500).unwrap();
        assert_eq!(try_take(&busy.file, LOCK).unwrap(), Tried::Taken);
        let floor = Floor::open(&folder, 1).unwrap();
        assert_eq!(floor.raise(WALL + 501).unwrap(), Change::Busy);
        // Above what was cleaned up, in this boot and in the next.
        for (boot, least) in [(1, WALL + 500), (2, WALL + 500 + HOUR_US)] {
            let begun = Floor::open(&folder, boot).unwrap().begin(WALL, 10).unwrap();
            assert_eq!(begun, Beginning { start: least, is_durable: false });
        }
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
