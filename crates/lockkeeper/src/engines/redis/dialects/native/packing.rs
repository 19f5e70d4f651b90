//! The calls that are sent millions of times, packed with as little ado as can be.

use super::{COUNT, RELEASE, RELEASE_ALONE, RELEASE_LIFTED, names::Names, place};
use crate::engines::redis::wire::{
    digits::Digits,
    resp::{push_header, push_word},
    script::Script,
};

/// How many turns of a line one grant of a free key may serve. Such keys are granted so often that more
/// would use the counter up faster than the clock goes. As `count.lua` says.
pub(super) const TURNS_IF_FREE: u32 = 32;

/// How fences are numbered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbering {
    /// By a counter that was lifted to the clock before: there is only one server.
    Counter,
    /// By the server's clock with every grant: another server may have given numbers that this one has
    /// not seen.
    Clock,
}

/// Takes the key if it is free, and numbers for its fences; two replies. Answers where the value begins.
pub(super) fn push_take(
    out: &mut Vec<u8>,
    names: &Names,
    value: &[&[u8]],
    ttl_ms: u64,
    numbering: Numbering,
) -> usize {
    out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
    out.extend_from_slice(names.lock_word());
    push_word(out, value);
    let value_at = out.len() - "\r\n".len() - value.iter().map(|part| part.len()).sum::<usize>();
    out.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
    push_word(out, &[Digits::of(ttl_ms).as_bytes()]);
    match numbering {
        Numbering::Counter => {
            out.extend_from_slice(b"*3\r\n$6\r\nINCRBY\r\n");
            push_word(out, &names.counter());
            push_word(out, &[Digits::of(TURNS_IF_FREE.into()).as_bytes()]);
        }
        Numbering::Clock => {
            for part in [b"*4\r\n", &COUNT.start[..], b"$1\r\n1\r\n"] {
                out.extend_from_slice(part);
            }
            push_word(out, &names.counter());
        }
    }
    value_at
}

/// What was packed to take a key, for the next time: most of it is the same.
#[derive(Debug)]
pub(super) struct PackedTake {
    bytes: Box<[u8]>,
    value_at: usize,
    since: u64,
}

impl PackedTake {
    /// Keeps what was packed; `since` comes after the owner in the value.
    pub(super) fn new(packed: &[u8], value_at: usize, since: u64) -> Self {
        Self { bytes: packed.into(), value_at, since }
    }

    /// The same for another owner, if all else is as it was.
    pub(super) fn for_owner(&mut self, owner: &[u8; 32], since: u64) -> Option<&[u8]> {
        if since != self.since {
            return None;
        }
        self.bytes[self.value_at..self.value_at + owner.len()].copy_from_slice(owner);
        Some(&self.bytes)
    }
}

/// What a script is told the names of, packed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys<'a> {
    Lock(&'a [u8]),
    /// Also the line and the counter, which it will probably need. In a cluster, a script must name all that it
    /// touches: while a slot is on its way, the server looks whether these are here or there.
    All(&'a [u8]),
}

/// Runs a script; arguments may come in parts. Answers where they begin.
pub(super) fn push_script(
    out: &mut Vec<u8>,
    script: &Script,
    keys: Keys<'_>,
    arguments: &[&[&[u8]]],
) -> usize {
    let (n_keys, how_many, words) = match keys {
        Keys::Lock(words) => (1, b"$1\r\n1\r\n", words),
        Keys::All(words) => (3, b"$1\r\n3\r\n", words),
    };
    push_header(out, b'*', 3 + n_keys + arguments.len());
    for part in [&script.start, &how_many[..], words] {
        out.extend_from_slice(part);
    }
    let arguments_at = out.len();
    for argument in arguments {
        push_word(out, argument);
    }
    arguments_at
}

/// Which script releases the lock, or leaves the line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Releasing {
    /// One that finds the line and the counter by itself if it needs them.
    Freely { is_lifted: bool },
    /// One that touches only what it is told the names of.
    InCluster,
}

impl Releasing {
    pub(super) fn script(self, keys: Keys<'_>) -> &'static Script {
        match (self, keys) {
            (Self::Freely { is_lifted: true }, _) => &RELEASE_LIFTED,
            (Self::InCluster, Keys::Lock(_)) => &RELEASE_ALONE,
            (Self::Freely { .. } | Self::InCluster, _) => &RELEASE,
        }
    }
}

/// Releases the lock, or leaves the line; one reply.
pub(super) fn push_release(out: &mut Vec<u8>, keys: Keys<'_>, owner: &[u8], how: Releasing) {
    push_script(out, how.script(keys), keys, &[&[owner]]);
}

/// Gives the server something to say to us before a release; one reply. It writes first to the one whom it
/// came to have something for last: so the one who is handed the lock hears of it before we hear that it is gone.
pub(super) fn push_early_reply(out: &mut Vec<u8>) {
    out.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
}

/// What was packed to ask by script, for the next time: most of it is the same.
#[derive(Debug)]
pub(super) struct PackedAsk {
    bytes: Box<[u8]>,
    /// Where the place begins, whose parts are as long as `names.lua` says.
    place_at: usize,
}

impl PackedAsk {
    /// Keeps what was packed, whose first argument is the place.
    pub(super) fn new(packed: &[u8], arguments_at: usize) -> Self {
        let header = packed[arguments_at..].iter().take_while(|byte| **byte != b'!').count();
        Self { bytes: packed.into(), place_at: arguments_at + header }
    }

