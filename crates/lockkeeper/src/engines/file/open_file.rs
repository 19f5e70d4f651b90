//! A key's file, opened: one claim has it at a time, because locks belong to the opening.

pub(super) mod numbers;

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use self::numbers::Block;
use super::{
    disk::{
        layout::{ARRIVALS_AT, Contents, FILE_BYTES, Page, RECORD_AT, number},
        name,
        record::{RECORD_BYTES, Record},
    },
    failed,
    folder::{FileId, Folder},
    queue::{
        self,
        ranges::{ALL, LOCK, Tried, give_back, try_take},
    },
};
use crate::engine::{
    Moment, Order,
    error::{Error, Result},
    key::Key,
};

/// For so long we believe that the path still leads to the file.
const BELIEVE_PATH: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    folder: Arc<Folder>,
    boot: u128,
    key: Key,
    name: String,
    id: FileId,
    /// Header and key are as they should be.
    is_known: bool,
    path_seen_at: Moment,
    /// Record and arrivals, as read last.
    seen: [u8; FILE_BYTES - RECORD_AT],
    block: Block,
    /// The `arrivals` at which the line was seen empty.
    empty_at: Option<u64>,
    is_handed_out: AtomicBool,
}

/// What whoever has just got the lock finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All is well: a number can be taken.
    Ready,
    /// Others stand in line.
    Line,
    /// The file was removed: it guards nothing, open it anew.
    Gone,
}

impl OpenFile {
    /// Opens the file of this key; `None` if it was removed in the same moment.
    pub(super) fn open(
        folder: Arc<Folder>,
        boot: u128,
        key: &Key,
        now: Moment,
    ) -> Result<Option<Box<Self>>> {
        let name = name::of(key);
        let (file, stat) = folder.open_file(&name)?;
        if stat.st_nlink == 0 {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            file,
            folder,
            boot,
            key: key.clone(),
            name,
            id: FileId::from(&stat),
            is_known: false,
            path_seen_at: now,
            seen: [0; FILE_BYTES - RECORD_AT],
            block: Block::none(now),
            empty_at: None,
            is_handed_out: AtomicBool::new(false),
        })))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn try_lock(&self) -> Result<Tried> {
        try_take(&self.file, LOCK).map_err(|errno| failed("lock the file", errno.into()))
    }

    /// Gives everything back. Never by closing: a forked child may have the file open too.
    pub(super) fn unlock(&self) -> Result<()> {
        give_back(&self.file, ALL).map_err(|errno| failed("unlock the file", errno.into()))
    }

    /// A second descriptor for the same opening, with the same locks.
    pub(super) fn duplicate(&self) -> Result<OwnedFd> {
        let copy = self.file.try_clone().map_err(|error| failed("copy the descriptor", error))?;
        Ok(copy.into())
    }

    /// A duplicate; from now on the lock outlives a claim that is merely dropped.
    pub(super) fn hand_out(&self) -> Result<OwnedFd> {
        let copy = self.duplicate()?;
        self.is_handed_out.store(true, Ordering::Relaxed);
        Ok(copy)
    }

    pub(super) fn is_handed_out(&self) -> bool {
        self.is_handed_out.load(Ordering::Relaxed)
    }

    /// Whether the path leads to this file, as far as was seen lately.
    pub(super) fn is_in_place(&mut self, now: Moment) -> Result<bool> {
        Ok(now.since(self.path_seen_at) <= BELIEVE_PATH || self.check_place(now)?)
    }

    /// Whether the path leads to this file.
    pub(super) fn check_place(&mut self, now: Moment) -> Result<bool> {
        let is_ours = self.is_at_path()?;
        // What has gone is not believed to be there for another moment.
        self.path_seen_at = if is_ours { now } else { Moment::from_nanos(0) };
        Ok(is_ours)
    }

    /// The same for one who is told no moment.
    pub(super) fn is_at_path(&self) -> Result<bool> {
        Ok(self.folder.id_of(&self.name)? == Some(self.id) && self.folder.is_in_place()?)
    }

    /// Looks around, with the lock in hand.
    pub(super) fn look(&mut self, order: Order, now: Moment) -> Result<Found> {
        if !self.is_known {
            self.get_to_know()?;
        }
        let n_bytes = self
            .file
            .read_at(&mut self.seen, RECORD_AT as u64)
            .map_err(|error| failed("read the record", error))?;
        self.seen[n_bytes..].fill(0);
        if !self.is_block_ours() && self.record().is_some_and(|record| record.is_retired) {
            self.finish_removal(now)?;
            return Ok(Found::Gone);
        }
        if !self.is_in_place(now)? {
            return Ok(Found::Gone);
        }
        let arrivals = number(&self.seen, ARRIVALS_AT - RECORD_AT);
        if order == Order::FirstCome && self.empty_at != Some(arrivals) {
            if !self.is_line_empty()? {
                return Ok(Found::Line);
            }
            self.empty_at = Some(arrivals);
        }
        Ok(Found::Ready)
    }

    pub(super) fn is_line_empty(&self) -> Result<bool> {
        queue::is_empty(&self.file).map_err(|errno| failed("look at the line", errno.into()))
    }

    /// Whether this is certainly no stranger's file, so that we may write our arrival into it.
    /// Somebody may just be filling it: then the answer is no, for now.
    pub(super) fn may_be_joined(&mut self) -> Result<bool> {
        if !self.is_known {
            let page = Page::read(&self.file).map_err(|error| failed("read the file", error))?;
            match page.contents() {
                Contents::Blank => return Ok(true),
                Contents::Ours(Some(key)) if key == self.key.as_str() => self.is_known = true,
                Contents::Ours(_) | Contents::Newer(_) | Contents::Foreign => {}
            }
        }
        Ok(self.is_known)
    }

    /// With the lock in hand, what is not ours now never will be.
    fn get_to_know(&mut self) -> Result<()> {
        let page = Page::read(&self.file).map_err(|error| failed("read the file", error))?;
        let name = &self.name;
        match page.contents() {
            // It becomes known when it gets its first numbers.
            Contents::Blank => return Ok(()),
            Contents::Ours(Some(key)) if key == self.key.as_str() => {}
            Contents::Ours(None) => {
                let mut repaired = Page::new(self.key.as_str());
                repaired.set_slots(page.slots());
                repaired
                    .write_head(&self.file)
                    .map_err(|error| failed(format!("repair {name}"), error))?;
            }
            Contents::Ours(Some(other)) => {
                return Err(Error::refused(format!(
                    "{name} belongs to the key {other:?}; somebody moved it: move it back or remove it"
                )));
            }
            Contents::Newer(version) => {
                return Err(Error::refused(format!(
                    "{name} has version {version}, which this program does not know; update it"
                )));
            }
            Contents::Foreign => {
                return Err(Error::refused(format!(
                    "{name} is not a lock file; move it away or use another folder"
                )));
            }
        }
        self.is_known = true;
        Ok(())
    }

    fn record(&self) -> Option<Record> {
        Record::decode(&self.seen[..RECORD_BYTES])
    }

    fn is_block_ours(&self) -> bool {
        self.seen[..RECORD_BYTES] == self.block.record
    }

    /// Somebody died between the mark and the removal.
    fn finish_removal(&mut self, now: Moment) -> Result<()> {
        if self.check_place(now)? {
            self.folder.remove(&self.name)?;
        }
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !self.is_handed_out() {
            // Closing frees it as well, unless a forked child has it open too.
            let _ = self.unlock();
        }
    }
}
