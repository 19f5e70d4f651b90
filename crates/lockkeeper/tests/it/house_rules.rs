//! The habits of this repository, as a test: what it says in ARCHITECTURE.md under "Invariants".
//!
//! Each rule is a function from a file to its faults, so that the rules themselves are tested on
//! planted faults.

mod listed;
mod rooms;
mod walks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

pub(crate) use self::listed::assert_in_the_readme;
use self::rooms::imports_stay_below;

/// A source file: its path from the root of the repository, and its text.
struct Source {
    path: String,
    text: String,
}

type Rule = fn(&Source) -> Vec<String>;

/// How many entries a folder of the library or of the command may have.
const MOST_ENTRIES: usize = 14;

const RULES: &[(&str, Rule)] = &[
    ("engines have no timers and read no clock", engines_have_no_time),
    ("every room imports only what stands below it", imports_stay_below),
    ("time is read in clock.rs only", time_is_read_in_one_file),
    ("features are switched in three files only", features_are_switched_in_three_files),
    ("unsafe code is where it is known to be", unsafe_code_is_listed),
    ("tests of the command start programs in one way", programs_start_in_one_way),
    ("labs run the suite in one way", labs_run_the_suite_in_one_way),
    ("files and functions are short", files_and_functions_are_short),
    ("an ignored test says why", ignored_tests_say_why),
    ("no path of a machine", no_path_of_a_machine),
];

#[test]
fn the_house_rules_are_kept() {
    let sources = sources();
    assert!(sources.len() > 40, "found only {} files", sources.len());
    let faults: Vec<_> = sources
        .iter()
        .flat_map(|source| RULES.iter().map(move |(name, rule)| (source, name, rule(source))))
        .flat_map(|(source, name, faults)| {
            faults.into_iter().map(move |fault| format!("{}: {name}: {fault}", source.path))
        })
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn no_folder_is_over_full() {
    let paths: Vec<_> = sources().into_iter().map(|source| source.path).collect();
    assert_eq!(over_full(&paths), Vec::<String>::new());
    let planted: Vec<_> = (0..=MOST_ENTRIES).map(|n| format!("crates/x/src/a/{n}.rs")).collect();
    assert_eq!(over_full(&planted[1..]), Vec::<String>::new());
    assert_eq!(over_full(&planted), ["crates/x/src/a has 15 entries, at most 14"]);
}

fn over_full(paths: &[String]) -> Vec<String> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let is_watched = |path: &&String| path.contains("/src/") && !path.contains("crates/proof/");
    // Texts that a module includes are parts of it.
    let is_module = |path: &&String| !path.ends_with(".lua");
    for path in paths.iter().filter(is_watched).filter(is_module) {
        let mut end = path.len();
        while let Some(slash) = path[..end].rfind('/') {
            folders.entry(&path[..slash]).or_default().insert(&path[slash + 1..end]);
            end = slash;
        }
    }
    let folders = folders.into_iter().filter(|(folder, _)| folder.contains("/src"));
    let folders = folders.filter(|(_, entries)| entries.len() > MOST_ENTRIES);
    folders
        .map(|(folder, entries)| {
            format!("{folder} has {} entries, at most {MOST_ENTRIES}", entries.len())
        })
        .collect()
}

#[test]
fn every_lua_file_is_used() {
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let lua = || file("crates/x/src/a/take.lua", "return 1");
    let user = |text: &str| file("crates/x/src/a/b/mod.rs", text);
    assert_eq!(unused_lua(&sources()), Vec::<String>::new());
    assert_eq!(unused_lua(&[lua(), user("include_str!(\"../take.lua\")")]), Vec::<String>::new());
    assert_eq!(unused_lua(&[lua(), user("include_str!(\"take.lua\")")]), [lua().path]);
}

fn unused_lua(sources: &[Source]) -> Vec<String> {
    let mut used = BTreeSet::new();
    for source in sources {
        for part in source.text.split("include_str!(\"").skip(1) {
            let mut folder: Vec<_> = source.path.split('/').collect();
            folder.pop();
            for step in part.split('"').next().unwrap_or_default().split('/') {
                match step {
                    ".." => folder.truncate(folder.len().saturating_sub(1)),
                    step => folder.push(step),
                }
            }
            used.insert(folder.join("/"));
        }
    }
    let lua = sources.iter().map(|source| &source.path).filter(|path| path.ends_with(".lua"));
    lua.filter(|path| !used.contains(*path)).cloned().collect()
}

#[test]
fn every_page_is_in_the_documentation() {
    let sources = sources();
    assert_eq!(pages_left_out(&sources), Vec::<String>::new());
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let engine = "crates/lockkeeper/src/engines/x";
    let bare = file(&format!("{engine}/mod.rs"), "//! An engine.\n");
    assert_eq!(pages_left_out(&[bare]).len(), 1, "no page at all");
    let included = "#![doc = include_str!(\"page.md\")]\n";
    for (text, n_faults) in [("//! An engine.\n", 1), (included, 0)] {
        let all = [
            file(&format!("{engine}/mod.rs"), text),
            file(&format!("{engine}/page.md"), "A page."),
        ];
        assert_eq!(pages_left_out(&all).len(), n_faults, "{text}");
    }
}

