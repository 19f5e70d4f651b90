//! How many faults of each kind there were.

use std::{collections::BTreeMap, fmt};

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(BTreeMap<&'static str, usize>);

impl Tally {
    pub(crate) fn count(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    pub(crate) fn of(&self, kind: &str) -> usize {
        self.0.get(kind).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.0.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        f.write_str(&kinds.join(", "))
    }
}
