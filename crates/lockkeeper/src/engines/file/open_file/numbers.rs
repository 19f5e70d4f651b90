//! The numbers of a key file: each grant gets the next ones, mostly without writing.

use std::{os::unix::fs::FileExt, time::Duration};

use super::{Found, OpenFile};
use crate::{
    engine::{Moment, Order, Request, error::Result},
    engines::file::{
        disk::{
            floor::{Beginning, Change, Floor},
            layout::{Page, RECORD_AT},
            ledger,
            record::{RECORD_BYTES, Record, RecordBytes},
        },
        failed,
    },
};

/// How many numbers each grant gets, one for each turn of the line above.
const TURNS: u32 = 128;
/// How many the first grant of a new file gets: if somebody removes the file by hand at once, the next
/// one begins so few microseconds later.
const FIRST_TURNS: u32 = 8;

/// The most grants for which numbers are reserved at once.
const MAX_BLOCK: u64 = 1024;
/// What a new file may give out before it needs a durable mark of its own.
const ALLOTMENT: u64 = 1 << 20;
/// A file in use is written at least this often, so that its age says when it was last used.
const WRITE_EVERY: Duration = Duration::from_secs(60);

/// Numbers reserved for us, as long as the record is the one we wrote.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) record: RecordBytes,
    next: u64,
    end: u64,
    mark: u64,
    n_grants: u64,
    written_at: Moment,
}

impl Block {
    pub(super) fn none(now: Moment) -> Self {
        let record = [0; RECORD_BYTES];
        Self { record, next: 0, end: 0, mark: 0, n_grants: 0, written_at: now }
    }
}

/// A number taken.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Taken {
    pub(in super::super) fence: u64,
    pub(in super::super) n_fences: u32,
    /// Whether the record says that we hold; if not, it says so of an earlier hold of ours.
    pub(in super::super) is_recorded: bool,
}

impl OpenFile {
    /// Takes the next number, after a [`look`](Self::look) that found all well.
    pub(in super::super) fn take_number(
        &mut self,
        request: &Request,
        now: Moment,
    ) -> Result<Taken> {
        let is_ours = self.is_block_ours();
        let next = self.block.next + u64::from(TURNS);
        let is_fresh = now.since(self.block.written_at) <= WRITE_EVERY;
        if is_ours && is_fresh && next <= self.block.end {
            let fence = self.block.next;
            self.block.next = next;
            return Ok(Taken { fence, n_fences: TURNS, is_recorded: false });
        }
        // Whoever comes alone gets longer and longer blocks, and so writes less and less.
        let n_grants = if is_ours { (2 * self.block.n_grants).clamp(1, MAX_BLOCK) } else { 1 };
        let (start, mark, n_fences) = match self.record() {
            Some(record) if record.boot == self.boot => (record.end, record.mark, TURNS),
            _ => {
                let (start, mark) = self.begin(now)?;
                (start, mark, FIRST_TURNS)
            }
        };
        let end = start + n_grants * u64::from(n_fences);
        let mark = if end > mark {
            ledger::raise(&self.file, self.folder.handle(), end).map_err(|error| {
                failed(format!("make the fence of {} durable", self.name), error)
            })?
        } else {
            mark
        };
        let next = start + u64::from(n_fences);
        self.block = Block { next, end, mark, n_grants, written_at: now, ..self.block };
        self.write_down(request, start, now)?;
        Ok(Taken { fence: start, n_fences, is_recorded: true })
    }

    /// Finds numbers for a new file, after a new boot, or when the record is damaged.
    fn begin(&mut self, now: Moment) -> Result<(u64, u64)> {
        let trouble = |error| failed("fill the file", error);
        let page = Page::read(&self.file).map_err(trouble)?;
        let least = ledger::above_all(&page).max(now.wall_micros());
        let floor = Floor::open(&self.folder, self.boot)?;
        let Beginning { start, is_durable } = floor.begin(least, ALLOTMENT)?;
        let mark = start + ALLOTMENT;
        let mut slots = page.slots();
        slots[ledger::lower(slots)] = Some(mark);
        let mut page = Page::new(self.key.as_str());
        page.set_slots(slots);
        page.write_head(&self.file).map_err(trouble)?;
        if !is_durable {
            let folder = self.folder.handle();
            self.file.sync_data().and_then(|()| folder.sync_all()).map_err(trouble)?;
        }
        self.is_known = true;
        Ok((start, mark))
    }

    /// Writes into the record who holds since when.
    pub(in super::super) fn write_down(
        &mut self,
        request: &Request,
        fence: u64,
        since: Moment,
    ) -> Result<()> {
        self.write(&Record {
            boot: self.boot,
            end: self.block.end,
            mark: self.block.mark,
            fence,
            since_us: since.wall_micros(),
            owner: request.owner.0,
            pid: std::process::id(),
            is_retired: false,
            label: request.label.to_string(),
        })
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        let bytes = record.encode();
        self.file
            .write_all_at(&bytes, RECORD_AT as u64)
            .map_err(|error| failed(format!("write the record of {}", self.name), error))?;
        self.block.record = bytes;
        Ok(())
    }

    /// Removes the file, with the lock in hand; answers whether there was anything to remove, nobody
    /// in line, and the floor free to take its numbers.
    ///
    /// Its numbers go to the floor first, then the mark, then the name: whoever meets the mark
    /// opens the path again, and whoever creates the file anew begins above.
    pub(in super::super) fn retire(&mut self) -> Result<bool> {
        let now = self.path_seen_at;
        if self.look(Order::FirstCome, now)? != Found::Ready || !self.check_place(now)? {
            return Ok(false);
        }
        let trouble = |error| failed("mark the file as removed", error);
        let page = Page::read(&self.file).map_err(trouble)?;
        let record = self.record().unwrap_or_default();
        let end = if record.boot == self.boot { record.end } else { ledger::above_all(&page) };
        if Floor::open(&self.folder, self.boot)?.raise(end)? == Change::Busy {
            return Ok(false);
        }
        let was_used = self.is_known;
        if !was_used {
            Page::new(self.key.as_str()).write_head(&self.file).map_err(trouble)?;
        }
        self.write(&Record { is_retired: true, ..record })?;
        self.folder.remove(&self.name)?;
        Ok(was_used)
    }
}
