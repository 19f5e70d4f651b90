//! The wait for a message on the channel of a lock: one subscription for each channel and connection,
//! as long as anybody waits there.

use std::sync::Arc;

use crate::{
    engine::Moment,
    engines::{
        net::listener::Listener,
        redis::{
            dialects::foreign_claim::Shared,
            wire::{
                call::Call,
                connection::{Connection, Haste, Use},
                slot::Slot,
            },
        },
    },
    tools::fork::Origin,
};

#[derive(Debug)]
pub(super) struct Listening {
    shared: Arc<Shared>,
    channel: Vec<u8>,
    listener: Arc<Listener>,
    at: Vec<Arc<Connection>>,
    origin: Origin,
}

impl Listening {
    pub(super) fn new(shared: &Arc<Shared>, channel: Vec<u8>) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, channel, listener: Arc::default(), at: Vec::new(), origin: Origin::here() }
    }

    /// Listens at this connection: what is sent there from now on finds the subscription standing. In a
    /// cluster it listens also on the channel of the slot, over another connection.
    ///
    /// Whether it may listen at all is for the server to say; who may not asks again by itself.
    pub(super) async fn begin(&mut self, at: Arc<Connection>, now: Moment) {
        let slot = Slot::of(&self.channel);
        let shard = self.shared.client.reach_shard(slot, now).await.unwrap_or_default();
        let wanted: Vec<_> = std::iter::once(at).chain(shard).collect();
        let is_same = |(known, at): (&Arc<Connection>, _)| Arc::ptr_eq(known, at);
        if self.at.len() == wanted.len()
            && self.at.iter().zip(&wanted).all(is_same)
            && !self.at.iter().any(|at| at.has_ended())
        {
            return;
        }
        self.end();
        for at in &wanted {
            at.listeners.add(&self.channel, &self.listener);
            self.subscribe(at);
        }
        self.at = wanted;
    }

    /// Listens no more.
    pub(super) fn end(&mut self) {
        for at in std::mem::take(&mut self.at) {
            // In a forked child the connection is the parent's.
            if !self.origin.is_here() || !at.listeners.remove(&self.channel, &self.listener) {
                continue;
            }
            self.send(&at, [b"UNSUBSCRIBE", b"SUNSUBSCRIBE"]);
            if at.listeners.has(&self.channel) {
                // Somebody came meanwhile, whose subscription this has ended.
                self.subscribe(&at);
                at.listeners.tell(&self.channel, b"");
            }
        }
    }

    /// Once more does no harm.
    fn subscribe(&self, at: &Connection) {
        self.send(at, [b"SUBSCRIBE", b"SSUBSCRIBE"]);
    }

    /// Sends one of two commands about the channel: for all servers, or for those of its slot.
    fn send(&self, at: &Connection, [for_all, for_slot]: [&[u8]; 2]) {
        if at.is_for(Use::Shards) {
            at.send_unheard(&Call::of(&[for_slot, &self.channel]));
        } else {
            let call = Call::of(&[for_all, &self.channel]);
            // Nobody waits for the answer, so nobody counts how long it takes.
            drop(at.send(&call, Moment::NEVER, Haste::Later));
        }
    }

    pub(super) async fn told(&self) {
        self.listener.rung().await;
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
