//! The names of locks.

use super::{always, rule};
use crate::{
    conformance::{
        Rule,
        room::{Finding, Room, ensure},
    },
    engine::{Patience, Request, key::Key},
};

pub(super) const RULES: &[Rule] = &[
    rule!(
        always,
        different_keys_do_not_meet,
        "keys that look alike to a file system, a collation or a terminal are different locks"
    ),
    rule!(
        always,
        a_key_of_512_bytes_works,
        "the longest key is taken whole: those that differ in one byte are different locks"
    ),
];

/// Names that something between us and the lock may take for another of them.
const LOOK_ALIKES: &[&str] = &[
    "a",
    "A",
    "a ",
    "a.",
    " a",
    ".a",
    "a\t",
    "a\n",
    "a\0",
    "a\0b",
    "a\r\n",
    "a/",
    "/a",
    "a//b",
    "a/b",
    "a\\b",
    "a:b",
    "a%2fb",
    "a%2Fb",
    "%41",
    "%",
    "%%",
    ".",
    "..",
    "...",
    "../a",
    "./a",
    "~",
    "~a",
    "-",
    "--",
    "*",
    "?",
    "{a}",
    "[a]",
    "a'b",
    "a\"b",
    "a;b",
    "a`b",
    "$a",
    "a_b",
    "a%b",
    "0",
    "00",
    "0x0",
    "-0",
    "null",
    "NULL",
    "nul",
    "con",
    "a\u{7f}",
    "a\u{200b}",
    "a\u{feff}",
    "ß",
    "ss",
    "ẞ",
    "SS",
    "i",
    "I",
    "ı",
    "İ",
    "ſ",
    "s",
    "\u{e9}",
    "e\u{301}",
    "e",
    "\u{c9}",
    "\u{212b}",
    "\u{c5}",
    "A\u{30a}",
    "ﬁ",
    "fi",
    "\u{1f512}",
    "\u{1f512}\u{fe0f}",
    "\u{1f513}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10ffff}",
    "lock",
    "lock.lock",
    "zookeeper",
    "locks/a",
    " ",
    "  ",
    "\n",
    "\0",
];

async fn different_keys_do_not_meet(room: &Room<'_>) -> Finding {
    let keys: Result<Vec<_>, _> = LOOK_ALIKES.iter().map(|name| Key::new(name)).collect();
    all_at_once(room, keys?).await
}

async fn a_key_of_512_bytes_works(room: &Room<'_>) -> Finding {
    let unique = room.key()?;
    let mut keys = Vec::new();
    // Around every length at which something is known to cut: names of locks in MySQL, keys of
    // Memcached, names of files, and our own.
    for n_bytes in [63, 64, 65, 128, 200, 201, 249, 250, 251, 254, 255, 256, Key::MAX_BYTES] {
        let stem = format!("{:x<1$}", unique.as_str(), n_bytes - 1);
        for last in ['a', 'b'] {
            keys.push(Key::new(&format!("{stem}{last}"))?);
        }
    }
    for first in ['a', 'b'] {
        keys.push(Key::new(&format!("{first}{:x<1$}", unique.as_str(), Key::MAX_BYTES - 1))?);
    }
    // As much as the longest can grow when every byte is escaped.
    keys.push(Key::new(&"\u{1f512}".repeat(Key::MAX_BYTES / 4))?);
    keys.push(Key::new(&"\0".repeat(Key::MAX_BYTES))?);
    all_at_once(room, keys).await
}

/// Holds all of them together; each must be busy then, and free in the end.
async fn all_at_once(room: &Room<'_>, keys: Vec<Key>) -> Finding {
    let mut holders = Vec::new();
    for key in &keys {
        let mut holder = room.enter("the holder", key);
        ensure!(holder.asks().await?.is_ok(), "{key:?} is busy because another key is held");
        holders.push(holder);
    }
    for key in &keys {
        let tries = |request: &mut Request| request.patience = Patience::Tries;
        let mut other = room.enter_with("another", key, tries);
        ensure!(other.asks().await?.is_err(), "{key:?} was granted twice");
        other.releases().await?;
    }
    for (holder, key) in holders.iter_mut().zip(&keys) {
        holder.releases().await?;
        let mut next = room.enter("the next", key);
        ensure!(next.asks().await?.is_ok(), "{key:?} is busy after its release");
        next.releases().await?;
    }
    Ok(())
}
