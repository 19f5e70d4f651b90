//! The bytes: what locks are called at the server, meta commands, and responses.

use sha2::{Digest, Sha256};

use crate::{
    engine::{
        error::{Error, ErrorKind, Result},
        key::Key,
    },
    engines::net::{base64::base64, pipeline::Protocol},
};

/// The longest name in a command, in bytes; base64 counts as it is written.
const LONGEST_NAME: usize = 250;
/// Stands before the digest of a name that is too long. No text in UTF-8 has this byte.
const DIGEST: u8 = 0xff;
/// The first line of a response, at most.
const LONGEST_LINE: usize = 2048;
/// What we read at most: the longest value that is usual, and the names of a large server.
const LARGEST_RESPONSE: usize = 64 << 20;

/// What a lock is called at the server, as it stands in commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    word: String,
    /// Says that the word is base64, where it is.
    flag: &'static str,
}

impl Name {
    /// The prefix and the key; the digest of both if they are too long.
    pub(super) fn of(prefix: &str, key: &Key) -> Self {
        let name = [prefix, key.as_str()].concat();
        let fitting = Self::stored(name.as_bytes());
        if fitting.word.len() <= LONGEST_NAME {
            return fitting;
        }
        Self::stored(&[&[DIGEST][..], &Sha256::digest(name.as_bytes())].concat())
    }

    /// The name with these bytes: as it is where a command can have it, else in base64.
    pub(super) fn stored(name: &[u8]) -> Self {
        let is_plain = name.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        match str::from_utf8(name) {
            Ok(text) if is_plain => Self { word: text.to_owned(), flag: "" },
            _ => Self { word: base64(name), flag: " b" },
        }
    }

    /// Stores the value. `condition` is `ME` (only if there is none) or `C` and the CAS it must have.
    pub(super) fn set(&self, value: &[u8], flags: u8, seconds: u64, condition: &str) -> Vec<u8> {
        let Self { word, flag } = self;
        let n_bytes = value.len();
        let line = format!("ms {word} {n_bytes}{flag} T{seconds} F{flags} {condition} c\r\n");
        [line.as_bytes(), value, b"\r\n"].concat()
    }

    pub(super) fn get(&self) -> Vec<u8> {
        format!("mg {}{} v c\r\n", self.word, self.flag).into_bytes()
    }

    pub(super) fn delete(&self, cas: u64) -> Vec<u8> {
        format!("md {}{} C{cas}\r\n", self.word, self.flag).into_bytes()
    }
}

/// What the server answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// It was done; with the new CAS, or 0 if the server does not say.
    Done(u64),
    /// There is one already.
    NotStored,
    /// There is one with another CAS.
    Changed,
    /// There is none.
    Missing,
    Value {
        cas: u64,
        value: Vec<u8>,
    },
    /// Lines about the server, or about its items.
    Lines(String),
    Error(String),
}

impl Response {
    /// The error of a call that got this response in place of one that it can use.
    pub(super) fn refusal(self) -> Error {
        use ErrorKind::{Refused, Unreachable, Unsupported};
        let line = if let Self::Error(line) = self { line } else { format!("{self:?}") };
        let (kind, hint) = match line.as_str() {
            "ERROR" => (Refused, "Memcached 1.6 or newer is needed, which has meta commands"),
            "Done(0)" => (Refused, "it has no CAS: start Memcached 1.6.18 or newer without -C"),
            "CLIENT_ERROR unauthenticated" => (Refused, "logins are not supported"),
            line if line.contains("disabled") => (Unsupported, "start it with lru_crawler"),
            line if line.contains("out of memory") => (Unreachable, "give it more memory"),
            line if line.starts_with("BUSY") => (Unreachable, "ask again later"),
            _ => (Refused, "it will not do for locks"),
        };
        Error::new(kind, format!("the server says {line:?}; {hint}"))
    }
}

/// Memcached's text protocol, as far as we use it.
#[derive(Debug)]
pub(super) struct Meta;

impl Protocol for Meta {
    type Response = Response;

