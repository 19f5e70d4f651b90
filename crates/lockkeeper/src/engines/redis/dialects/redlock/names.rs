//! Where a lock and its fence counter stand at the servers.

use std::sync::LazyLock;

use crate::{
    engine::{
        error::{Error, Result},
        key::Key,
    },
    engines::redis::wire::{
        bucket_set::BucketSet,
        digits::Digits,
        slot::{N_SLOTS, Slot, crc16},
    },
};

#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) lock: Vec<u8>,
    pub(super) slot: Slot,
    /// Keys share fence counters by bucket, so that a counter outlives the keys that use it.
    pub(super) bucket: u16,
    pub(super) counter: Vec<u8>,
}

/// What stands before every key.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(prefix: String) -> Result<Self> {
        if prefix.contains(['{', '}']) {
            return Err(Error::bad_options("the parameter \"prefix\" must not have braces in it"));
        }
        Ok(Self(prefix))
    }

    pub(super) fn names(&self, key: &Key) -> Names {
        let lock = [self.0.as_bytes(), key.as_str().as_bytes()].concat();
        let bucket = crc16(&lock) % BucketSet::N_BITS;
        let counter = self.counter(bucket.into());
        Names { slot: Slot::of(&lock), lock, bucket, counter }
    }

    /// The counter of a key in a cluster, where all that one script touches must be in one slot.
    pub(super) fn counter_in(&self, slot: Slot) -> Vec<u8> {
        self.counter(NUMBERS[usize::from(slot.0)])
    }

    fn counter(&self, number: u32) -> Vec<u8> {
        [self.0.as_bytes(), b"lk:fence:{", Digits::of(number.into()).as_bytes(), b"}"].concat()
    }
}

/// For each slot a number whose digits are in it.
static NUMBERS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut numbers = vec![None; N_SLOTS.into()];
    let mut n_missing = numbers.len();
    for number in 0.. {
        let slot = Slot::of(number.to_string().as_bytes());
        let known: &mut Option<u32> = &mut numbers[usize::from(slot.0)];
        if known.is_none() {
            *known = Some(number);
            n_missing -= 1;
        }
        if n_missing == 0 {
            break;
        }
    }
    numbers.into_iter().flatten().collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_called_what_the_key_is_called() {
        let key = Key::new("invoice:{42}").unwrap();
        let names = Prefix::new(String::new()).unwrap().names(&key);
        assert_eq!(names.lock, b"invoice:{42}");
        let names = Prefix::new("redlock:".into()).unwrap().names(&key);
        assert_eq!(names.lock, b"redlock:invoice:{42}");
        assert!(Prefix::new("{a}".into()).is_err());
    }

    #[test]
    fn in_a_cluster_the_counter_is_where_the_lock_is() {
        let prefix = Prefix::new("a:".into()).unwrap();
        for slot in (0..N_SLOTS).step_by(97).map(Slot) {
            assert_eq!(Slot::of(&prefix.counter_in(slot)), slot);
        }
    }
}
