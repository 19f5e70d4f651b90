//! A question to a server: bytes to send, and how many replies make the answer.

use super::{
    resp::{Digits, push_command},
    script::Script,
};

/// One command, or several that are sent together and answered together.
///
/// What follows from a lost answer, a redirection or a forgotten script is asking again, so every
/// call must be one that may run twice: the server knows claims by their owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub(super) bytes: Vec<u8>,
    pub(super) n_replies: u8,
}

impl Call {
    /// Nothing yet, with room for what is usual.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(256), n_replies: 0 }
    }

    /// One command.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let mut call = Self::new();
        call.add(parts);
        call
    }

    /// Runs a script that the server knows.
    pub(super) fn script(script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) -> Self {
        let mut call = Self::new();
        call.add_script(script, keys, arguments);
        call
    }

    /// One more command.
    pub(super) fn add(&mut self, parts: &[&[u8]]) {
        push_command(&mut self.bytes, &[parts]);
        self.n_replies += 1;
    }

    /// One more script.
    pub(super) fn add_script(&mut self, script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) {
        let n_keys = Digits::of(keys.len() as u64);
        let head: [&[u8]; 3] = [b"EVALSHA", script.hash.as_bytes(), n_keys.as_bytes()];
        push_command(&mut self.bytes, &[&head, keys, arguments]);
        self.n_replies += 1;
    }
}
