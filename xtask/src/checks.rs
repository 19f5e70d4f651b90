//! Everything that must pass before a change lands.

use std::process::Command;

use crate::{
    api, packages,
    steps::{Done, cargo, cargo_with, root},
};

pub(crate) fn all() -> Done {
    packages::ensure(packages::FOR_TESTS)?;
    cargo(&["fmt", "--all", "--check"])?;
    lints()?;
    cargo_with(
        &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    api::check(&[])?;
    cargo(&["test", "--workspace", "--all-features"])?;
    examples()?;
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
    for feature in ["file", "memcached", "memory", "redis", "macros", "tracing", "conformance"] {
        cargo(&[&library[..], &["--features", feature], &strict[..]].concat())?;
    }
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

/// Engines are features: whoever wants the core alone gets no client and no runtime.
fn the_core_pulls_no_client() -> Done {
    let output = Command::new("cargo")
        .current_dir(root())
        .args(["tree", "--package", "lockkeeper", "--edges", "normal", "--prefix", "none"])
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    let clients = ["tokio", "redis", "tonic", "mysql_async", "tokio-postgres", "zookeeper-client"];
    match clients
        .iter()
        .find(|client| tree.lines().any(|line| line.starts_with(&format!("{client} "))))
    {
        Some(client) => Err(format!("the default build of lockkeeper pulls {client}")),
        None if output.status.success() => Ok(()),
        None => Err("cargo tree failed".into()),
    }
}
