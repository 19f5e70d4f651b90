//! What the command says on stderr, and how foreign text is made fit for a terminal.

use std::{error::Error, io::Write, time::Duration};

use lockkeeper::engine::Party;

/// Writes one line to stderr. Nobody is left to tell when that fails.
pub(crate) fn say(text: &str) {
    let line = format!("lockkeeper: {}\n", escaped_controls(&redacted(text)));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// An error with what is underneath it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        // Some say it themselves already.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

/// `held by pid 4711 (label) since 2026-11-15T08:00:00Z`, as far as it is known.
pub(crate) fn held_by(holder: &Party) -> String {
    let mut text = String::from("held by ");
    match holder.pid {
        Some(pid) => text += &format!("pid {pid}"),
        None => text += "somebody",
    }
    if let Some(host) = &holder.host {
        text += &format!(" on {}", escaped(host));
    }
    if let Some(label) = holder.label.as_deref().filter(|label| !label.is_empty()) {
        text += &format!(" ({})", escaped(label));
    }
    if let Some(since) = holder.since_us.and_then(time) {
        text += &format!(" since {since}");
    }
    text
}

/// Microseconds since 1970 as RFC 3339 in UTC; nothing for times that no calendar has.
pub(crate) fn time(since_us: u64) -> Option<String> {
    const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);
    let since = Duration::from_micros(since_us);
    (since < YEAR_10000)
        .then(|| humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since).to_string())
}

/// A key, label or host with everything escaped that could move the cursor or fake a line.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        match c {
            '\'' | '"' => safe.push(c),
            _ => safe.extend(c.escape_debug()),
        }
        safe
    })
}

/// Whether a URL carries a user name or a password.
pub(crate) fn has_userinfo(url: &str) -> bool {
    redacted(url) != url
}

/// Takes the user and password out of everything that looks like a URL.
pub(crate) fn redacted(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        safe += before;
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        // The last one in the word: a password may contain an `@` of its own.
        match after[..end].rfind('@') {
            Some(at) => {
                safe += "***";
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    safe + rest
}

/// Only the controls: the text may already hold escapes of its own.
fn escaped_controls(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if c.is_control() {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
        safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_show() {
        for (text, safe) in [
            ("redis://me:secret@host/0", "redis://***@host/0"),
            ("no mysql://me:p@ss/w@host?x=1 here", "no mysql://***@host?x=1 here"),
            ("a://u:p@h and b://v:q@i", "a://***@h and b://***@i"),
            ("etcd://h1,h2/prefix", "etcd://h1,h2/prefix"),
            ("file:///var/lib", "file:///var/lib"),
            ("mail me@home", "mail me@home"),
        ] {
            assert_eq!(redacted(text), safe);
        }
    }

    #[test]
    fn nothing_foreign_moves_the_cursor() {
        for text in ["\x1b[2J", "a\nb", "a\rb", "\u{9b}31m", "\u{202e}abc", "\x07", "\0"] {
            let safe = escaped(text);
            assert!(!safe.chars().any(|c| c.is_control() || c == '\u{202e}'), "{safe:?}");
            assert_ne!(safe, text);
        }
        assert_eq!(escaped(r#"it's "büro" \ 🔒"#), r#"it's "büro" \\ 🔒"#);
    }

    #[test]
    fn times_are_utc_and_never_panic() {
        assert_eq!(time(1_763_194_830_999_999).as_deref(), Some("2025-11-15T08:20:30Z"));
        assert_eq!(time(u64::MAX), None);
    }

    #[test]
    fn a_holder_is_described_as_far_as_it_is_known() {
        let mut holder = Party::default();
        assert_eq!(held_by(&holder), "held by somebody");
        holder.pid = Some(4711);
        holder.label = Some("night\nly".into());
        holder.since_us = Some(0);
        assert_eq!(held_by(&holder), "held by pid 4711 (night\\nly) since 1970-01-01T00:00:00Z");
    }
}
