//! The common way: a free key, and a connection that is there. One trip each, and as little ado as can be.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{NativeClaim, SMALLEST_FENCE, Stage, Way};
use crate::{
    engine::{Attempt, Grant, Moment, error::Result},
    engines::redis::{
        dialects::native::{
            RELEASE_MANY,
            packing::{Keys, PackedTake, Releasing, push_early_reply, push_release, push_take},
        },
        wire::{
            connection::Haste,
            digits::Digits,
            hex::millis,
            outbox::{Caller, Release},
            reply::Answer,
            resp::Value,
        },
    },
};

impl NativeClaim {
    /// Asks for the key as if it were free, without a script, if that can be done right now.
    pub(super) fn take_at_once(&mut self, now: Moment) -> bool {
        let slot = self.names.slot;
        let Some(at) = self.shared.client.at_hand_again(&mut self.last_connection, slot, now)
        else {
            return false;
        };
        if self.shared.client.is_single() && !at.lifted.has(self.names.bucket) {
            return false;
        }
        (self.stage, self.way) = (Stage::Unsure, Way::Take);
        let answer = Arc::clone(Answer::kept(&mut self.answer, 2));
        at.send_packed(answer, now, Haste::of_caller(), |out| self.push_take(out));
        self.at = Some(at);
        true
    }

    /// What came of it, if the key was free and nothing else is out of the ordinary.
    pub(super) fn poll_take(&mut self, context: &Context<'_>) -> Poll<Result<Option<Attempt>>> {
        let Some(answer) = &self.answer else { return Poll::Ready(Ok(None)) };
        let set = ready!(answer.poll(context, |replies| Set::of(replies)))?;
        Poll::Ready(Ok(self.taken(set).map(Attempt::Granted)))
    }

    /// The grant, if the key was free and nothing else is out of the ordinary.
    fn taken(&mut self, set: Set) -> Option<Grant> {
        if !self.is_again {
            // It may be held for long, and never be wanted again.
            self.answer = None;
        }
        match set {
            Set::Numbered(last) => return Some(self.granted(last)),
            Set::Not => {
                // No need to ask in the same way again.
                self.stage = Stage::Nothing;
                self.shared.contended.add(self.names.bucket);
            }
            Set::Refused => (self.stage, self.way) = (Stage::Nothing, Way::Neither),
            // Whatever it is, it will show again; but it is an answer.
            Set::Strange => (self.way, self.at) = (Way::Neither, None),
        }
        None
    }

    pub(super) fn push_take(&mut self, out: &mut Vec<u8>) {
        let packed = self.packed.as_mut();
        if let Some(packed) = packed.and_then(|packed| packed.for_owner(&self.owner, self.since)) {
            out.extend_from_slice(packed);
            return;
        }
        let (start, since) = (out.len(), Digits::of(self.since));
        let (value, ttl_ms) = (self.value(since.as_bytes()), millis(self.request.ttl));
        let value_at = push_take(out, &self.names, &value, ttl_ms, self.numbering()) - start;
        if self.is_again {
            self.packed = Some(PackedTake::new(&out[start..], value_at, self.since));
        }
    }

    /// What stands at the key while it is ours, in parts.
    pub(super) fn value<'a>(&'a self, since: &'a [u8]) -> [&'a [u8]; 6] {
        let (whose, label) = (self.shared.whose.as_bytes(), self.request.label.as_bytes());
        [&self.owner, b"|", since, b"|", whose, label]
    }

    /// Sends the release of a lock that is ours for certain, if that can be done right now.
    pub(super) fn release_at_once(&mut self, now: Moment) -> bool {
        let client = &self.shared.client;
        if self.stage != Stage::Holds || !self.unanswered.is_empty() || self.released_at.is_some() {
            return false;
        }
        let Some(at) = client.at_hand_again(&mut self.last_connection, self.names.slot, now) else {
            return false;
        };
        let how = self.releasing_at(&at);
        let is_contended = matches!(self.keys(), Keys::All(_));
        let answer = Arc::clone(Answer::kept(&mut self.answer, 1 + u8::from(is_contended)));
        let haste = Haste::of_caller();
        match self.keys() {
            keys @ Keys::Lock(lock_word) if matches!(how, Releasing::Freely { .. }) => {
                let caller = Caller { answer, again: None };
                let (one, many) = (how.script(keys), &*RELEASE_MANY);
                let release = Release { one, many, lock_word, owner: &self.owner };
                at.send_release(caller, now, haste, release, None);
            }
            keys => at.send_packed(answer, now, haste, |out| {
                if is_contended {
                    push_early_reply(out);
                }
                push_release(out, keys, &self.owner, how);
            }),
        }
        self.released_at = Some(at);
        true
    }
}

/// What came of setting the key.
#[derive(Clone, Copy, Debug)]
enum Set {
    /// It is ours, and these are the numbers up to this one.
    Numbered(i64),
    Not,
    Refused,
    Strange,
}

impl Set {
    fn of(replies: &[Value]) -> Self {
        match replies {
            [Value::Okay, Value::Int(last)] if *last >= SMALLEST_FENCE => Self::Numbered(*last),
            [Value::Nil, _] => Self::Not,
            [Value::Error(_), _] => Self::Refused,
            _ => Self::Strange,
        }
    }
}
