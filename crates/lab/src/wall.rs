//! A wall clock that a program has for itself and that can be set while it runs.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::Program;

pub(crate) const PROGRAMS: &[Program] = &[("cc", "gcc")];

const SOURCE: &str = include_str!("clock.c");

/// The wall clock of one program, in a folder that is not removed before the program ends.
#[derive(Clone, Debug)]
pub(crate) struct Wall {
    library: PathBuf,
    ahead: PathBuf,
}

impl Wall {
    /// Makes one that goes with the machine's.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        fs::write(&source, SOURCE)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-o"]).args([&library, &source]);
        let output = compiler.output().map_err(|error| {
            io::Error::new(error.kind(), format!("cc, of the package gcc, does not start: {error}"))
        })?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
        }
        let wall = Self { library, ahead: folder.join("clock.ahead") };
        wall.set_ahead(Duration::ZERO)?;
        Ok(wall)
    }

    /// Sets it so far ahead of the machine's, at once.
    pub(crate) fn set_ahead(&self, ahead: Duration) -> io::Result<()> {
        let ahead_us = i64::try_from(ahead.as_micros()).map_err(io::Error::other)?;
        // Never emptied first: a program that reads it meanwhile would be killed.
        let file = File::options().write(true).create(true).truncate(false).open(&self.ahead)?;
        file.write_all_at(&ahead_us.to_ne_bytes(), 0)
    }

    /// Has a program that is yet to be started go by it.
    pub(crate) fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("LAB_CLOCK", &self.ahead);
    }
}
