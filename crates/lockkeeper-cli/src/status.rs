//! `who`, `ls` and `tidy`: look at locks without taking them.

use std::time::Duration;

use lockkeeper::{
    Locks,
    blocking::block_on,
    engine::{Listed, Party, Who},
};

use crate::{
    embedded,
    exit::{Exit, Failure},
    message::{escaped, time},
    output::{columns, json_or_null, json_text, print},
};

/// For whom the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// People.
    Text,
    /// Programs.
    Json,
}

impl From<bool> for Form {
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Shows who holds `key` and who waits for it.
pub(crate) fn who(url: Option<&str>, key: &str, form: Form) -> Result<Exit, Failure> {
    let locks = open(url)?;
    let who = block_on(locks.who(key))?;
    let text = match form {
        Form::Text => who_text(key, &locks.place(), &who),
        Form::Json => who_json(key, &locks.place(), &who),
    };
    print(text.as_bytes())
}

/// Lists the keys the engine knows.
pub(crate) fn list(url: Option<&str>, form: Form) -> Result<Exit, Failure> {
    let listed = block_on(open(url)?.list())?;
    let text = match form {
        Form::Text => list_text(&listed),
        Form::Json => list_json(&listed),
    };
    print(text.as_bytes())
}

/// Cleans up what nobody has used for `idle`.
pub(crate) fn tidy(url: Option<&str>, idle: Duration) -> Result<Exit, Failure> {
    match block_on(open(url)?.tidy(idle))? {
        1 => print(b"cleaned up 1 key\n"),
        n_keys => print(format!("cleaned up {n_keys} keys\n").as_bytes()),
    }
}

fn open(url: Option<&str>) -> Result<Locks, Failure> {
    let locks = match url {
        Some(url) => block_on(Locks::connect(url)),
        None => Locks::embedded(),
    };
    locks.map_err(|error| embedded::not_opened(url, &error))
}

fn who_text(key: &str, place: &str, who: &Who) -> String {
    let place = escaped(place);
    if who.holder.is_none() && who.line.is_empty() {
        return format!("{key:?} at {place} is free\n");
    }
    let mut rows = vec![["STATE", "PID", "HOST", "SINCE", "FENCE", "LABEL"].map(String::from)];
    rows.extend(who.holder.iter().map(|party| row("holds", party)));
    rows.extend(who.line.iter().map(|party| row("waits", party)));
    format!("{}at {place}\n", columns(&rows))
}

fn row(state: &str, party: &Party) -> [String; 6] {
    let cell = |value: Option<String>| match value {
        Some(text) if !text.is_empty() => text,
        _ => "-".into(),
    };
    [
        state.into(),
        cell(party.pid.map(|pid| pid.to_string())),
        cell(party.host.as_deref().map(escaped)),
        cell(party.since_us.and_then(time)),
        cell(party.fence.map(|fence| fence.to_string())),
        cell(party.label.as_deref().map(escaped)),
    ]
}

fn who_json(key: &str, place: &str, who: &Who) -> String {
    let line: Vec<String> = who.line.iter().map(party_json).collect();
    format!(
        "{{\"key\":{},\"place\":{},\"holder\":{},\"line\":[{}]}}\n",
        json_text(key),
        json_text(place),
        json_or_null(who.holder.as_ref().map(party_json)),
        line.join(",")
    )
}

fn party_json(party: &Party) -> String {
    format!(
        "{{\"pid\":{},\"host\":{},\"label\":{},\"since\":{},\"fence\":{}}}",
        json_or_null(party.pid.map(|pid| pid.to_string())),
        json_or_null(party.host.as_deref().map(json_text)),
        json_or_null(party.label.as_deref().map(json_text)),
        json_or_null(party.since_us.and_then(time).map(|since| json_text(&since))),
        json_or_null(party.fence.map(|fence| fence.to_string())),
    )
}

fn list_text(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let mut rows = vec![["STATE", "WAITING", "KEY"].map(String::from)];
    rows.extend(listed.iter().map(|one| {
        let state = if one.held { "held" } else { "free" };
        [state.into(), one.n_waiting.to_string(), escaped(one.key.as_str())]
    }));
    columns(&rows)
}

fn list_json(listed: &[Listed]) -> String {
    let listed: Vec<String> = listed
        .iter()
        .map(|one| {
            let key = json_text(one.key.as_str());
            format!("{{\"key\":{key},\"held\":{},\"waiting\":{}}}", one.held, one.n_waiting)
        })
        .collect();
    format!("[{}]\n", listed.join(","))
}

#[cfg(test)]
mod tests {
    use lockkeeper::Key;

    use super::*;

    fn somebody() -> Party {
        let mut party = Party::default();
        party.pid = Some(4711);
        party.label = Some("a\x1b[31m\n".into());
        party.since_us = Some(0);
        party.fence = Some(7);
        party
    }

    #[test]
    fn a_free_key_is_said_to_be_free() {
        let text = who_text("a\nb", "x:\n", &Who::default());
        assert_eq!(text, "\"a\\nb\" at x:\\n is free\n");
        let json = "{\"key\":\"k\",\"place\":\"x:\",\"holder\":null,\"line\":[]}\n";
        assert_eq!(who_json("k", "x:", &Who::default()), json);
    }

    #[test]
    fn the_holder_comes_first_then_the_line() {
        let who = Who { holder: Some(somebody()), line: vec![Party::default()] };
        let text = who_text("k", "x:", &who);
        let lines: Vec<&str> = text.lines().collect();
        let holder = "holds  4711  -     1970-01-01T00:00:00Z  7      a\\u{1b}[31m\\n";
        assert_eq!(lines[1], holder);
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["waits", "-", "-", "-", "-", "-"]
        );
        assert_eq!(lines[3..], ["at x:"]);
        assert!(
            who_json("k", "x:", &who).contains(r#""label":"a\u001b[31m\u000a","since":"1970-"#)
        );
    }

    #[test]
    fn the_list_has_a_line_per_key() {
        let listed = [Listed { key: Key::new("a\tb").unwrap(), held: true, n_waiting: 2 }];
        assert_eq!(list_text(&listed), "STATE  WAITING  KEY\nheld   2        a\\tb\n");
        assert_eq!(list_json(&listed), "[{\"key\":\"a\\u0009b\",\"held\":true,\"waiting\":2}]\n");
        assert_eq!((list_text(&[]), list_json(&[])), (String::new(), "[]\n".into()));
    }
}