/// Engines without a page, and pages that the module beside them does not include.
fn pages_left_out(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    let engines = "crates/lockkeeper/src/engines/";
    let text_of = |path: &str| {
        sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
    };
    for source in sources {
        let Some(rest) = source.path.strip_prefix(engines) else { continue };
        let Some((folder, name)) = rest.rsplit_once('/') else { continue };
        let is_engine = name == "mod.rs" && !folder.contains('/') && folder != "net";
        if is_engine && text_of(&format!("{engines}{folder}/page.md")).is_none() {
            faults.push(format!("{engines}{folder} has no page.md"));
        }
        let module = text_of(&format!("{engines}{folder}/mod.rs")).unwrap_or_default();
        if name == "page.md" && !module.contains("#![doc = include_str!(\"page.md\")]") {
            faults.push(format!("{} is not included by the module beside it", source.path));
        }
    }
    faults
}

#[test]
fn an_engine_that_sleeps_or_reads_the_clock_is_caught() {
    for line in [
        "tokio::time::sleep(pause).await;",
        "std::thread::sleep(pause);",
        "let now = Instant::now();",
        "let now = std::time::SystemTime::now();",
        "nix::time::clock_gettime(id)",
        "condvar.wait_timeout(guard, pause)",
        "let mut ticks = interval(pause);",
    ] {
        assert_caught(engines_have_no_time, "crates/lockkeeper/src/engines/x/mod.rs", line);
    }
}

#[test]
fn every_rule_catches_what_it_is_for() {
    let engine = "crates/lockkeeper/src/engines/x/claim.rs";
    assert_caught(imports_stay_below, engine, "use crate::line::errand::steward::Steward;");
    assert_caught(imports_stay_below, engine, "use crate::{\n    time::clock::Clock,\n};");
    assert_caught(imports_stay_below, engine, "use super::super::redis::wire::call::Call;");
    assert_caught(imports_stay_below, "crates/lockkeeper/src/time/x.rs", "crate::line::Line");
    assert_caught(
        imports_stay_below,
        "crates/lockkeeper/src/stray.rs",
        "use crate::engine::Claim;",
    );
    let wire = "crates/lockkeeper/src/engines/redis/wire/x.rs";
    assert_caught(imports_stay_below, wire, "use crate::engines::redis::server::client::Client;");
    let core = "crates/lockkeeper/src/line/mod.rs";
    assert_caught(time_is_read_in_one_file, core, "let now = Instant::now();");
    assert_caught(features_are_switched_in_three_files, core, "#[cfg(feature = \"file\")]");
    assert_caught(unsafe_code_is_listed, core, "let x = unsafe { *pointer };");
    let of_command = "crates/lockkeeper-cli/tests/it/codes.rs";
    assert_caught(programs_start_in_one_way, of_command, "let mut sh = Command::new(\"sh\");");
    let lab = "crates/lockkeeper/tests/it/x/conformance.rs";
    assert_caught(labs_run_the_suite_in_one_way, lab, "block_on(conformance::check_all(&lab));");
    assert_caught(files_and_functions_are_short, core, &"// a line\n".repeat(401));
    let long_function = format!("fn long() {{\n{}}}\n", "    step();\n".repeat(70));
    assert_caught(files_and_functions_are_short, core, &long_function);
    for start in
        ["pub(super) async ", "pub(crate) async ", "pub(in super::super) ", "const ", "pub unsafe "]
    {
        let long_function = format!("    {start}{}", long_function.replace("}\n", "    }\n"));
        assert_caught(files_and_functions_are_short, core, &long_function);
    }
    assert_caught(ignored_tests_say_why, core, "#[ignore]");
    assert_caught(no_path_of_a_machine, core, &format!("let home = \"/{}/x\";", "root"));
}

fn assert_caught(rule: Rule, path: &str, text: &str) {
    let source = Source { path: path.into(), text: text.into() };
    assert!(!rule(&source).is_empty(), "not caught: {text}");
}

fn engines_have_no_time(source: &Source) -> Vec<String> {
    if !source.is_engine() {
        return Vec::new();
    }
    let time = ["sleep(", "interval(", "Instant::", "SystemTime", "clock_gettime", "_timeout("];
    let mut faults = source.code_lines_with(&time);
    // The kernel may give a dead connection up by itself.
    faults.retain(|line| !line.contains("TcpKeepalive") && !line.contains("tcp_user_timeout"));
    faults
}

fn time_is_read_in_one_file(source: &Source) -> Vec<String> {
    if !source.path.starts_with("crates/lockkeeper/src/") || source.path.ends_with("time/clock.rs")
    {
        return Vec::new();
    }
    source.code_lines_with(&["Instant::now", "SystemTime::now", "clock_gettime"])
}

