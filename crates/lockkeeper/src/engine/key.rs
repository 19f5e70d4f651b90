//! The name of a lock.

use std::{borrow::Borrow, fmt, sync::Arc};

use super::error::{Error, ErrorKind, Result};

/// The name of a lock: any UTF-8 text of 1 to 512 bytes.
///
/// Engines encode what their server cannot take; two different keys never meet.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Takes any text of 1 to 512 bytes.
    ///
    /// # Errors
    /// [`ErrorKind::BadKey`] if it is empty or longer.
    pub fn new(name: &str) -> Result<Self> {
        Self::from_arc(name.into())
    }

    pub(crate) fn from_arc(name: Arc<str>) -> Result<Self> {
        match name.len() {
            0 => Err(Error::new(
                ErrorKind::BadKey,
                "the key is empty; a key is a text of 1 to 512 bytes",
            )),
            1..=Self::MAX_BYTES => Ok(Self(name)),
            n_bytes => Err(Error::new(
                ErrorKind::BadKey,
                format!(
                    "the key has {n_bytes} bytes, at most {} are allowed; shorten it or use a hash of it",
                    Self::MAX_BYTES
                ),
            )),
        }
    }

    /// The text it was made from.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Hashes and compares as the text does, so tables of keys can be asked for a text.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_1_to_512_bytes() {
        for (name, fits) in [("", false), ("a", true), (&*"x".repeat(512), true)] {
            assert_eq!(Key::new(name).is_ok(), fits, "{name:?}");
        }
        let error = Key::new(&"é".repeat(257)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadKey);
        assert!(error.to_string().contains("514 bytes"), "{error}");
    }

    #[test]
    fn newline_nul_and_dots_are_ordinary() {
        for name in ["a\nb", "a\0b", "../../etc", " ", "🔒"] {
            assert_eq!(Key::new(name).unwrap().as_str(), name);
        }
    }
}
