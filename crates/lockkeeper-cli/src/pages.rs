//! `completions` and `man`: texts made from the definition of the command line.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use crate::{
    args::Args,
    exit::{self, Exit, Failure},
    output::print,
};

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "lockkeeper", &mut script);
    print(&script)
}

/// Prints the manual page.
pub(crate) fn man() -> Result<Exit, Failure> {
    print(&page().map_err(|error| Failure::system("make the manual page", error))?)
}

fn page() -> io::Result<Vec<u8>> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone()).title("lockkeeper").manual("Lockkeeper");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for subcommand in command.get_subcommands() {
        page.extend(chapter(subcommand)?);
    }
    page.extend(list("EXIT STATUS", exit::table()).into_bytes());
    let variables = [
        (
            "LOCKKEEPER_URL",
            "the engine, if --url does not say it; set for the command, also to the folder of the \
             embedded default, unless it has a password",
        ),
        (
            "LOCKKEEPER_URL_FROM",
            "set for the command: where lockkeeper finds a URL with a password while the run lasts",
        ),
        ("LOCKKEEPER_KEY", "set for the command: the name of the lock"),
        ("LOCKKEEPER_FENCE", "set for the command: a number that grows with every grant"),
        (
            "LOCKKEEPER_HELD",
            "set for the command: the runs it is part of, so that one inside knows",
        ),
    ];
    let variables = variables.map(|(name, meaning)| (name.to_owned(), meaning));
    page.extend(list("ENVIRONMENT", variables.into_iter()).into_bytes());
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// One section per subcommand: how it is called, what it does, its own options.
fn chapter(subcommand: &Command) -> io::Result<Vec<u8>> {
    let mut subcommand = subcommand.clone().mut_args(|arg| {
        let everywhere = arg.is_global_set() || arg.get_id() == "help";
        arg.hide(everywhere)
    });
    let usage = subcommand.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let mut roff = Roff::new();
    roff.control("SH", [subcommand.get_name()]).text([bold(usage)]).control("PP", []);
    let mut chapter = roff.to_roff().into_bytes();

    let man = Man::new(subcommand);
    let mut body = Vec::new();
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    let headings = |line: &&[u8]| !line.starts_with(b".SH");
    chapter.extend(body.split_inclusive(|&byte| byte == b'\n').filter(headings).flatten());
    Ok(chapter)
}

fn list(heading: &str, entries: impl Iterator<Item = (String, &'static str)>) -> String {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (name, meaning) in entries {
        roff.control("TP", []).text([bold(name)]).text([roman(meaning)]);
    }
    roff.to_roff()
}
