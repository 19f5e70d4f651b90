//! Where the parts of a lock stand at the server.

use crate::{
    engine::{
        error::{Error, Result},
        key::Key,
    },
    engines::redis::wire::{
        bucket_set::BucketSet,
        resp::push_word,
        slot::{N_SLOTS, Slot, crc16},
    },
};

/// The names of one key: all of them in one slot of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Keys share fence counters by bucket, so that a counter outlives the keys that use it.
    pub(super) bucket: u16,
    pub(super) slot: Slot,
    /// The lock's name as a word of a command: every call has it.
    lock_word: Vec<u8>,
    /// Where the name begins in it, and where what is common to all names ends.
    start: usize,
    common_end: usize,
}

/// What stands before the bucket.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(prefix: Option<&str>) -> Result<Self> {
        let prefix = prefix.unwrap_or("lk");
        if prefix.contains(['{', '}']) {
            return Err(Error::bad_options("the parameter \"prefix\" must not have braces in it"));
        }
        Ok(Self(prefix.to_owned()))
    }

    pub(super) fn names(&self, key: &Key) -> Names {
        let key = key.as_str().as_bytes();
        let bucket = crc16(key) % BucketSet::N_BITS;
        let digit = |place: u16| b"0123456789abcdef"[usize::from(bucket >> place & 15)];
        let tag = [digit(8), digit(4), digit(0)];
        let prefix = self.0.as_bytes();
        let mut lock_word = Vec::new();
        push_word(&mut lock_word, &[prefix, b":{", &tag, b"}k:", key]);
        let start = lock_word.len() - "\r\n".len() - key.len() - ":{000}k:".len() - prefix.len();
        let common_end = start + prefix.len() + ":{000}".len();
        Names { bucket, slot: Slot(crc16(&tag) % N_SLOTS), lock_word, start, common_end }
    }

    /// What finds every lock.
    pub(super) fn pattern(&self) -> String {
        let mut pattern = String::new();
        for c in self.0.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + ":{???}k:*"
    }

    /// The key that a name found with the pattern is of.
    pub(super) fn key_of(&self, name: &str) -> Option<Key> {
        Key::new(name.get(self.0.len() + ":{000}k:".len()..)?).ok()
    }
}

impl Names {
    /// The name of the lock, packed for a command.
    pub(super) fn lock_word(&self) -> &[u8] {
        &self.lock_word
    }

    /// The name of the lock.
    pub(super) fn lock(&self) -> &[u8] {
        &self.lock_word[self.start..self.lock_word.len() - "\r\n".len()]
    }

    /// The names of lock, line and counter, packed for a command.
    pub(super) fn all_words(&self) -> Vec<u8> {
        let mut words = self.lock_word.clone();
        push_word(&mut words, &self.line());
        push_word(&mut words, &self.counter());
        words
    }

    /// What the names have in common.
    fn common(&self) -> &[u8] {
        &self.lock_word[self.start..self.common_end]
    }

    /// The name of the fence counter, in parts.
    pub(super) fn counter(&self) -> [&[u8]; 2] {
        [self.common(), b"n"]
    }

    /// The name of the line, in parts.
    pub(super) fn line(&self) -> [&[u8]; 3] {
        [self.common(), b"l", &self.lock()[self.common().len() + "k".len()..]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_lock_share_a_slot_and_no_two_keys_meet() {
        let prefix = Prefix::new(Some("a*b")).unwrap();
        for name in ["invoice:42", "{x}", "}", "k:", "é"] {
            let key = Key::new(name).unwrap();
            let names = prefix.names(&key);
            for part in [names.lock(), &names.line().concat(), &names.counter().concat()] {
                assert_eq!(Slot::of(part), names.slot, "{name}");
            }
            let lock = String::from_utf8(names.lock().to_vec()).unwrap();
            assert_eq!(prefix.key_of(&lock), Some(key));
        }
        assert_eq!(prefix.pattern(), r"a\*b:{???}k:*");
        assert!(Prefix::new(Some("{a}")).is_err());
    }
}
