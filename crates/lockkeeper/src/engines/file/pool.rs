//! Files that are open and that nobody is using: opening one costs ten times what locking does.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use super::open_file::OpenFile;
use crate::{engine::key::Key, tools::sync::locked};

/// So many files stay open unused; then the one unused for longest goes.
const MAX_IDLE: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Slots>);

/// A key keeps its slot while its file is in use, so that taking and giving move nothing.
#[derive(Debug, Default)]
struct Slots {
    by_key: HashMap<Key, Slot, foldhash::fast::RandomState>,
    n_given: u64,
}

#[derive(Debug)]
struct Slot {
    given_at: u64,
    file: Option<Box<OpenFile>>,
}

impl Pool {
    pub(super) fn take(&self, key: &Key) -> Option<Box<OpenFile>> {
        locked(&self.0).by_key.get_mut(key)?.file.take()
    }

    /// Keeps a file, on which nothing is locked; answers the one that has to go for it.
    pub(super) fn give(&self, file: Box<OpenFile>) -> Option<Box<OpenFile>> {
        let mut slots = locked(&self.0);
        slots.n_given += 1;
        let given_at = slots.n_given;
        if let Some(slot) = slots.by_key.get_mut(file.key()) {
            slot.given_at = given_at;
            let second = slot.file.replace(file);
            drop(slots);
            // Closing takes its time, so it waits until the others can go on.
            drop(second);
            return None;
        }
        slots.by_key.insert(file.key().clone(), Slot { given_at, file: Some(file) });
        if slots.by_key.len() > MAX_IDLE { slots.take_oldest() } else { None }
    }

    /// Closes all files; answers whether there was any.
    pub(super) fn empty(&self) -> bool {
        let slots = std::mem::take(&mut locked(&self.0).by_key);
        // Closed when the others can go on already.
        slots.values().any(|slot| slot.file.is_some())
    }

    /// Forgets the files without touching them: in a forked child they are the parent's.
    pub(super) fn leave(&mut self) {
        let slots = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for file in slots.by_key.drain().filter_map(|(_, slot)| slot.file) {
            Box::leak(file);
        }
    }
}

impl Slots {
    fn take_oldest(&mut self) -> Option<Box<OpenFile>> {
        let oldest = self.by_key.iter().min_by_key(|(_, slot)| slot.given_at)?.0.clone();
        self.by_key.remove(&oldest)?.file
    }
}
