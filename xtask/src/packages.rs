//! What is needed of the system, and how to get it.

use std::{path::PathBuf, process::Command};

use crate::steps::{Done, run};

/// A program that is started, and the Debian package it comes with.
type Program = (&'static str, &'static str);

/// What tests start.
pub(crate) const FOR_TESTS: &[Program] = &[
    ("sh", "dash"),
    ("setsid", "util-linux"),
    ("script", "bsdutils"),
    ("openssl", "openssl"),
    ("memcached", "memcached"),
    ("redis-server", "redis-server"),
    ("redis-sentinel", "redis-sentinel"),
    ("redis-cli", "redis-tools"),
    // For the clock that one server has for itself.
    ("cc", "gcc"),
];

/// What the clients of other languages are installed with and run by, and their servers.
pub(crate) const FOR_INTEROP: &[Program] = &[
    ("memcached", "memcached"),
    ("redis-server", "redis-server"),
    ("python3", "python3-venv"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
];

/// Installs what is missing if it may, and says what is missing if it may not.
pub(crate) fn ensure(needed: &[Program]) -> Done {
    let mut missing: Vec<_> = needed
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
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

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
