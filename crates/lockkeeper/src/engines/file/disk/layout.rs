//! Where what stands in a key file.
//!
//! ```text
//!    0  header    magic, version, checksum, the key
//! 1024  slot 0    a number no fence has passed yet, with checksum
//! 1536  slot 1    the same; the lower of the two is the one to be overwritten
//! 2048  record    numbers given out, and who holds; with checksum
//! 2208  arrivals  changes whenever somebody joins the line
//! ```
//!
//! Each of header, slots and record begins a disk sector, so that a write torn by a power loss
//! damages one of them at most.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{
    ledger::{self, Slots},
    record::{RECORD_BYTES, Record},
};
use crate::engine::key::Key;

pub(in super::super) const SLOTS_AT: [usize; 2] = [1024, 1536];
pub(in super::super) const RECORD_AT: usize = 2048;
pub(in super::super) const ARRIVALS_AT: usize = RECORD_AT + RECORD_BYTES;
pub(in super::super) const FILE_BYTES: usize = ARRIVALS_AT + 8;

const MAGIC: [u8; 8] = *b"lockkeep";
const VERSION: u32 = 1;
const CHECKSUM_AT: usize = 16;
const KEY_AT: usize = 24;

/// A whole file, as read or as about to be written.
#[derive(Clone)]
pub(in super::super) struct Page {
    bytes: [u8; FILE_BYTES],
    is_longer: bool,
}

/// What a file turns out to be.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Contents {
    /// Nothing in it, or nothing but zeros after a power loss.
    Blank,
    /// One of ours; `None` if the key was damaged.
    Ours(Option<String>),
    /// One of ours, but from a version that we do not know.
    Newer(u32),
    /// Somebody else's.
    Foreign,
}

impl Page {
    pub(in super::super) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; FILE_BYTES + 1];
        let n_bytes = file.read_at(&mut bytes, 0)?;
        let mut page = Self { bytes: [0; FILE_BYTES], is_longer: n_bytes > FILE_BYTES };
        page.bytes.copy_from_slice(&bytes[..FILE_BYTES]);
        Ok(page)
    }

    /// A file for `key` without numbers yet.
    pub(in super::super) fn new(key: &str) -> Self {
        let mut bytes = [0; FILE_BYTES];
        let key = &key.as_bytes()[..key.len().min(Key::MAX_BYTES)];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        // A key has at most 512 bytes.
        bytes[12..16].copy_from_slice(&(key.len() as u32).to_le_bytes());
        bytes[CHECKSUM_AT..KEY_AT].copy_from_slice(&checksum(key).to_le_bytes());
        bytes[KEY_AT..KEY_AT + key.len()].copy_from_slice(key);
        Self { bytes, is_longer: false }
    }

    pub(in super::super) fn contents(&self) -> Contents {
        if self.bytes[..8] != MAGIC {
            // Somebody may stand in line at a file that nobody has filled yet.
            let is_blank =
                !self.is_longer && self.bytes[..ARRIVALS_AT].iter().all(|byte| *byte == 0);
            return if is_blank { Contents::Blank } else { Contents::Foreign };
        }
        match number(&self.bytes, 8) as u32 {
            VERSION => Contents::Ours(self.key()),
            version => Contents::Newer(version),
        }
    }

    fn key(&self) -> Option<String> {
        let n_bytes = (number(&self.bytes, 8) >> 32) as usize;
        let key = self.bytes.get(KEY_AT..KEY_AT.checked_add(n_bytes)?)?;
        let is_whole =
            n_bytes <= Key::MAX_BYTES && number(&self.bytes, CHECKSUM_AT) == checksum(key);
        is_whole.then(|| String::from_utf8(key.to_vec()).ok()).flatten()
    }

    pub(in super::super) fn slots(&self) -> Slots {
        SLOTS_AT.map(|at| ledger::slot_from(&self.bytes[at..]))
    }

    pub(in super::super) fn set_slots(&mut self, slots: Slots) {
        for (at, slot) in SLOTS_AT.into_iter().zip(slots) {
            let bytes = slot.map_or([0; 16], ledger::slot_bytes);
            self.bytes[at..at + 16].copy_from_slice(&bytes);
        }
    }

    pub(in super::super) fn record(&self) -> Option<Record> {
        Record::decode(&self.bytes[RECORD_AT..ARRIVALS_AT])
    }

    /// Writes header and slots; the record and the arrivals are written on their own.
    pub(in super::super) fn write_head(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.bytes[..RECORD_AT], 0)
    }
}

/// The number at this place; 0 where there are no eight bytes.
pub(in super::super) fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// FNV-1a: catches a torn or zeroed write, which is all it is for.
pub(in super::super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_its_key_and_its_slots() {
        let mut page = Page::new("invoice:42");
        assert_eq!(page.contents(), Contents::Ours(Some("invoice:42".into())));
        page.set_slots([Some(7), None]);
        assert_eq!(page.slots(), [Some(7), None]);
        assert_eq!(page.record(), None);
    }

    #[test]
    fn blank_foreign_newer_and_damaged_files_are_told_apart() {
        let mut page = Page { bytes: [0; FILE_BYTES], is_longer: false };
        assert_eq!(page.contents(), Contents::Blank);
        page.bytes[ARRIVALS_AT] = 1;
        assert_eq!(page.contents(), Contents::Blank);
        page.is_longer = true;
        assert_eq!(page.contents(), Contents::Foreign);
        page.is_longer = false;
        page.bytes[3000 % RECORD_AT] = b'x';
        assert_eq!(page.contents(), Contents::Foreign);

        let mut page = Page::new("a");
        page.bytes[KEY_AT] = b'b';
        assert_eq!(page.contents(), Contents::Ours(None));
        page.bytes[8] = 9;
        assert_eq!(page.contents(), Contents::Newer(9));
    }

    #[test]
    fn the_longest_key_does_not_reach_the_slots() {
        let key = "k".repeat(Key::MAX_BYTES);
        let page = Page::new(&key);
        assert_eq!(page.contents(), Contents::Ours(Some(key)));
        assert_eq!(page.slots(), [None, None]);
    }
}
