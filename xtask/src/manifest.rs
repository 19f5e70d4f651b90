//! The features of a crate, read from its Cargo.toml, so that no list of them has to be kept elsewhere.

use std::{collections::BTreeSet, fs};

use crate::steps::root;

/// The features of a crate, each with what it switches on.
pub(crate) struct Features(Vec<(String, Vec<String>)>);

impl Features {
    /// Those of the crate in this folder.
    pub(crate) fn of(folder: &str) -> Result<Self, String> {
        let path = root().join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path:?}: {error}"))?;
        Ok(Self::read(&text))
    }

    /// Reads a section in which each feature stands on a line of its own, as it does in this repository.
    fn read(manifest: &str) -> Self {
        let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let features = lines.filter_map(|line| {
            let (name, list) = line.split_once(" = [")?;
            // Of a list in quotes, every second part is a word.
            let words = list.split('"').skip(1).step_by(2).map(str::to_owned);
            (!name.starts_with('#')).then(|| (name.to_owned(), words.collect()))
        });
        Self(features.collect())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The crates that a feature brings, by itself or by features that it switches on.
    pub(crate) fn brought_by(&self, name: &str) -> BTreeSet<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        let words = found.map_or(&[][..], |(_, words)| words);
        let brought = words.iter().flat_map(|word| match word.strip_prefix("dep:") {
            Some(package) => BTreeSet::from([package]),
            None => self.brought_by(word),
        });
        brought.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_with_what_they_bring() {
        let features = Features::read(
            "[package]\nname = \"x\"\n\n[features]\ndefault = [\"a\"]\n## About a.\na = [\"dep:one\"]\n\
             b = [\"_c\", \"dep:two\"]\n_c = [\"dep:three\", \"dep:one\"]\nd = []\n\n[dependencies]\ne = [\"no\"]\n",
        );
        assert_eq!(features.names().collect::<Vec<_>>(), ["default", "a", "b", "_c", "d"]);
        assert_eq!(features.brought_by("default"), BTreeSet::from(["one"]));
        assert_eq!(features.brought_by("b"), BTreeSet::from(["one", "two", "three"]));
        assert_eq!(features.brought_by("d"), BTreeSet::new());
    }

    #[test]
    fn those_of_the_library_are_found() {
        let features = Features::of("crates/lockkeeper").unwrap_or(Features(Vec::new()));
        assert!(features.names().any(|name| name == "file"), "no feature file");
    }
}
