//! What is asked of every server to take a lock, and what its answer means.

use std::time::Duration;

use super::{
    ASK, LIFT, RELEASE,
    names::{Names, Prefix},
    tally::Vote,
};
use crate::{
    engine::error::Result,
    engines::redis::wire::{call::Call, digits::Digits, refusal::unexpected, resp::Value},
};

/// How many turns of a line one grant may serve. A free key is granted so often that more would use
/// the counter up faster than the clock goes.
pub(super) const TURNS: u32 = 32;
/// A fence below this comes from a counter that was not there: it began at zero.
pub(super) const SMALLEST_FENCE: u64 = 1_000_000_000_000_000;

/// Who asks. What a server has for a claim is known by its owner and the round: whatever was given
/// back ends a round, so that a release that is late cannot undo what came after it.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) owner: [u8; 32],
    pub(super) round: u64,
}

impl Asker {
    /// What stands at the key while it is ours. No other library writes such a sign behind 32 digits: so
    /// one look tells that it is a lock of a majority.
    pub(super) fn value(&self) -> Vec<u8> {
        [&self.owner[..], b"~", Digits::of(self.round).as_bytes()].concat()
    }

    /// Gives back what this round or an earlier one has got. Most answers are not waited for, so
    /// nobody would see that a server does not know the script.
    pub(super) fn release(&self, lock: &[u8]) -> Call {
        Call::sure_script(&RELEASE, lock, &self.value())
    }
}

/// One attempt, the same for every server.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) names: &'a Names,
    prefix: &'a Prefix,
    asker: &'a Asker,
    ttl_ms: u64,
    way: Way,
    /// What most servers are sent.
    pub(super) usual: Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Takes the key if it is free, which needs no script.
    Take,
    /// Takes it also if it is ours already.
    Ask,
}

impl<'a> Question<'a> {
    pub(super) fn new(
        names: &'a Names,
        prefix: &'a Prefix,
        asker: &'a Asker,
        ttl_ms: u64,
        way: Way,
    ) -> Self {
        let mut question = Self { names, prefix, asker, ttl_ms, way, usual: Call::new() };
        match way {
            Way::Take => {
                let (value, ttl) = (asker.value(), Digits::of(ttl_ms));
                let usual = &mut question.usual;
                usual.add(&[b"SET", &names.lock, &value, b"NX", b"PX", ttl.as_bytes()]);
                usual.add(&[b"INCRBY", &names.counter, Digits::of(TURNS.into()).as_bytes()]);
            }
            Way::Ask => question.usual = question.ask(&names.counter),
        }
        question
    }

    fn ask(&self, counter: &[u8]) -> Call {
        Call::script(
            &ASK,
            &[&self.names.lock, counter],
            &[
                &self.asker.owner,
                Digits::of(self.asker.round).as_bytes(),
                Digits::of(self.ttl_ms).as_bytes(),
                Digits::of(TURNS.into()).as_bytes(),
            ],
        )
    }

    /// What a server is sent whose counter was not lifted to its time yet.
    pub(super) fn lifting(&self) -> Call {
        let mut call = lift(&self.names.counter);
        call.bytes.extend_from_slice(&self.usual.bytes);
        call.n_replies += self.usual.n_replies;
        call
    }

    /// What a cluster is sent, where a counter stands beside its lock.
    pub(super) fn in_cluster(&self) -> Call {
        let counter = self.prefix.counter_in(self.names.slot);
        let mut call = lift(&counter);
        let ask = self.ask(&counter);
        call.bytes.extend_from_slice(&ask.bytes);
        call.n_replies += ask.n_replies;
        call
    }

    /// Takes numbers for a lock that is ours already, from a counter that was not there.
    pub(super) fn numbers(&self) -> Call {
        let counter = &self.names.counter;
        let mut call = lift(counter);
        call.add(&[b"INCRBY", counter, Digits::of(TURNS.into()).as_bytes()]);
        call
    }

    /// What a server's answer means.
    pub(super) fn read(&self, replies: &[Value]) -> Result<Vote> {
        match (self.way, replies) {
            (_, [.., Value::List(answer)]) => read_answer(answer),
            (Way::Take, [.., Value::Okay, Value::Int(last)]) => {
                u64::try_from(*last).ok().map(Vote::Granted)
            }
            (Way::Take, [.., Value::Nil, Value::Int(_)]) => Some(Vote::Busy(None)),
            _ => None,
        }
        .ok_or_else(|| unexpected(replies))
    }
}

fn read_answer(answer: &[Value]) -> Option<Vote> {
    let [how, number] = answer else { return None };
    let number = number.as_int()?;
    match how.as_text()? {
        "granted" => u64::try_from(number).ok().map(Vote::Granted),
        "kept" => u64::try_from(number).ok().map(Vote::Kept),
        "busy" => Some(Vote::Busy(u64::try_from(number).ok().map(Duration::from_millis))),
        _ => None,
    }
}

/// As a whole text: if the server did not know the script, what is sent with it would run twice.
fn lift(counter: &[u8]) -> Call {
    Call::of(&[b"EVAL", LIFT.as_bytes(), b"1", counter])
}
