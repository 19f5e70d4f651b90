//! Brings the clients and what they need, in the versions that stand in their lock files, into the
//! folder for build output.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, client::Language};

/// The folder of a language, with its worker ready to be started.
pub(crate) fn ensure(language: Language) -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = match language {
        Language::Python => "python",
        Language::Node => "node",
        Language::Java => "java",
    };
    let folder = here.join("target").join(name);
    fs::create_dir_all(&folder)?;
    let sources = here.join("clients").join(name);
    // Written last, so that what was interrupted is done again.
    let stamp = folder.join("installed");
    let wanted = contents(&sources)?;
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    copy(&sources, &folder)?;
    match language {
        Language::Python => {
            run(Command::new("python3").args(["-m", "venv", "--clear", "venv"]), &folder)?;
            let install = ["install", "--quiet", "--require-hashes", "-r", "requirements.txt"];
            run(Command::new("venv/bin/pip").args(install), &folder)?;
        }
        Language::Node => run(Command::new("npm").args(["ci", "--silent"]), &folder)?,
        Language::Java => {
            let goals = ["--quiet", "--batch-mode", "compile", "dependency:copy-dependencies"];
            run(Command::new("mvn").args(goals), &folder)?;
        }
    }
    fs::write(stamp, wanted)?;
    Ok(folder)
}

/// All that is in a folder, one after the other.
fn contents(folder: &Path) -> Result<Vec<u8>> {
    let mut entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    let mut all = Vec::new();
    for entry in entries {
        all.extend(match entry.file_type()?.is_dir() {
            true => contents(&entry.path())?,
            false => fs::read(entry.path())?,
        });
    }
    Ok(all)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}

fn run(command: &mut Command, folder: &Path) -> Result<()> {
    eprintln!("$ {}", words(command));
    let status = command.current_dir(folder).status();
    match status.map_err(|error| format!("{}: {error}", words(command)))? {
        status if status.success() => Ok(()),
        status => Err(format!("{}: {status}", words(command)).into()),
    }
}

fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