fn features_are_switched_in_three_files(source: &Source) -> Vec<String> {
    let allowed = ["src/lib.rs", "src/engines/mod.rs", "src/observe/mod.rs"];
    if !source.path.starts_with("crates/lockkeeper/src/") || source.ends_with_any(&allowed) {
        return Vec::new();
    }
    source.code_lines_with(&["cfg(feature", "cfg(all(feature", "cfg(not(feature"])
}

fn unsafe_code_is_listed(source: &Source) -> Vec<String> {
    let allowed = [
        "lab/src/signals.rs",
        "tools/fork.rs",
        "engines/file/interrupt.rs",
        "lockkeeper-cli/src/linux/process.rs",
        "tests/it/house_rules.rs",
        "tests/it/processes.rs",
    ];
    if source.ends_with_any(&allowed) {
        return Vec::new();
    }
    source.code_lines_with(&["unsafe {", "unsafe fn", "unsafe impl", "allow(unsafe_code"])
}

/// Otherwise they fail, or hang, where whoever started them ignores signals.
fn programs_start_in_one_way(source: &Source) -> Vec<String> {
    let tests = "crates/lockkeeper-cli/tests/";
    if !source.path.starts_with(tests) || source.path.ends_with("/support.rs") {
        return Vec::new();
    }
    source.code_lines_with(&["Command::new"])
}

/// Otherwise nobody compares the README with what the engine promises.
fn labs_run_the_suite_in_one_way(source: &Source) -> Vec<String> {
    let tests = "crates/lockkeeper/tests/it/";
    if !source.path.starts_with(tests) || source.path.ends_with("/engines.rs") {
        return Vec::new();
    }
    source.code_lines_with(&["conformance::check_all"])
}

fn files_and_functions_are_short(source: &Source) -> Vec<String> {
    const FILE: usize = 400;
    const FUNCTION: usize = 60;
    let mut faults = Vec::new();
    let n_lines = source.text.lines().count();
    if n_lines > FILE {
        faults.push(format!("{n_lines} lines, at most {FILE}"));
    }
    let mut open: Option<(usize, usize, &str)> = None;
    for (number, line) in source.text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let is_function = is_function(line);
        match open {
            None if is_function && !line.trim_end().ends_with('}') => {
                open = Some((number, indent, line.trim()));
            }
            Some((start, at, name)) if indent == at && line.trim_start().starts_with('}') => {
                if number - start > FUNCTION {
                    faults.push(format!("{} lines, at most {FUNCTION}: {name}", number - start));
                }
                open = None;
            }
            _ => {}
        }
    }
    faults
}

/// Whether a function begins on this line, whatever stands before its `fn`.
fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_before = |word: &str| {
        word.starts_with("pub") || matches!(word, "async" | "const" | "unsafe" | "default")
    };
    // `pub(in some::path)` and `extern "C"` are two words each.
    let is_part = |word: &str| word.ends_with(')') || word == "extern" || word.starts_with('"');
    words.find(|word| !is_before(word) && !is_part(word)) == Some("fn")
}

fn ignored_tests_say_why(source: &Source) -> Vec<String> {
    source.code().filter(|line| line.trim() == "#[ignore]").map(str::to_owned).collect()
}

fn no_path_of_a_machine(source: &Source) -> Vec<String> {
    // Put together here, so that this file does not contain them.
    let paths = ["work", "root", "farm"].map(|name| format!("/{name}/"));
    let has_path = |line: &&str| paths.iter().any(|path| line.contains(path.as_str()));
    source.text.lines().filter(has_path).map(str::to_owned).collect()
}

impl Source {
    fn is_engine(&self) -> bool {
        let is_test = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        self.path.starts_with("crates/lockkeeper/src/engines/") && !is_test
    }

    fn ends_with_any(&self, ends: &[&str]) -> bool {
        ends.iter().any(|end| self.path.ends_with(end))
    }

    /// The lines that are no comments, up to the unit tests at the end of the file.
    fn code(&self) -> impl Iterator<Item = &str> {
        self.text
            .lines()
            .take_while(|line| *line != "mod tests {")
            .filter(|line| !line.trim_start().starts_with("//"))
    }

    fn code_lines_with(&self, words: &[&str]) -> Vec<String> {
        let has_word = |line: &&str| words.iter().any(|word| line.contains(word));
        // This file must name what it looks for.
        let own = self.path.ends_with("tests/it/house_rules.rs");
        self.code().filter(has_word).filter(|_| !own).map(str::to_owned).collect()
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "xtask", "bench", "interop", "decisions", ".ci"] {
        collect(&root.join(folder), &mut found);
    }
    let shown = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
    let read = |path: &PathBuf| Source {
        path: shown(path),
        text: fs::read_to_string(path).unwrap_or_default(),
    };
    found.iter().map(read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_source = path
            .extension()
            .is_some_and(|end| ["rs", "md", "toml", "lua"].iter().any(|known| end == *known));
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            collect(&path, found);
        } else if is_source {
            found.push(path);
        }
    }
}
