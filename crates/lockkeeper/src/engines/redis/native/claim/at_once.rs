//! The common way: a free key, and a connection that is there. One trip each, and as little ado as can be.

use super::{
    super::{
        super::{
            connection::Haste,
            reply::Reply,
            resp::{Digits, Value},
            words::millis,
        },
        packing::{push_release, push_take},
    },
    NativeClaim, SMALLEST_FENCE, Stage,
};
use crate::engine::{Grant, Moment};

impl NativeClaim {
    /// Asks for the key as if it were free, without a script, if that can be done right now.
    pub(super) fn take_at_once(&mut self, now: Moment) -> Option<Reply> {
        let (client, bucket) = (&self.shared.client, self.names.bucket);
        let is_plain = self.stage == Stage::Nothing && !client.waits_for_replicas();
        if !is_plain || self.shared.contended.has(bucket) {
            return None;
        }
        let at = client.at_hand(self.names.slot, now).filter(|at| at.lifted.has(bucket))?;
        self.stage = Stage::Unsure;
        let reply = at.send_packed(2, now, Haste::of_caller(), |out| self.push_take(out));
        self.at = Some(at);
        Some(reply)
    }

    /// The grant, if the key was free and nothing else is out of the ordinary.
    pub(super) fn taken(&mut self, replies: &[Value]) -> Option<Grant> {
        match replies {
            [Value::Okay, Value::Int(last)] if *last >= SMALLEST_FENCE => Some(self.granted(*last)),
            [Value::Nil, _] => {
                // No need to ask in the same way again.
                self.stage = Stage::Nothing;
                self.shared.contended.add(self.names.bucket);
                None
            }
            [Value::Error(_), _] => {
                self.stage = Stage::Nothing;
                None
            }
            // Whatever it is, it will show again.
            _ => None,
        }
    }

    pub(super) fn push_take(&self, out: &mut Vec<u8>) {
        let since = Digits::of(self.since_us);
        push_take(out, &self.names, &self.value(since.as_bytes()), millis(self.request.ttl));
    }

    /// What stands at the key while it is ours, in parts.
    pub(super) fn value<'a>(&'a self, since: &'a [u8]) -> [&'a [u8]; 6] {
        let (whose, label) = (self.shared.whose.as_bytes(), self.request.label.as_bytes());
        [&self.owner, b"|", since, b"|", whose, label]
    }

    /// Sends the release of a lock that is ours for certain, if that can be done right now.
    pub(super) fn release_at_once(&mut self) -> Option<Reply> {
        let client = &self.shared.client;
        if self.stage != Stage::Holds || !self.unanswered.is_empty() || self.released_at.is_some() {
            return None;
        }
        let now = client.latest();
        let at = client.at_hand(self.names.slot, now)?;
        let is_lifted = self.is_lifted_at(&at);
        let pack = |out: &mut Vec<u8>| push_release(out, &self.names, &self.owner, is_lifted);
        let reply = at.send_packed(1, now, Haste::of_caller(), pack);
        self.released_at = Some(at);
        Some(reply)
    }
}
