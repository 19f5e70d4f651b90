//! Scripts that run in the server. The server identifies a script by the hash of its text.

use std::fmt;

use sha1::{Digest, Sha1};

/// A script and its hash.
pub(crate) struct Script {
    pub(crate) text: String,
    /// Forty hexadecimal digits.
    pub(crate) hash: String,
    /// The first words of a command that runs the script, up to the number of keys.
    pub(crate) start: Vec<u8>,
}

impl Script {
    /// A script put together from its parts.
    pub(crate) fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let hash = Sha1::digest(text.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let start = format!("$7\r\nEVALSHA\r\n$40\r\n{hash}\r\n").into_bytes();
        Self { text, hash, start }
    }

    /// Adds the start of a command that runs the script with one key and one argument; the key comes next.
    pub(crate) fn push_for_one(&self, out: &mut Vec<u8>) {
        for part in [b"*5\r\n", &self.start[..], b"$1\r\n1\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hash)
    }
}