    fn read(bytes: &[u8]) -> Result<Option<(Response, usize)>> {
        if bytes.len() > LARGEST_RESPONSE {
            return Err(Error::refused("the server has more to say than can be listed"));
        }
        if bytes.starts_with(b"key=") || bytes.starts_with(b"STAT ") {
            // Asked for on connections where nothing comes behind.
            let is_whole = bytes.ends_with(b"\nEND\r\n");
            let lines = || Response::Lines(String::from_utf8_lossy(bytes).into_owned());
            return Ok(is_whole.then(|| (lines(), bytes.len())));
        }
        let Some(end) = bytes.windows(2).take(LONGEST_LINE).position(|two| two == b"\r\n") else {
            return if bytes.len() > LONGEST_LINE { Err(out_of_step()) } else { Ok(None) };
        };
        let (line, head) = (String::from_utf8_lossy(&bytes[..end]), end + 2);
        let mut words = line.split(' ');
        let code = words.next().unwrap_or_default();
        let cas = words.clone().find_map(|word| word.strip_prefix('c')?.parse().ok()).unwrap_or(0);
        let response = match code {
            "HD" => Response::Done(cas),
            "NS" => Response::NotStored,
            "EX" => Response::Changed,
            "NF" | "EN" => Response::Missing,
            "VA" => {
                let n_bytes = words.next().and_then(|word| word.parse::<u32>().ok());
                let end = head + n_bytes.ok_or_else(out_of_step)? as usize + 2;
                let Some(value) = bytes.get(head..end) else { return Ok(None) };
                let value = value.strip_suffix(b"\r\n").ok_or_else(out_of_step)?.to_vec();
                return Ok(Some((Response::Value { cas, value }, end)));
            }
            "VERSION" | "END" => Response::Lines(line.into_owned()),
            "BUSY" | "ERROR" | "CLIENT_ERROR" | "SERVER_ERROR" => {
                Response::Error(line.into_owned())
            }
            _ => return Err(out_of_step()),
        };
        Ok(Some((response, head)))
    }

    /// Some errors have a second line: a name that is too long is refused, and so is its value.
    fn is_last(response: &Response) -> bool {
        matches!(response, Response::Error(_))
    }
}

fn out_of_step() -> Error {
    Error::new(ErrorKind::Unreachable, "what answers there does not speak Memcached's protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str) -> Name {
        Name::of("p:", &Key::new(key).unwrap())
    }

    #[test]
    fn names_are_keys_as_far_as_they_fit() {
        assert_eq!(name("a").get(), b"mg p:a v c\r\n");
        assert_eq!(name("\u{e9}").delete(7), "md p:\u{e9} C7\r\n".as_bytes());
        assert_eq!(name("a b").get(), b"mg cDphIGI= b v c\r\n");
        assert_eq!(name("a").set(b"v", 1, 3, "ME"), b"ms p:a 1 T3 F1 ME c\r\nv\r\n");
        for (key, fits) in [
            ("x".repeat(248), true),
            ("x".repeat(249), false),
            (" ".repeat(184), true),
            (" ".repeat(185), false),
            ("\u{1f512}".repeat(128), false),
        ] {
            let name = name(&key);
            assert!(name.word.len() <= LONGEST_NAME, "{key}");
            let whole = Name::stored(format!("p:{key}").as_bytes());
            assert_eq!(name == whole, fits, "{key}");
        }
        let (one, other) = ("x".repeat(300) + "a", "x".repeat(300) + "b");
        assert_ne!(name(&one), name(&other));
    }

    #[test]
    fn responses_are_read_whole_and_never_panic() {
        let value = Response::Value { cas: 7, value: b"a\r\nb".to_vec() };
        for (bytes, response) in [
            ("HD c12\r\n", Response::Done(12)),
            ("HD\r\n", Response::Done(0)),
            ("NS c0\r\n", Response::NotStored),
            ("EX\r\n", Response::Changed),
            ("NF\r\n", Response::Missing),
            ("EN\r\n", Response::Missing),
            ("VA 4 c7\r\na\r\nb\r\n", value),
            ("VERSION 1.6.18\r\n", Response::Lines("VERSION 1.6.18".into())),
            ("END\r\n", Response::Lines("END".into())),
            ("key=a size=1\nEND\r\n", Response::Lines("key=a size=1\nEND\r\n".into())),
            ("ERROR\r\n", Response::Error("ERROR".into())),
        ] {
            for end in 0..bytes.len() {
                let part = Meta::read(&bytes.as_bytes()[..end]);
                assert!(matches!(part, Ok(None)), "{bytes:?} to {end}: {part:?}");
            }
            let behind = if bytes.starts_with("key=") { "" } else { "HD\r\n" };
            let read = Meta::read(format!("{bytes}{behind}").as_bytes()).unwrap();
            assert_eq!(read, Some((response, bytes.len())));
        }
        for wrong in ["HTTP/1.1 400\r\n", "\r\n", "VA x\r\n", "VA 1\r\nabc", "VA 99999999999 \r\n"]
        {
            assert!(Meta::read(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(Meta::read(&[b'x'; LONGEST_LINE + 1]).is_err());
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (line, kind, word) in [
            ("ERROR", ErrorKind::Refused, "1.6"),
            ("CLIENT_ERROR unauthenticated", ErrorKind::Refused, "logins"),
            ("SERVER_ERROR out of memory storing object", ErrorKind::Unreachable, "memory"),
            ("SERVER_ERROR x", ErrorKind::Refused, "SERVER_ERROR x"),
        ] {
            let error = Response::Error(line.into()).refusal();
            assert!(error.kind() == kind && error.to_string().contains(word), "{error:?}");
        }
        assert!(Response::Done(0).refusal().to_string().contains("CAS"));
    }
}
