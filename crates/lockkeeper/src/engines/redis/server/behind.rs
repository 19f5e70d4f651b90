//! Releases that are sent after attempts that got no response.

use std::sync::Arc;

use super::client::Client;
use crate::{
    engine::Moment,
    engines::redis::wire::{call::Call, connection::Connection},
};

/// Sends a release on every connection that may still carry an attempt. The releases are sent at the latest when this
/// value is dropped, even if the caller has stopped waiting for the main release.
///
/// The main release, whose response says whether the lock was still ours, must be sent first: these releases name the
/// same owner, and would remove the lock before the main release finds it.
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
