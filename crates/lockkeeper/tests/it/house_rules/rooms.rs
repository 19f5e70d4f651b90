//! The rooms of the library, and what each may import.

use super::Source;

/// Each folder of `crates/lockkeeper/src` with the folders it may import besides itself. The deepest folder that has a
/// file decides.
const ROOMS: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("tools", &["engine"]),
    ("time", &["engine", "tools"]),
    ("line", &["engine", "tools", "time"]),
    ("api", &["engine", "tools", "time", "line", "engines"]),
    ("macros", &["engine", "tools", "api"]),
    ("observe", &["engine"]),
    ("conformance", &["engine", "tools", "time", "api", "engines"]),
    ("engines", &["engine", "tools"]),
    ("engines/net", &["engine", "tools"]),
    ("engines/redis", &["engine", "tools", "engines/net"]),
    ("engines/redis/wire", &["engine", "tools", "engines/net"]),
    ("engines/redis/server", &["engine", "tools", "engines/net", "engines/redis/wire"]),
    (
        "engines/redis/dialects",
        &["engine", "tools", "engines/net", "engines/redis/wire", "engines/redis/server"],
    ),
];

/// What an engine may import that has no line of its own.
const ANY_ENGINE: &[&str] = &["engine", "tools", "engines/net"];

/// Imports of a file that its room does not allow.
pub(super) fn imports_stay_below(source: &Source) -> Vec<String> {
    let Some(file) = source.path.strip_prefix("crates/lockkeeper/src/") else { return Vec::new() };
    if file == "lib.rs" || file.contains("/tests/") || file.ends_with("/tests.rs") {
        return Vec::new();
    }
    let (own, allowed) = room_of(file);
    let may_import = |path: &str| {
        let is_in = |room: &str| path == room || path.starts_with(&format!("{room}/"));
        // What the crate shows at its root is the API.
        let is_shown = path.starts_with(char::is_uppercase) || path.is_empty();
        is_shown && is_above_the_contract(&own)
            || is_in(&own)
            || allowed.iter().any(|room| is_in(room))
    };
    let module = module_of(file);
    let text: Vec<&str> = source.code().collect();
    let imported = paths(&text.join("\n"), &module);
    imported.into_iter().filter(|path| !may_import(path)).collect()
}

fn is_above_the_contract(room: &str) -> bool {
    matches!(room, "api" | "macros" | "conformance" | "observe")
}

/// The room that a file is in, and what that room may import.
fn room_of(file: &str) -> (String, &'static [&'static str]) {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let is_in = |room: &str| stem == room || stem.starts_with(&format!("{room}/"));
    let engine = stem.strip_prefix("engines/").and_then(|rest| rest.split('/').next());
    let known = ROOMS.iter().filter(|(room, _)| is_in(room)).max_by_key(|(room, _)| room.len());
    match (known, engine) {
        (Some(("engines", _)), Some(name)) if name != "mod" => {
            (format!("engines/{name}"), ANY_ENGINE)
        }
        (Some((room, allowed)), _) => ((*room).to_owned(), *allowed),
        // A file that stands in no room may import nothing.
        (None, _) => (stem.to_owned(), &[]),
    }
}

fn module_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    stem.split('/').map(str::to_owned).collect()
}

/// Everything of this crate that a text names, as paths with slashes.
fn paths(text: &str, module: &[String]) -> Vec<String> {
    let (mut found, mut at) = (Vec::new(), 0);
    let next = |from: usize| {
        let places = ["crate::", "super::"].map(|start| text[from..].find(start));
        places.into_iter().flatten().min().map(|offset| from + offset)
    };
    while let Some(start) = next(at) {
        at = start + "crate::".len();
        let before = text[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
            continue;
        }
        let is_above = text[start..].starts_with("super");
        let base = if is_above { &module[..module.len() - 1] } else { &[] };
        at += expand(&text[at..], base.to_vec(), &mut found);
    }
    found.iter().map(|path| path.join("/")).collect()
}

/// Follows a path, or a tree of them in braces, to its ends; answers how many bytes that were.
fn expand(text: &str, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let skipped = rest.len() - rest.trim_start().len();
        at += skipped;
        let rest = &text[at..];
        if let Some(inner) = rest.strip_prefix('{') {
            at += 1;
            let mut read = 0;
            while !inner[read..].trim_start().starts_with('}') && read < inner.len() {
                read += expand(&inner[read..], path.clone(), found);
                let tail = &inner[read..];
                let trimmed = tail.trim_start();
                read += tail.len() - trimmed.len();
                read += usize::from(trimmed.starts_with(','));
            }
            let spaces = inner[read..].len() - inner[read..].trim_start().len();
            return at + read + spaces + 1;
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        if name.is_empty() {
            // A star, or nothing that is a path.
            found.push(path);
            return at + usize::from(rest.starts_with('*'));
        }
        at += name.len();
        match name {
            "super" => drop(path.pop()),
            "self" => {}
            name => path.push(name.to_owned()),
        }
        match text[at..].strip_prefix("::") {
            Some(_) => at += 2,
            None => {
                // Another name may follow.
                if let Some(alias) = text[at..].strip_prefix(" as ") {
                    at += 4 + alias.find(|c| !is_name(c)).unwrap_or(alias.len());
                }
                found.push(path);
                return at;
            }
        }
    }
}

#[test]
fn paths_are_found_however_they_are_written() {
    let module = ["line".to_owned(), "errand".to_owned(), "ask".to_owned()];
    let text = "
use super::{super::held::Held, steward::*};
use crate::{
    engine::{self, Claim as C, error::Error},
    tools::{
        sync::{
            locked,
        },
    },
    time::clock,
};
let x = crate::api::open();";
    let mut found = paths(text, &module);
    found.sort();
    let expected = [
        "api/open",
        "engine",
        "engine/Claim",
        "engine/error/Error",
        "line/errand/steward",
        "line/held/Held",
        "time/clock",
        "tools/sync/locked",
    ];
    assert_eq!(found, expected);
}
