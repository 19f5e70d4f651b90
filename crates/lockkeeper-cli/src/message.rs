//! What the command says on stderr, and how foreign text is made fit for a terminal.

use std::{borrow::Cow, error::Error, ffi::OsString, io::Write, time::Duration};

use lockkeeper::{engine::Party, without_secrets};

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
pub(crate) fn has_secret(url: &str) -> bool {
    without_secrets(url) != url
}

/// Takes the secrets out of every word that looks like a URL. [`without_secrets`] shows one URL that an
/// engine can be opened with; a key or a command in a text may look like any other.
fn redacted(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(redacted_word).collect()
}

fn redacted_word(word: &str) -> Cow<'_, str> {
    let Some(colon) = word.find("://") else { return word.into() };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let (before, url) = word.split_at(word[..colon].trim_end_matches(is_scheme).len());
    let (url, space) = url.split_at(url.trim_end().len());
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let path = rest.split('?').next().and_then(|rest| rest.split_once('/'));
    // In a path of any other engine, an @ is rather the end of a password with a slash in it.
    let is_odd = scheme != "file" && path.is_some_and(|(_, path)| path.contains('@'));
    let safe = if is_odd { format!("{scheme}:…") } else { without_secrets(url) };
    format!("{before}{safe}{space}").into()
}

/// Hides those words of the command line in a message about it that may be URLs with a secret, from
/// the scheme to their end: spaces and quotes in a password make it hard to find in the message.
pub(crate) fn without_words(text: &str, words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    // Of `--option=value` a message may have the value alone.
    let values = words.iter().filter_map(|word| Some(word.strip_prefix('-')?.split_once('=')?.1));
    let mut hidden: Vec<&str> = words.iter().map(AsRef::as_ref).chain(values).collect();
    hidden.retain(|word| {
        let word = word.to_ascii_lowercase();
        word.contains(':') && ["@", "%40", "password"].iter().any(|mark| word.contains(mark))
    });
    // A word may be a part of another.
    hidden.sort_by_key(|word| std::cmp::Reverse(word.len()));
    hidden.iter().fold(text.to_owned(), |text, word| {
        let scheme = word.split(':').next().unwrap_or_default();
        text.replace(word, &format!("{scheme}:…"))
    })
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
            ("redis://me:secret@host/0", "redis://host/0"),
            ("no mysql://me:p@ss/w@host?x=1 here", "no mysql:… here"),
            ("a://u:p@h and\nb://v:q@i", "a://h and\nb://i"),
            ("\"a://u:p@h\" at b://h?password=x, held", "\"a://h\" at b://h held"),
            ("at redis://h?prefix=x@y is busy", "at redis://h?prefix=x@y is busy"),
            ("at file:///tmp/a@b is busy", "at file:///tmp/a@b is busy"),
            ("etcd://h1,h2/prefix", "etcd://h1,h2/prefix"),
            ("file:///var/lib", "file:///var/lib"),
            ("mail me@home", "mail me@home"),
        ] {
            assert_eq!(redacted(text), safe);
        }
    }

    #[test]
    fn words_with_a_secret_are_hidden_whatever_they_contain() {
        let words = ["redis://a:b c'd@h", "--x=r:?Password=p q", "me@home", "redis://h"];
        let words = words.map(OsString::from);
        for (text, safe) in [
            ("unexpected 'redis://a:b c'd@h' found", "unexpected 'redis:…' found"),
            ("bad 'r:?Password=p q' for '--x'", "bad 'r:…' for '--x'"),
            ("'me@home', 'redis://h'", "'me@home', 'redis://h'"),
        ] {
            assert_eq!(without_words(text, &words), safe);
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
