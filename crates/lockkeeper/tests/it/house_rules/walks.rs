//! The walks in ARCHITECTURE.md: every station is there, and no walk is longer than a newcomer can follow.

use std::{fs, path::Path};

const MOST_STATIONS: usize = 12;

/// What is wrong with the walks in a text; `source` answers the text of a file of the library.
fn faults(text: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let walks = text.split("\n### ").skip(1);
    for walk in walks {
        let (name, body) = walk.split_once('\n').unwrap_or((walk, ""));
        let body = body.split("\n## ").next().unwrap_or_default();
        let stations: Vec<_> =
            body.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
        if !(1..=MOST_STATIONS).contains(&stations.len()) {
            faults.push(format!("{name} has {} stations", stations.len()));
        }
        for station in stations {
            let mut spans = station.split('`').skip(1).step_by(2);
            let (Some(function), Some(file)) = (spans.next(), spans.next()) else {
                faults.push(format!("no function and file: {station}"));
                continue;
            };
            let called = function.rsplit("::").next().unwrap_or(function);
            let owner = function.rsplit("::").nth(1).unwrap_or("");
            let is_there = source(file)
                .is_some_and(|text| text.contains(&format!("fn {called}")) && text.contains(owner));
            if !is_there {
                faults.push(format!("{function} is not in {file}"));
            }
        }
    }
    faults
}

#[test]
fn every_station_of_the_walks_is_there() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(library.join("../../ARCHITECTURE.md")).unwrap();
    assert_eq!(text.matches("\n### ").count(), 4, "the walks are the only sections of their kind");
    let read = |file: &str| fs::read_to_string(library.join("src").join(file)).ok();
    assert_eq!(faults(&text, read), Vec::<String>::new());
}

#[test]
fn a_station_that_is_not_there_is_found() {
    let source =
        |file: &str| (file == "a.rs").then(|| "impl Line {\n    fn join() {}\n".to_owned());
    let walk =
        |stations: &str| format!("\n### One walk\n\n{stations}\n\n## Next\n\n1. no station\n");
    assert_eq!(faults(&walk("1. `Line::join` in `a.rs` joins."), source), Vec::<String>::new());
    for wrong in ["1. `Line::leave` in `a.rs`", "1. `Line::join` in `b.rs`", "1. joins", ""] {
        assert_eq!(faults(&walk(wrong), source).len(), 1, "{wrong}");
    }
    let long = "1. `Line::join` in `a.rs` joins.\n".repeat(13);
    assert_eq!(faults(&walk(&long), source), ["One walk has 13 stations"]);
}