    /// The same for another owner, ask and second, if it is sent over the same connection.
    pub(super) fn again(
        &mut self,
        owner: &[u8; 32],
        ask: [u8; 6],
        channel: &str,
        second: &[u8],
    ) -> Option<&[u8]> {
        let bytes = &mut self.bytes[self.place_at..];
        if &bytes[place::CHANNEL] != channel.as_bytes() || second.len() != place::SECOND.len() {
            return None;
        }
        bytes[place::OWNER].copy_from_slice(owner);
        bytes[place::ASK].copy_from_slice(&ask);
        bytes[place::SECOND].copy_from_slice(second);
        Some(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::key::Key;
    use crate::engines::redis::{dialects::native::names::Prefix, wire::call::Call};

    #[test]
    fn what_is_packed_by_hand_is_what_a_call_would_be() {
        let names = Prefix::new(None).unwrap().names(&Key::new("invoice:42").unwrap());
        let mut packed = Vec::new();
        let since = b"1700000000";
        let push_take = |packed: &mut Vec<u8>, owner, numbering| {
            push_take(packed, &names, &[owner, b"|", since, b"|x"], 10_000, numbering)
        };
        let value_at = push_take(&mut packed, &[b'1'; 32], Numbering::Counter);
        let value = format!("{}|1700000000|x", "1".repeat(32));
        let mut call = Call::of(&[b"SET", names.lock(), value.as_bytes(), b"NX", b"PX", b"10000"]);
        call.add(&[b"INCRBY", &names.counter().concat(), b"32"]);
        assert_eq!(packed, call.bytes);
        // And so is what is kept of it for the next owner.
        let mut kept = PackedTake::new(&packed, value_at, 1_700_000_000);
        assert_eq!(kept.for_owner(&[b'2'; 32], 17), None);
        let next = kept.for_owner(&[b'2'; 32], 1_700_000_000).unwrap();
        packed.clear();
        push_take(&mut packed, &[b'2'; 32], Numbering::Counter);
        assert_eq!(next, packed);
        packed.clear();
        push_take(&mut packed, &[b'1'; 32], Numbering::Clock);
        let mut call = Call::of(&[b"SET", names.lock(), value.as_bytes(), b"NX", b"PX", b"10000"]);
        call.add_script(&COUNT, &[&names.counter().concat()], &[]);
        assert_eq!(packed, call.bytes);
        packed.clear();
        push_early_reply(&mut packed);
        assert_eq!(packed, Call::of(&[b"PING"]).bytes);
        let (lock, all_words) = (Keys::Lock(names.lock_word()), names.all_words());
        let (line, counter) = (names.line().concat(), names.counter().concat());
        let all: [&[u8]; 3] = [names.lock(), &line, &counter];
        for (keys, how, script, named) in [
            (lock, Releasing::Freely { is_lifted: true }, &*RELEASE_LIFTED, &all[..1]),
            (Keys::All(&all_words), Releasing::Freely { is_lifted: false }, &*RELEASE, &all[..]),
            (lock, Releasing::InCluster, &*RELEASE_ALONE, &all[..1]),
            (Keys::All(&all_words), Releasing::InCluster, &*RELEASE, &all[..]),
        ] {
            packed.clear();
            push_release(&mut packed, keys, b"owner", how);
            assert_eq!(packed, Call::script(script, named, &[b"owner"]).bytes);
        }
    }

    #[test]
    fn what_was_packed_to_ask_serves_another_ask_over_the_same_connection() {
        let (here, there) = ("lk:0123456789abcdef:00000001", "lk:0123456789abcdef:00000002");
        let ask = |owner: &str, ask: &str, second: &str| {
            format!("!$90\r\n!{}{ask}6000{here}{second}42|box|me", owner.repeat(32)).into_bytes()
        };
        let mut kept = PackedAsk::new(&ask("1", "000001", "1700000000"), 1);
        let (owner, second) = ([b'2'; 32], b"1700000001");
        assert_eq!(kept.again(&owner, *b"000002", there, second), None);
        let again = kept.again(&owner, *b"000002", here, second).unwrap();
        assert_eq!(again, ask("2", "000002", "1700000001"));
    }
}
