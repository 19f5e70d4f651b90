//! The guards of one owner that share a turn, each with a maximum hold of its own.

use std::collections::BTreeMap;

use super::seat::OwnerNumber;
use crate::time::clock::Moment;

/// Who shares a turn, and until when.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) owner: OwnerNumber,
    n_without_maximum: usize,
    /// How many guards end at each of these moments.
    maxima: BTreeMap<Moment, usize>,
}

impl Sharing {
    /// The guards of this owner; there is none yet.
    pub(super) fn of(owner: OwnerNumber) -> Self {
        Self { owner, n_without_maximum: 0, maxima: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, ends_at: Moment) {
        match ends_at {
            Moment::NEVER => self.n_without_maximum += 1,
            _ => *self.maxima.entry(ends_at).or_default() += 1,
        }
    }

    pub(super) fn remove(&mut self, ends_at: Moment) {
        if ends_at == Moment::NEVER {
            self.n_without_maximum = self.n_without_maximum.saturating_sub(1);
        } else if let Some(n) = self.maxima.get_mut(&ends_at) {
            *n -= 1;
            if *n == 0 {
                self.maxima.remove(&ends_at);
            }
        }
    }

    /// When the last of them ends; nothing if there is none left.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        match self.n_without_maximum {
            0 => self.maxima.last_key_value().map(|(ends_at, _)| *ends_at),
            _ => Some(Moment::NEVER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_lasts_as_long_as_its_longest_guard() {
        let (mut sharing, at) = (Sharing::of(1), Moment::from_nanos);
        assert_eq!(sharing.ends_at(), None);
        let ends = [at(5), at(7), at(7), Moment::NEVER, Moment::NEVER];
        ends.into_iter().for_each(|ends_at| sharing.add(ends_at));
        let mut left = Vec::new();
        for ends_at in ends.into_iter().rev() {
            left.push(sharing.ends_at());
            sharing.remove(ends_at);
        }
        assert_eq!(left, [Moment::NEVER, Moment::NEVER, at(7), at(7), at(5)].map(Some));
        assert_eq!(sharing.ends_at(), None);
    }
}
