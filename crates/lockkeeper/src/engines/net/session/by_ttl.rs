//! One session for each distinct ttl.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::Session;
use crate::{engine::Moment, tools::sync::locked};

/// The sessions of one engine. A claim needs a session of its own ttl: with a longer one, a dead holder would keep
/// its lock for longer than it asked for.
#[derive(Debug)]
pub(crate) struct SessionsByTtl<S> {
    list: Mutex<Vec<(Duration, Arc<S>)>>,
    most: usize,
}

impl<S: AsRef<Session> + fmt::Debug> SessionsByTtl<S> {
    /// At most this many sessions: servers limit connections, and every session costs a beat.
    pub(crate) fn at_most(most: usize) -> Self {
        Self { list: Mutex::default(), most }
    }

    /// The session for this ttl; `open` begins to open one if there is none. When there are as many sessions as
    /// there may be, the next longer one serves, or the longest.
    pub(crate) fn get(&self, ttl: Duration, now: Moment, open: impl FnOnce() -> Arc<S>) -> Arc<S> {
        let mut list = locked(&self.list);
        let is_over =
            |(_, session): &mut (Duration, Arc<S>)| session.as_ref().as_ref().over(now).is_some();
        let ended: Vec<_> = list.extract_if(.., is_over).collect();
        let of_this_ttl = list.iter().find(|(known, _)| *known == ttl);
        let found = match of_this_ttl {
            Some((_, session)) => Arc::clone(session),
            None if list.len() < self.most => {
                let session = open();
                list.push((ttl, Arc::clone(&session)));
                session
            }
            None => {
                let longer = list.iter().filter(|(known, _)| *known > ttl);
                let next = longer.min_by_key(|(known, _)| *known);
                let longest = || list.iter().max_by_key(|(known, _)| *known);
                match next.or_else(longest) {
                    Some((_, session)) => Arc::clone(session),
                    None => open(),
                }
            }
        };
        drop(list);
        // A session that ends closes its connection, which is not a matter of this mutex.
        drop(ended);
        found
    }

    /// All sessions that are not known to be over.
    pub(crate) fn all(&self) -> Vec<Arc<S>> {
        locked(&self.list).iter().map(|(_, session)| Arc::clone(session)).collect()
    }
}
