//! One bit for each bucket of keys, set and read by any thread.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct BucketSet(Box<[AtomicU64; 64]>);

impl BucketSet {
    pub(crate) const N_BITS: u16 = 64 * 64;

    pub(crate) fn has(&self, number: u16) -> bool {
        let (word, bit) = Self::at(number);
        self.0[word].load(Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn add(&self, number: u16) {
        let (word, bit) = Self::at(number);
        self.0[word].fetch_or(bit, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, number: u16) {
        let (word, bit) = Self::at(number);
        self.0[word].fetch_and(!bit, Ordering::Relaxed);
    }

    fn at(number: u16) -> (usize, u64) {
        let number = number % Self::N_BITS;
        (usize::from(number / 64), 1 << (number % 64))
    }
}

impl Default for BucketSet {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; 64]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_set_and_cleared_alone() {
        let bits = BucketSet::default();
        bits.add(64);
        bits.add(4095);
        assert!(bits.has(64) && bits.has(4095) && !bits.has(63) && !bits.has(65));
        bits.remove(64);
        assert!(!bits.has(64) && bits.has(4095));
    }
}
