//! Workers in other languages: `peers/` has their sources and the versions they need. They are
//! installed beside the bench when they are first needed, and anew when their sources change.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::team::Language;
use crate::Result;

/// How a worker is made and started, in a folder of its own.
struct Recipe {
    folder: &'static str,
    /// What makes it from its sources, one command after the other.
    steps: &'static [&'static [&'static str]],
    program: &'static str,
    args: &'static [&'static str],
}

/// `None` for the language of the bench itself.
fn recipe(language: Language) -> Option<Recipe> {
    Some(match language {
        Language::Rust => return None,
        Language::Python => Recipe {
            folder: "python",
            steps: &[
                &["python3", "-m", "venv", "venv"],
                &["venv/bin/pip", "install", "--require-hashes", "-r", "requirements.txt"],
            ],
            program: "venv/bin/python",
            args: &["worker.py"],
        },
        Language::Node => Recipe {
            folder: "node",
            steps: &[&["npm", "ci", "--no-audit", "--no-fund"]],
            program: "node",
            args: &["worker.js"],
        },
        Language::Java => Recipe {
            folder: "java",
            steps: &[&["mvn", "--batch-mode", "compile", "dependency:copy-dependencies"]],
            program: "java",
            args: &["-cp", "target/classes:target/dependency/*", "Worker"],
        },
        Language::Go => Recipe {
            folder: "go",
            steps: &[&["go", "build", "-mod=readonly", "-o", "worker", "."]],
            program: "./worker",
            args: &[],
        },
    })
}

/// How the worker is started, once it is installed; the bench itself for its own language.
pub(crate) fn program(language: Language) -> Result<Command> {
    let Some(recipe) = recipe(language) else {
        let mut command = Command::new(env::current_exe()?);
        command.arg("worker");
        return Ok(command);
    };
    let place = place(recipe.folder)?;
    install(&recipe, &place)?;
    let mut command = command(&place, recipe.program);
    command.args(recipe.args);
    Ok(command)
}

/// In the target folder, where the bench itself is.
fn place(folder: &str) -> Result<PathBuf> {
    let bench = env::current_exe()?;
    let target = bench.ancestors().nth(2).ok_or("the bench is in no target folder")?;
    Ok(target.join("peers").join(folder))
}

fn install(recipe: &Recipe, place: &Path) -> Result<()> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(recipe.folder);
    let (files, complete) = (files_below(&sources)?, place.join("complete"));
    let is_new =
        |file: &PathBuf| fs::read(sources.join(file)).ok() != fs::read(place.join(file)).ok();
    if complete.is_file() && !files.iter().any(is_new) {
        return Ok(());
    }
    if place.is_dir() {
        fs::remove_dir_all(place)?;
    }
    for file in files {
        let copy = place.join(&file);
        fs::create_dir_all(copy.parent().unwrap_or(place))?;
        fs::copy(sources.join(file), copy)?;
    }
    for step in recipe.steps {
        eprintln!("$ {}", step.join(" "));
        let mut command = command(place, step[0]);
        // The tables have the output to themselves.
        let done = command.args(&step[1..]).stdin(Stdio::null()).stdout(Stdio::null()).status();
        let status = done.map_err(|error| format!("{}: {error}", step[0]))?;
        if !status.success() {
            return Err(format!("{}: {status}", step.join(" ")).into());
        }
    }
    Ok(fs::write(complete, "")?)
}

/// A program that is found on the path, or below the folder in which it runs.
fn command(place: &Path, program: &str) -> Command {
    let own = place.join(program);
    let mut command = if program.contains('/') { Command::new(own) } else { Command::new(program) };
    command.current_dir(place);
    command
}

/// All files, by their names below the folder.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let name = below.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => folders.push(name),
                false => files.push(name),
            }
        }
    }
    Ok(files)
}
