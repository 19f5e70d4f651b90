//! The record of a key file: numbers given out, and who holds.

use super::layout::{checksum, number};

pub(in super::super) const RECORD_BYTES: usize = 160;

/// Longer labels are cut.
const MAX_LABEL: usize = 64;
const RETIRED: u32 = 1;

pub(in super::super) type RecordBytes = [u8; RECORD_BYTES];

/// What the holder of the lock writes down. Only it may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Record {
    /// The boot of the machine during which this was written: later ones cannot trust it, because
    /// a power loss may have brought back an older record.
    pub(in super::super) boot: u128,
    /// The first number not given out yet.
    pub(in super::super) end: u64,
    /// The first number that may not be given out before a mark above it is durable.
    pub(in super::super) mark: u64,
    pub(in super::super) fence: u64,
    pub(in super::super) since_us: u64,
    pub(in super::super) owner: u128,
    pub(in super::super) pid: u32,
    /// The file is about to be removed, or is already: whoever opened it must open it again.
    pub(in super::super) is_retired: bool,
    pub(in super::super) label: String,
}

impl Record {
    pub(in super::super) fn encode(&self) -> RecordBytes {
        let mut bytes = [0; RECORD_BYTES];
        let label = shortened(&self.label).as_bytes();
        bytes[8..24].copy_from_slice(&self.boot.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.end.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.fence.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.since_us.to_le_bytes());
        bytes[56..72].copy_from_slice(&self.owner.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.pid.to_le_bytes());
        bytes[76..80].copy_from_slice(&if self.is_retired { RETIRED } else { 0 }.to_le_bytes());
        bytes[80..84].copy_from_slice(&(label.len() as u32).to_le_bytes());
        bytes[88..88 + label.len()].copy_from_slice(label);
        let sum = checksum(&bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None` if it is damaged, or was never written.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_BYTES)?;
        if number(bytes, 0) != checksum(&bytes[8..]) {
            return None;
        }
        let wide = |at| u128::from(number(bytes, at)) | u128::from(number(bytes, at + 8)) << 64;
        let n_label = (number(bytes, 80) as u32 as usize).min(MAX_LABEL);
        Some(Self {
            boot: wide(8),
            end: number(bytes, 24),
            mark: number(bytes, 32),
            fence: number(bytes, 40),
            since_us: number(bytes, 48),
            owner: wide(56),
            pid: number(bytes, 72) as u32,
            is_retired: (number(bytes, 72) >> 32) as u32 & RETIRED != 0,
            label: String::from_utf8_lossy(&bytes[88..88 + n_label]).into_owned(),
        })
    }
}

fn shortened(label: &str) -> &str {
    let mut n_bytes = label.len().min(MAX_LABEL);
    while !label.is_char_boundary(n_bytes) {
        n_bytes -= 1;
    }
    &label[..n_bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        Record {
            boot: 1 << 100 | 5,
            end: u64::MAX - 1,
            mark: u64::MAX,
            fence: 3,
            since_us: 4,
            owner: 6 << 90 | 7,
            pid: 8,
            is_retired: true,
            label: "nightly".into(),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        assert_eq!(Record::decode(&sample().encode()), Some(sample()));
        let plain = Record { is_retired: false, label: String::new(), ..sample() };
        assert_eq!(Record::decode(&plain.encode()), Some(plain));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let bytes = sample().encode();
        for at in 0..RECORD_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x40;
            assert_eq!(Record::decode(&damaged), None, "byte {at}");
            assert_eq!(Record::decode(&bytes[..at]), None, "cut at {at}");
        }
        assert_eq!(Record::decode(&[0; RECORD_BYTES]), None);
    }

    #[test]
    fn long_labels_are_cut_between_characters() {
        let label = "é".repeat(40);
        let record = Record { label, ..sample() };
        assert_eq!(Record::decode(&record.encode()).unwrap().label, "é".repeat(32));
    }
}
