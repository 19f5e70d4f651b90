//! The public API as a text that is kept: whoever changes it sees so, and says so.

use std::{fs, path::Path, process::Command};

use crate::steps::{Done, cargo, root};

const KEPT: &str = "crates/lockkeeper/api.txt";

/// Compares the public API with the text that is kept, or keeps it anew.
pub(crate) fn check(rest: &[String]) -> Done {
    let keeps = match rest {
        [] => false,
        [word] if word == "--keep" => true,
        _ => return Err("cargo xtask api [--keep]".into()),
    };
    let target = root().join("target/api");
    let folder = target.display().to_string();
    cargo(&[
        "doc",
        "--quiet",
        "--no-deps",
        "--package",
        "lockkeeper",
        "--all-features",
        "--target-dir",
        &folder,
    ])?;
    let version = rustc()?;
    let found = format!("{version}\n{}", api(&target.join("doc/lockkeeper"))?);
    let path = root().join(KEPT);
    if keeps {
        return fs::write(&path, found).map_err(|error| format!("{KEPT}: {error}"));
    }
    let kept = fs::read_to_string(&path).map_err(|error| format!("{KEPT}: {error}"))?;
    if kept.lines().next() != Some(&version) {
        // Compilers write documentation in different ways.
        eprintln!("the public API was not compared: {KEPT} is of another compiler than {version}");
        return Ok(());
    }
    let changes = changes(&kept, &found);
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public API has changed; if that is meant, say so in CHANGELOG.md and run `cargo xtask api --keep`:\n{changes}"
    ))
}

fn rustc() -> Result<String, String> {
    let output = Command::new("rustc").arg("--version").output();
    let output = output.map_err(|error| format!("rustc --version: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn changes(kept: &str, found: &str) -> String {
    let missing = kept.lines().filter(|line| !found.lines().any(|other| other == *line));
    let new = found.lines().filter(|line| !kept.lines().any(|other| other == *line));
    let missing = missing.map(|line| format!("- {line}\n"));
    missing.chain(new.map(|line| format!("+ {line}\n"))).collect()
}

/// Every public item with its signatures, a line each, in the order of their names.
fn api(folder: &Path) -> Result<String, String> {
    let mut lines = Vec::new();
    collect(folder, folder, &mut lines)?;
    lines.sort();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

fn collect(root: &Path, folder: &Path, lines: &mut Vec<String>) -> Done {
    let entries = fs::read_dir(folder).map_err(|error| format!("{folder:?}: {error}"))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            collect(root, &path, lines)?;
        } else if let Some(item) = name.strip_suffix(".html")
            && item.contains('.')
        {
            let page = fs::read_to_string(&path).map_err(|error| format!("{path:?}: {error}"))?;
            if page.contains("http-equiv=\"refresh\"") {
                continue;
            }
            let module = path.parent().unwrap_or(root).strip_prefix(root).unwrap_or(root);
            let item = module.join(item).display().to_string();
            lines.extend(signatures(&page).into_iter().map(|text| format!("{item}: {text}")));
        }
    }
    Ok(())
}

/// What stands on the page of an item: its own declaration, and its methods and traits.
fn signatures(page: &str) -> Vec<String> {
    // What every type has, or what the compiler finds out by itself, is no promise of ours.
    let end = page.find("id=\"synthetic-implementations\"").unwrap_or(page.len());
    let page = &page[..end];
    let declaration = between(page, "<pre class=\"rust item-decl\">", "</pre>");
    // The methods of a trait stand on the page of the trait.
    let own = page.find("id=\"trait-implementations\"").map_or(page, |end| &page[..end]);
    let methods = between(own, "<h4 class=\"code-header\">", "</h4>");
    let traits = between(page, "<h3 class=\"code-header\">", "</h3>");
    declaration.into_iter().chain(methods).chain(traits).map(|html| text_of(&html)).collect()
}

fn between(page: &str, start: &str, end: &str) -> Vec<String> {
    let parts = page.split(start).skip(1);
    parts.filter_map(|part| part.split(end).next()).map(str::to_owned).collect()
}

/// The text of some HTML, on one line.
fn text_of(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    for (code, c) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        text = text.replace(code, c);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_lines() {
        let page = "<pre class=\"rust item-decl\"><code>pub struct A {\n    pub b: <a>u8</a>,\n}</code></pre>\
            <h4 class=\"code-header\">pub fn c(&amp;self) -&gt; <a>B</a></h4>\
            <h2 id=\"synthetic-implementations\"></h2><h3 class=\"code-header\">impl Send for A</h3>";
        assert_eq!(signatures(page), ["pub struct A { pub b: u8, }", "pub fn c(&self) -> B"]);
    }

    #[test]
    fn what_has_changed_is_shown() {
        assert_eq!(changes("a\nb\n", "a\nb\n"), "");
        assert_eq!(changes("a\nb\n", "a\nc\n"), "- b\n+ c\n");
    }
}
