//! A call to a server: the bytes to send, and how many replies belong to it.

use std::sync::Arc;

use super::{
    digits::Digits,
    outbox::Release,
    resp::{push_command, push_header, push_word},
    script::Script,
};

/// One command, or several that are sent together and answered together.
///
/// A call is retried after a lost response, a redirection or a forgotten script. So every call must be safe to run
/// twice: the server recognises a claim by its owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) bytes: Vec<u8>,
    pub(crate) n_replies: u8,
    /// The command to retry with when the server does not know the script, even if the caller has stopped waiting.
    /// Only for calls with one reply.
    pub(crate) again: Option<Arc<Again>>,
}

/// A command with one key and one argument that carries the text of its script.
#[derive(Debug)]
pub(crate) struct Again {
    script: &'static Script,
    /// The key and the argument, both packed as words of a command. `n_key_word` is the length of the packed key,
    /// `n_argument` that of the bare argument.
    words: Vec<u8>,
    n_key_word: usize,
    n_argument: usize,
}

impl Again {
    fn new(script: &'static Script, key: &[u8], argument: &[u8]) -> Self {
        let mut words = Vec::with_capacity(key.len() + argument.len() + 24);
        push_word(&mut words, &[key]);
        let n_key_word = words.len();
        push_word(&mut words, &[argument]);
        Self { script, words, n_key_word, n_argument: argument.len() }
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        push_header(out, b'*', 5);
        for word in [b"EVAL", self.script.text.as_bytes(), b"1"] {
            push_word(out, &[word]);
        }
        out.extend_from_slice(&self.words);
    }

    /// The same command as a release that can be combined with others.
    pub(crate) fn as_release(&self, many: &'static Script) -> Release<'_> {
        let (lock_word, owner) = self.words.split_at(self.n_key_word);
        let end = owner.len() - "\r\n".len();
        let owner = &owner[end - self.n_argument..end];
        Release { one: self.script, many, lock_word, owner }
    }
}

impl Call {
    /// An empty call, with room for commands of the usual length.
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::with_capacity(512), n_replies: 0, again: None }
    }

    /// One command.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut call = Self::new();
        call.add(parts);
        call
    }

    /// Runs a script that the server knows.
    pub(crate) fn script(script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) -> Self {
        let mut call = Self::new();
        call.add_script(script, keys, arguments);
        call
    }

    /// Runs a script that the server may have forgotten: in that case the text is sent.
    pub(crate) fn sure_script(script: &'static Script, lock: &[u8], argument: &[u8]) -> Self {
        let again = Again::new(script, lock, argument);
        let mut bytes = Vec::with_capacity(256);
        script.push_for_one(&mut bytes);
        bytes.extend_from_slice(&again.words);
        Self { bytes, n_replies: 1, again: Some(Arc::new(again)) }
    }

    /// Adds a command.
    pub(crate) fn add(&mut self, parts: &[&[u8]]) {
        push_command(&mut self.bytes, &[parts]);
        self.n_replies += 1;
    }

    /// The commands of the call, one by one.
    pub(crate) fn commands(&self) -> Vec<&[u8]> {
        let mut commands = Vec::with_capacity(self.n_replies.into());
        let mut rest = &self.bytes[..];
        while let Some(n_bytes) = command_length(rest) {
            let (command, after) = rest.split_at(n_bytes);
            commands.push(command);
            rest = after;
        }
        commands
    }

    /// Adds a command that is already packed.
    pub(crate) fn add_command(&mut self, command: &[u8]) {
        self.bytes.extend_from_slice(command);
        self.n_replies += 1;
    }

    /// Adds a command that runs a script.
    pub(crate) fn add_script(&mut self, script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) {
        let n_keys = Digits::of(keys.len() as u64);
        let head: [&[u8]; 3] = [b"EVALSHA", script.hash.as_bytes(), n_keys.as_bytes()];
        push_command(&mut self.bytes, &[&head, keys, arguments]);
        self.n_replies += 1;
    }
}

/// The length of the command at the start of the bytes.
fn command_length(bytes: &[u8]) -> Option<usize> {
    let line = |at: usize| {
        let end = at + bytes.get(at..)?.iter().position(|byte| *byte == b'\r')?;
        let number = std::str::from_utf8(bytes.get(at + 1..end)?).ok()?.parse::<usize>().ok()?;
        Some((number, end + 2))
    };
    let (n_parts, mut at) = line(0)?;
    for _ in 0..n_parts {
        let (n_bytes, start) = line(at)?;
        at = start + n_bytes + 2;
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    #[test]
    fn a_sure_script_is_the_same_with_its_text() {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(&["return 1"]));
        let sure = Call::sure_script(&SCRIPT, b"lock", b"owner");
        assert_eq!(sure.bytes, Call::script(&SCRIPT, &[b"lock"], &[b"owner"]).bytes);
        let known = sure.again.unwrap();
        let release = known.as_release(&SCRIPT);
        assert_eq!((release.lock_word, release.owner), (&b"$4\r\nlock\r\n"[..], &b"owner"[..]));
        let mut again = Vec::new();
        known.push(&mut again);
        assert_eq!(again, Call::of(&[b"EVAL", b"return 1", b"1", b"lock", b"owner"]).bytes);
    }

    #[test]
    fn a_call_can_be_taken_apart() {
        let mut call = Call::of(&[b"SET", b"a\r\n*1\r\n", b""]);
        call.add(&[b"PING"]);
        let commands = call.commands();
        assert_eq!(
            commands,
            [Call::of(&[b"SET", b"a\r\n*1\r\n", b""]).bytes, Call::of(&[b"PING"]).bytes]
        );
        let mut again = Call::default();
        commands.iter().for_each(|command| again.add_command(command));
        assert_eq!((again.bytes, again.n_replies), (call.bytes, 2));
    }
}
