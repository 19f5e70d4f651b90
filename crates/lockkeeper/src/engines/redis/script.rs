//! Scripts that run in the server: known there by the hash of their text.

use std::fmt;

use sha1::{Digest, Sha1};

/// A script and its name at the server.
pub(super) struct Script {
    pub(super) text: String,
    /// Forty hexadecimal digits.
    pub(super) hash: String,
}

impl Script {
    /// A script put together from its parts.
    pub(super) fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let hash = Sha1::digest(text.as_bytes());
        let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text, hash }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hash)
    }
}
