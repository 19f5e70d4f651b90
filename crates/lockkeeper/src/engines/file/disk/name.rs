//! The file name of a key: readable, and never the same for two keys.

use sha2::{Digest, Sha256};

use crate::engine::key::Key;

/// What every key file ends with.
pub(in super::super) const SUFFIX: &str = ".lock";

/// Longer names are cut and get a hash: file systems allow 255 bytes.
const MAX_READABLE: usize = 200;
const CUT: usize = 100;

/// Small letters, digits and `.`, `_`, `-` stay as they are (but for a dot in front), all else
/// becomes `%` and two digits: so names differ also where the file system ignores case.
pub(in super::super) fn of(key: &Key) -> String {
    let mut name = String::with_capacity(key.as_str().len() + SUFFIX.len());
    let mut cut = 0;
    for (at, byte) in key.as_str().bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            b'.' if at > 0 => name.push('.'),
            _ => name += &format!("%{byte:02x}"),
        }
        if name.len() <= CUT {
            cut = name.len();
        }
    }
    if name.len() > MAX_READABLE {
        name.truncate(cut);
        name.push('~');
        for byte in &Sha256::digest(key.as_str())[..16] {
            name += &format!("{byte:02x}");
        }
    }
    name + SUFFIX
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn name(key: &str) -> String {
        of(&Key::new(key).unwrap())
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(name("deploy"), "deploy.lock");
        assert_eq!(name("invoice:42"), "invoice%3a42.lock");
        assert_eq!(name("Deploy"), "%44eploy.lock");
        assert_eq!(name("../x"), "%2e.%2fx.lock");
        assert_eq!(name(".floor"), "%2efloor.lock");
    }

    #[test]
    fn names_differ_as_keys_do_even_where_case_is_ignored() {
        let parts = ["a", "A", "%", "41", "%41", ".", "/", "~", "é", "e\u{301}", "\0", " ", "xyz"];
        let mut seen = HashMap::new();
        let mut state = 1_u64;
        for _ in 0..50_000 {
            let mut key = String::new();
            loop {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let draw = (state >> 33) as usize;
                if key.len() > 500 || (!key.is_empty() && draw.is_multiple_of(9)) {
                    break;
                }
                key += parts[draw % parts.len()];
            }
            let folded = name(&key).to_lowercase();
            let other = seen.entry(folded).or_insert_with(|| key.clone());
            assert_eq!(*other, key);
        }
    }

    #[test]
    fn long_names_fit_and_differ() {
        for filler in ["x", "X", "é", "🔒"] {
            let long = filler.repeat(512 / filler.len());
            let shorter = filler.repeat(512 / filler.len() - 1);
            assert!(name(&long).len() <= 255 && name(&long).contains('~'), "{}", name(&long));
            assert_ne!(name(&long), name(&shorter));
            assert!(!name(&long).split('~').next().unwrap().ends_with('%'));
        }
        assert_ne!(name(&("x".repeat(201) + "a")), name(&("x".repeat(201) + "b")));
    }
}
