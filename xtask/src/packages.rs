//! What is needed of the system, and how to get it.

use std::{path::PathBuf, process::Command};

use lab::Program;

use crate::steps::{Done, run};

/// What the clients of other languages are installed with and run by; the labs have their servers.
pub(crate) const FOR_INTEROP: &[Program] = &[
    ("python3", "python3-venv"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
];

/// Makes sure that all programs of the labs are there, and these: installs the missing ones if it may, and says
/// which they are if it may not.
pub(crate) fn ensure(more: &[Program]) -> Done {
    let needed = lab::PROGRAMS.iter().copied().flatten().chain(more);
    let missing = needed.filter(|(program, _)| !is_there(program));
    let mut missing: Vec<_> = missing.map(|(_, package)| *package).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_there("apt-get") || !is_root() {
        return Err(format!("more programs are needed: apt-get install {packages} (as root)"));
    }
    eprintln!("$ apt-get install {packages}");
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Whether a program can be found. A whole path is looked for where it says.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
