//! Releases that are sent behind attempts without an answer.

use std::sync::Arc;

use super::client::Client;
use crate::{
    engine::Moment,
    engines::redis::wire::{call::Call, connection::Connection},
};

/// Sends a release behind every attempt that may still be on its way, at the latest when it is dropped: also if
/// nobody waits any more for the answer to another release.
///
/// That other release, whose answer tells whether the lock was still ours, has to go first: these name the same
/// owner, and would leave it nothing to find.
#[derive(Debug)]
pub(crate) struct Behind<'a> {
    pub(crate) client: &'a Client,
    pub(crate) release: &'a Call,
    pub(crate) attempted_at: Vec<Arc<Connection>>,
    pub(crate) now: Moment,
}

impl Behind<'_> {
    pub(crate) fn send(&mut self) {
        for at in self.attempted_at.drain(..) {
            self.client.send_behind(&at, self.release, self.now);
        }
    }
}

impl Drop for Behind<'_> {
    fn drop(&mut self) {
        self.send();
    }
}
