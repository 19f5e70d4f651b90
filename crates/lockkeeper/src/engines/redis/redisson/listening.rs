//! The wait for a message on the channel of a lock: one subscription for each channel and connection,
//! as long as anybody waits there.

use std::sync::Arc;

use super::super::{
    call::Call,
    connection::{Connection, Haste},
    ear::Ear,
    stake::Shared,
};
use crate::fork::Origin;

#[derive(Debug)]
pub(super) struct Listening {
    shared: Arc<Shared>,
    channel: Vec<u8>,
    ear: Arc<Ear>,
    at: Option<Arc<Connection>>,
    origin: Origin,
}

impl Listening {
    pub(super) fn new(shared: &Arc<Shared>, channel: Vec<u8>) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, channel, ear: Arc::default(), at: None, origin: Origin::here() }
    }

    /// Listens at this connection: what is sent there from now on finds the subscription standing.
    ///
    /// Whether it may listen at all is for the server to say; who may not asks again by itself.
    pub(super) fn begin(&mut self, at: &Arc<Connection>) {
        let is_known = self.at.as_ref().is_some_and(|known| Arc::ptr_eq(known, at));
        if is_known && !at.has_ended() {
            return;
        }
        self.end();
        at.ears.add(&self.channel, &self.ear);
        self.subscribe(at);
        self.at = Some(Arc::clone(at));
    }

    /// Listens no more.
    pub(super) fn end(&mut self) {
        let Some(at) = self.at.take() else { return };
        // In a forked child the connection is the parent's.
        if !self.origin.is_here() || !at.ears.remove(&self.channel, &self.ear) {
            return;
        }
        let call = Call::of(&[b"UNSUBSCRIBE", &self.channel]);
        drop(at.send(&call, self.shared.client.latest(), Haste::Later));
        if at.ears.has(&self.channel) {
            // Somebody came meanwhile, whose subscription this has ended.
            self.subscribe(&at);
            at.ears.tell(&self.channel, b"");
        }
    }

    /// Once more does no harm.
    fn subscribe(&self, at: &Connection) {
        let call = Call::of(&[b"SUBSCRIBE", &self.channel]);
        drop(at.send(&call, self.shared.client.latest(), Haste::Later));
    }

    pub(super) async fn told(&self) {
        self.ear.rung().await;
    }

    pub(super) fn channel(&self) -> &[u8] {
        &self.channel
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}
