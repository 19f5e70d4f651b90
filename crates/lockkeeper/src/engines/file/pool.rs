//! Files that are open and that nobody is using: opening one costs ten times what locking does.

use std::{collections::HashMap, sync::Mutex};

use super::open_file::OpenFile;
use crate::{key::Key, sync::locked};

/// So many files stay open unused; then the one unused for longest goes.
const MAX_IDLE: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    files: HashMap<Key, (u64, Box<OpenFile>)>,
    n_given: u64,
}

impl Pool {
    pub(super) fn take(&self, key: &Key) -> Option<Box<OpenFile>> {
        locked(&self.0).files.remove(key).map(|(_, file)| file)
    }

    /// Keeps a file, on which nothing is locked; answers the one that has to go for it.
    pub(super) fn give(&self, file: Box<OpenFile>) -> Option<Box<OpenFile>> {
        let mut idle = locked(&self.0);
        idle.n_given += 1;
        let given_at = idle.n_given;
        let second = idle.files.insert(file.key().clone(), (given_at, file));
        let oldest = (idle.files.len() > MAX_IDLE).then(|| idle.take_oldest()).flatten();
        drop(idle);
        // Closing takes its time, so it waits until the others can go on.
        drop(second);
        oldest
    }

    /// Forgets the files without touching them: in a forked child they are the parent's.
    pub(super) fn leave(&mut self) {
        let idle = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (_, (_, file)) in idle.files.drain() {
            Box::leak(file);
        }
    }
}

impl Idle {
    fn take_oldest(&mut self) -> Option<Box<OpenFile>> {
        let oldest = self.files.iter().min_by_key(|(_, (given_at, _))| *given_at)?.0.clone();
        self.files.remove(&oldest).map(|(_, file)| file)
    }
}
