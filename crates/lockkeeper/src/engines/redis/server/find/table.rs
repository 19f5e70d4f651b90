//! Which server has which slots.

use std::sync::Arc;

use crate::{
    engines::redis::wire::slot::{N_SLOTS, Slot},
    tools::url::Host,
};

/// The server of each slot.
#[derive(Debug)]
pub(crate) struct Table {
    hosts: Vec<Arc<Host>>,
    /// For each slot, the index of its host.
    slots: Box<[u16]>,
}

/// Stands for a slot without a host.
const NOBODY: u16 = u16::MAX;

impl Table {
    pub(crate) fn empty() -> Self {
        Self { hosts: Vec::new(), slots: vec![NOBODY; N_SLOTS.into()].into() }
    }

    /// All slots are at one server.
    pub(crate) fn of_one(host: Host) -> Self {
        let mut table = Self::empty();
        table.set(0, N_SLOTS - 1, host);
        table
    }

    /// Sets the host of the slots from `first` to `last`, both included.
    pub(crate) fn set(&mut self, first: u16, last: u16, host: Host) {
        let known = self.hosts.iter().position(|known| **known == host);
        let number = known.unwrap_or(self.hosts.len());
        if known.is_none() {
            self.hosts.push(Arc::new(host));
        }
        let number = u16::try_from(number).unwrap_or(NOBODY);
        let slots = self.slots.get_mut(usize::from(first)..=usize::from(last));
        slots.into_iter().for_each(|slots| slots.fill(number));
    }

    pub(crate) fn host(&self, slot: Slot) -> Option<Arc<Host>> {
        let number = *self.slots.get(usize::from(slot.0))?;
        self.hosts.get(usize::from(number)).cloned()
    }

    /// All servers that have slots.
    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        let has_slots = |number: usize| self.slots.iter().any(|slot| usize::from(*slot) == number);
        let hosts = self.hosts.iter().enumerate();
        hosts.filter(|(number, _)| has_slots(*number)).map(|(_, host)| Arc::clone(host)).collect()
    }

    /// How many slots have no server.
    pub(crate) fn n_missing(&self) -> usize {
        self.slots.iter().filter(|number| **number == NOBODY).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_knows_the_server_of_every_slot() {
        let host = |port| Host { name: "h".into(), port };
        let mut table = Table::empty();
        assert_eq!((table.host(Slot(0)), table.n_missing()), (None, N_SLOTS.into()));
        table.set(0, 9, host(1));
        table.set(10, N_SLOTS - 1, host(2));
        table.set(5, 5, host(2));
        let port = |slot| table.host(Slot(slot)).map(|host| host.port);
        assert_eq!([port(0), port(5), port(9), port(10)], [Some(1), Some(2), Some(1), Some(2)]);
        assert_eq!((table.n_missing(), table.hosts.len()), (0, 2));
        table.set(0, N_SLOTS, host(3));
        assert_eq!(table.host(Slot(0)).unwrap().port, 1, "there is no such slot");
    }
}
