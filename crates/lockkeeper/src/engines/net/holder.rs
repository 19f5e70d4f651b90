//! Who holds a lock, as a text that engines store with it: for people, and for the owner itself.

use crate::engine::{Party, Request, key::Key};

const MARK: &str = "lockkeeper";
/// What somebody else stored may be anything, and of any length.
const LONGEST_SHOWN: usize = 64;

/// `lockkeeper OWNER PID HOST LENGTH LABEL`, where the label has that length, and behind it the key. No two
/// claims have the same.
pub(crate) fn text_of(request: &Request) -> String {
    let (owner, pid, label) = (request.owner, std::process::id(), &request.label);
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy().replace(' ', "-");
    let (length, key) = (label.len(), request.key.as_str());
    format!("{MARK} {owner} {pid} {host} {length} {label}{key}")
}

/// The holder and the key; `None` for a text that we did not write.
pub(crate) fn read(text: &[u8]) -> Option<(Party, Key)> {
    let mut words = str::from_utf8(text).ok()?.splitn(6, ' ');
    let (mark, _owner) = (words.next()?, words.next()?);
    let (pid, host) = (words.next()?.parse().ok(), Some(words.next()?.to_owned()));
    let length = words.next()?.parse().ok()?;
    let (label, key) = words.next()?.split_at_checked(length).filter(|_| mark == MARK)?;
    let party = Party { pid, host, label: Some(label.to_owned()), ..Party::default() };
    Some((party, Key::new(key).ok()?))
}

/// Whoever stored this: of other clients, only what they stored is known.
pub(crate) fn whoever(text: &[u8]) -> Party {
    read(text).map_or_else(
        || {
            let shown = String::from_utf8_lossy(&text[..text.len().min(LONGEST_SHOWN)]);
            Party { label: Some(shown.into_owned()), ..Party::default() }
        },
        |(party, _)| party,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::OwnerId;

    #[test]
    fn a_holder_can_be_read_back() {
        for (label, key) in [("", "k"), ("a label", "a key"), ("7 \n", " \u{1f512} 3 "), ("é", "é")]
        {
            let key = Key::new(key).unwrap();
            let mut request = Request::new(key.clone(), OwnerId(7), Duration::from_secs(1));
            request.label = label.into();
            let (party, read_key) = read(text_of(&request).as_bytes()).unwrap();
            assert_eq!((party.label.as_deref(), read_key), (Some(label), key));
            assert_eq!(party.pid, Some(std::process::id()));
        }
    }

    #[test]
    fn what_others_stored_is_shown_and_nothing_panics() {
        let ours = "lockkeeper 0 1 host 5 labelkey";
        for end in 0..ours.len() - 2 {
            assert_eq!(read(&ours.as_bytes()[..end]), None, "{end}");
        }
        for text in
            ["lockkeeper 0 1 host 9 labelkey", "lockkeeper 0 1 host 1 ékey", "other 0 1 h 1 lk"]
        {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(whoever(b"member-1").label.as_deref(), Some("member-1"));
        assert!(whoever(&[0xff; 1000]).label.unwrap().len() < 1000);
    }
}
