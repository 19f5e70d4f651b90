//! The two calls of the common way, packed with as little ado as can be: they are sent millions of times.

use super::{
    super::resp::{Digits, push_word},
    RELEASE, RELEASE_LIFTED,
    names::Names,
};

/// How many turns of a line one grant of a free key may serve. Such keys are granted so often that more
/// would use the counter up faster than the clock goes.
pub(super) const TURNS_IF_FREE: u32 = 32;

/// Takes the key if it is free, and numbers for its fences; two replies.
pub(super) fn push_take(out: &mut Vec<u8>, names: &Names, value: &[&[u8]], ttl_ms: u64) {
    out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
    out.extend_from_slice(names.lock_word());
    push_word(out, value);
    out.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
    push_word(out, &[Digits::of(ttl_ms).as_bytes()]);
    out.extend_from_slice(b"*3\r\n$6\r\nINCRBY\r\n");
    push_word(out, &[names.common(), b"n"]);
    push_word(out, &[Digits::of(TURNS_IF_FREE.into()).as_bytes()]);
}

/// Releases the lock, or leaves the line; one reply.
pub(super) fn push_release(out: &mut Vec<u8>, names: &Names, owner: &[u8], is_lifted: bool) {
    let script = if is_lifted { &RELEASE_LIFTED } else { &RELEASE };
    out.extend_from_slice(&script.start);
    out.extend_from_slice(names.lock_word());
    push_word(out, &[owner]);
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::call::Call, names::Prefix},
        *,
    };
    use crate::key::Key;

    #[test]
    fn what_is_packed_by_hand_is_what_a_call_would_be() {
        let names = Prefix::new(None).unwrap().names(&Key::new("invoice:42").unwrap());
        let mut packed = Vec::new();
        push_take(&mut packed, &names, &[b"owner", b"|", b"info"], 10_000);
        let mut call = Call::of(&[b"SET", names.lock(), b"owner|info", b"NX", b"PX", b"10000"]);
        call.add(&[b"INCRBY", &names.counter(), b"32"]);
        assert_eq!(packed, call.bytes);
        packed.clear();
        push_release(&mut packed, &names, b"owner", true);
        assert_eq!(packed, Call::script(&RELEASE_LIFTED, &[names.lock()], &[b"owner"]).bytes);
    }
}
