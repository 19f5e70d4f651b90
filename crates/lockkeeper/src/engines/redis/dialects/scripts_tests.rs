//! The scripts are joined from parts, some of which are no whole script by themselves. So what counts is that each
//! joined text, exactly as it is sent, is a script for a real server.

use std::fs;

use lab::redis::Server;

use super::{native, plain, redisson, redlock};
use crate::engines::redis::wire::script::Script;

type Named = Vec<(&'static str, &'static str)>;

fn dialects() -> [(&'static str, Named); 4] {
    [
        ("native", native::scripts()),
        ("plain", plain::scripts()),
        ("redisson", redisson::scripts()),
        ("redlock", redlock::scripts()),
    ]
}

#[test]
fn a_server_parses_every_script_as_it_is_sent() {
    let server = Server::start().unwrap();
    for (dialect, scripts) in dialects() {
        for (name, text) in scripts {
            let loaded = server.command(&["SCRIPT", "LOAD", text]).unwrap().not_an_error();
            let hash = loaded.unwrap_or_else(|error| panic!("{dialect}: {name}: {error}")).text();
            assert_eq!(hash, Script::new(&[text]).hash, "{dialect}: {name}");
        }
    }
    // And a text that is no script is found.
    let part = include_str!("native/ask.lua");
    assert!(server.command(&["SCRIPT", "LOAD", part]).unwrap().not_an_error().is_err());
}

#[test]
fn no_script_is_forgotten_here() {
    for (dialect, scripts) in dialects() {
        let folder = format!("{}/src/engines/redis/dialects/{dialect}", env!("CARGO_MANIFEST_DIR"));
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let sources = entries.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let text: String = sources.map(|path| fs::read_to_string(path).unwrap()).collect();
        let statics = text.lines().filter_map(|line| {
            let (name, is) =
                line.strip_prefix("static ").or(line.strip_prefix("const "))?.split_once(':')?;
            (is.contains("LazyLock<Script>") || is.contains(".lua\"")).then_some(name)
        });
        let mut statics: Vec<_> = statics.collect();
        let mut listed: Vec<_> = scripts.iter().map(|(name, _)| *name).collect();
        statics.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, statics, "{dialect}");
    }
}
