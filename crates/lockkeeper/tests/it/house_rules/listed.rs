//! What must name every engine: the README, the features of the library and of the command. The engines are read
//! from the table in `engines/mod.rs`, so that no second list has to be kept.

use std::{fs, path::Path};

use lockkeeper::engine::Profile;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

/// Fails unless the README's table has the promise of this engine; every lab calls it.
pub(crate) fn assert_in_the_readme(profile: &Profile) {
    let readme = read("README.md");
    // An engine that promises less in some arrangements has a row for each.
    let mut rows = readme.lines().filter(|line| is_row_of(line, profile.engine));
    let is_there = rows.any(|row| row.contains(profile.promise));
    assert!(is_there, "no row for {} with its promise: {}", profile.engine, profile.promise);
    assert!(!profile.broken_by.is_empty(), "{} says nothing of what breaks it", profile.engine);
}

/// Whether a line of the table begins with the name of this engine, alone or before a comma.
fn is_row_of(line: &str, engine: &str) -> bool {
    let rest = line.strip_prefix("| ").and_then(|line| line.strip_prefix(engine));
    rest.is_some_and(|rest| rest.starts_with([' ', ',']))
}

/// The rows of the table of engines: the words in quotes, which are the name, the schemes and the feature.
fn engines() -> Vec<Vec<String>> {
    let table = read("crates/lockkeeper/src/engines/mod.rs");
    let table = table.split("const KINDS: &[Kind] = &[").nth(1).unwrap();
    let rows = table.split("\n];").next().unwrap().split("kind!(").skip(1);
    let words = |row: &str| row.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(words).collect()
}

fn features(manifest: &str) -> Vec<(String, String)> {
    let manifest = read(manifest);
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(" = ")).map(|(a, b)| (a.into(), b.into())).collect()
}

#[test]
fn every_engine_has_a_row_in_the_readme_and_its_schemes_are_there() {
    let (readme, engines) = (read("README.md"), engines());
    assert!(engines.len() > 4 && engines[0][0] == "file", "read wrongly: {engines:?}");
    for words in &engines {
        let (name, scheme) = (&words[0], &words[1]);
        let row = readme.lines().find(|line| is_row_of(line, name));
        let row = row.unwrap_or_else(|| panic!("the README has no row for {name}"));
        assert!(row.contains(&format!("`{scheme}:")), "no {scheme}: in {row}");
    }
}

#[test]
fn every_engine_is_a_feature_that_full_has() {
    let all = features("crates/lockkeeper/Cargo.toml");
    let full = &all.iter().find(|(name, _)| name == "full").unwrap().1;
    let command = features("crates/lockkeeper-cli/Cargo.toml");
    assert!(command.iter().any(|(name, list)| name == "full" && list == "[\"lockkeeper/full\"]"));
    for words in engines() {
        // The system may follow.
        let feature = words.iter().rev().find(|word| *word != "linux").unwrap();
        assert!(all.iter().any(|(name, _)| name == feature), "no feature {feature}");
        assert!(full.contains(&format!("\"{feature}\"")), "full lacks {feature}");
        // The command always has the one, and refuses the other.
        if feature != "file" && feature != "memory" {
            let list = format!("[\"lockkeeper/{feature}\"]");
            let is_passed_on =
                command.iter().any(|entry| *entry == (feature.clone(), list.clone()));
            assert!(is_passed_on, "the command needs the feature {feature} = {list}");
        }
    }
}
