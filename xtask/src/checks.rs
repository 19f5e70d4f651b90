//! Everything that must pass before a change lands.

use std::{collections::BTreeSet, fs, process::Command, time::Instant};

use crate::{
    api,
    manifest::Features,
    packages,
    steps::{Done, cargo, cargo_with, root, run},
};

/// The tests of the command, built without any engine that can be left out.
const LEAN: [&str; 4] = ["test", "--package", "lockkeeper-cli", "--no-default-features"];

pub(crate) fn all() -> Done {
    packages::ensure(&[])?;
    cargo(&["fmt", "--all", "--check"])?;
    lints()?;
    cargo_with(
        &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    api::check(&[])?;
    cargo(&["test", "--workspace", "--all-features"])?;
    cargo(&[&LEAN[..], &["--test", "it", "not_built_in"]].concat())?;
    examples()?;
    first_command()?;
    the_core_pulls_no_client()
}

/// With everything on, with nothing on, and with each feature alone.
fn lints() -> Done {
    let clippy = ["clippy", "--quiet", "--all-targets"];
    let strict = ["--", "-D", "warnings"];
    let lint = |more: &[&str]| cargo(&[&clippy[..], more, &strict[..]].concat());
    lint(&["--workspace", "--all-features"])?;
    let library = ["clippy", "--quiet", "--package", "lockkeeper", "--no-default-features"];
    cargo(&[&library[..], &strict[..]].concat())?;
    let command = ["clippy", "--quiet", "--package", "lockkeeper-cli", "--no-default-features"];
    cargo(&[&command[..], &strict[..]].concat())?;
    let features = Features::of("crates/lockkeeper")?;
    // With `full` alone is nearly with everything, and the others that are left out are not for users.
    let is_linted = |name: &&str| !matches!(*name, "default" | "full") && !name.starts_with('_');
    for feature in features.names().filter(is_linted) {
        cargo(&[&library[..], &["--features", feature], &strict[..]].concat())?;
    }
    Ok(())
}

/// Does what a newcomer does first, word for word as in the README, with nothing built before, and says how long that
/// took. It is stated and not judged: machines differ.
fn first_command() -> Done {
    let readme = root().join("README.md");
    let text = fs::read_to_string(&readme).map_err(|error| format!("{readme:?}: {error}"))?;
    let command = text.lines().find_map(|line| line.strip_prefix("$ cargo run --release "));
    let command = command.ok_or("the README has no first command")?;
    let target = root().join("target/first");
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{target:?}: {error}"));
        }
        _ => {}
    }
    // The packages of others are there by now; how long they take is the network's affair.
    let begun_at = Instant::now();
    eprintln!("$ cargo run --release {command}");
    let shell = format!("\"${{CARGO:-cargo}}\" run --quiet --release {command}");
    run(Command::new("sh")
        .args(["-c", &shell])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("LOCKKEEPER_URL"))?;
    eprintln!("the first command took {} s from a clean clone", begun_at.elapsed().as_secs());
    Ok(())
}

fn examples() -> Done {
    let folder = root().join("crates/lockkeeper/examples");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{folder:?}: {error}"))?;
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    for name in names {
        cargo(&[
            "run",
            "--quiet",
            "--package",
            "lockkeeper",
            "--all-features",
            "--example",
            &name,
        ])?;
    }
    Ok(())
}

/// Engines are features: whoever does not ask for one gets none of the crates that it brings.
fn the_core_pulls_no_client() -> Done {
    let features = Features::of("crates/lockkeeper")?;
    let clients: BTreeSet<_> =
        features.names().flat_map(|name| features.brought_by(name)).collect();
    let clients: Vec<_> = clients.difference(&features.brought_by("default")).copied().collect();
    if !clients.contains(&"tokio") {
        return Err(format!(
            "the features of lockkeeper bring {clients:?} and no tokio: read wrongly"
        ));
    }
    let output = Command::new("cargo")
        .current_dir(root())
        .args(["tree", "--package", "lockkeeper", "--edges", "normal", "--prefix", "none"])
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    match clients
        .iter()
        .find(|client| tree.lines().any(|line| line.starts_with(&format!("{client} "))))
    {
        Some(client) => Err(format!("the default build of lockkeeper pulls {client}")),
        None if output.status.success() => Ok(()),
        None => Err("cargo tree failed".into()),
    }
}
