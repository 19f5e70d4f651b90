//! The command line: what can be typed, and what the help says about it.

use std::{borrow::Cow, env::VarError, ffi::OsString, io::Write, time::Duration};

use clap::{
    Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    exit::{self, Exit},
    message,
    passed_on::{self, PassedOn},
};

/// Runs commands while holding a lock: for this user on this machine, or across a cluster.
///
/// The lock lives in an engine named by a URL. Without one it is the embedded default: a file per
/// key in the state folder of this user ($XDG_STATE_HOME/lockkeeper/locks, or
/// ~/.local/state/lockkeeper/locks). It is shared by the processes of this user on this machine that
/// have the same XDG_STATE_HOME and HOME, and not by other users; who and the line that tells what
/// run waits for say where the lock is.
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_long_help = exit::help())]
pub(crate) struct Args {
    /// The engine, as a URL; none is the embedded default, an empty one is an error
    ///
    /// For example file:///var/lib/app/locks. Engines that take long to build are left out unless they are asked
    /// for: cargo install --path crates/lockkeeper-cli --features full builds a lockkeeper that has every engine.
    ///
    /// Process lists show the command line to everybody:
    /// a URL with a password belongs in the environment variable.
    ///
    /// A lockkeeper inside the command uses the same engine: the URL is passed on in LOCKKEEPER_URL. So is
    /// the folder of the embedded default, as a file: URL; a lockkeeper of another user inside the command
    /// is refused with 77 there, until LOCKKEEPER_URL is unset.
    /// If it has a user, a password or a parameter such as sentinel-password in it, LOCKKEEPER_URL is taken away from the command, and
    /// LOCKKEEPER_URL_FROM says where processes of this user can read it while the run lasts (on
    /// Linux); after that, and from another container, lockkeeper refuses with 77.
    #[arg(long, global = true, env = "LOCKKEEPER_URL", hide_env_values = true, value_name = "URL")]
    url: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// The URL, if there is one; an empty one is a mistake of which `passed_on` tells.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Wait for the lock, then run a command while holding it
    ///
    /// The command gets LOCKKEEPER_KEY and LOCKKEEPER_FENCE in its environment, keeps the
    /// terminal, the standard streams and the process group, and its exit status becomes ours.
    /// SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT
    /// sent to lockkeeper are passed on to it; any other signal that ends lockkeeper is as SIGKILL. After SIGTERM, SIGHUP, SIGINT and SIGQUIT, also
    /// those of a terminal, it gets SIGCONT, so that they end it also while it is stopped. After Ctrl-Z
    /// this takes up to a second. If lockkeeper itself was stopped with SIGSTOP, or while it waits for
    /// the lock, it acts on them only when it gets SIGCONT; a signal sent to the stopped command alone
    /// waits for SIGCONT, too.
    ///
    /// The lock is released when the command ends; processes it left behind in the background are
    /// left alone. Not so if a signal ended the command, or if it ended after SIGTERM, SIGHUP, SIGINT or
    /// SIGQUIT came to lockkeeper: then what is left of it gets SIGTERM, SIGKILL after the grace, and
    /// the lock is free only when all have ended. If lockkeeper is killed, a warden kills the command
    /// with all its descendants, and only then is the lock free (all of this on Linux; elsewhere
    /// signals are not passed on, and the command runs on when lockkeeper is killed).
    ///
    /// If lockkeeper and its warden are both killed, so is the command, but its descendants run on. On the
    /// file engine they keep the lock: they inherit its descriptor (number 60, or the next one that is
    /// free) and hold the lock until the last one has ended or closed it. A lease cannot be inherited:
    /// on all other engines the lock is free after its ttl though descendants may still run.
    ///
    /// A run inside a run of the same key would wait for ever: it ends with 77 at once (on Linux). It is
    /// known by LOCKKEEPER_HELD in the environment and by the process numbers: in a cleaned environment, and
    /// in a container or another PID namespace inside the command, it waits for ever. Engines that
    /// cannot tell who holds a lock (dialect=plain, dialect=redisson, redlock) are compared by the text of
    /// their URLs: there, one who writes the same server in another way (localhost and 127.0.0.1, /0
    /// added) waits for ever, too.
    ///
    /// Stopped with Ctrl-Z while it waits, it leaves the line, and joins it again at the end when it goes
    /// on; the time counts for --within. Stopped (Ctrl-Z, SIGSTOP) while it holds the lock, it keeps the
    /// lock on the file engine. On all other engines nobody renews the lease then: after its ttl others
    /// get the lock, while descendants of the command that were not stopped run on.
    #[command(after_long_help = exit::help())]
    Run {
        /// Give up after this time, for example 90s: with exit 76 if the lock is still busy, with 69 if the
        /// engine does not answer, which then gets up to 500ms more to take back what was asked of it; 0s is
        /// one attempt
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        within: Option<Duration>,

        #[command(flatten)]
        hold: Hold,
    },

    /// Run a command while holding the lock, or end with 75 at once when it is busy
    ///
    /// All else is as with run.
    #[command(after_long_help = exit::help())]
    Try {
        #[command(flatten)]
        hold: Hold,
    },

    /// Show who holds a lock and who waits for it
    ///
    /// A column that the engine knows nothing of has a -: so has FENCE on Redis, where only the holder is
    /// told its fence.
    Who {
        /// The name of the lock
        key: String,

        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// List the keys the engine knows, held or not
    Ls {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },

    /// Clean up what is left of keys that nobody uses any more
    Tidy {
        /// Only what has not been used for this long
        #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = duration)]
        idle: Duration,
    },

    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// Print the manual page
    Man,
}

/// What to hold, how, and what to run meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Hold {
    /// How long the lock outlives a holder that went silent, where the engine counts time: 100ms to 24h
    /// [default: 10s; with dialect=redisson 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// What to do with the command when the lock is lost while it runs
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = OnLoss::Term)]
    pub(crate) on_loss: OnLoss,

    /// The time between SIGTERM and SIGKILL, for a lost lock and for what a signal left behind
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,

    /// What others see in who [default: the name of the command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Overtake those who wait, where the engine can
    #[arg(long)]
    pub(crate) barging: bool,

    /// The name of the lock: any text of 1 to 512 bytes that does not begin with -
    pub(crate) key: String,

    /// What the command gets to know of the engine.
    #[arg(skip)]
    pub(crate) passed_on: PassedOn,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What happens to the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// SIGTERM to it and all its descendants, SIGKILL after the grace; exit 79
    Term,
    /// SIGKILL at once; exit 79
    Kill,
    /// Say so and let it run
    Ignore,
}

impl OnLoss {
    /// Whether the command must not go on without the lock.
    pub(crate) fn stops(self) -> bool {
        self != Self::Ignore
    }
}

/// Answers a command line that is a question for help, or that cannot be meant.
pub(crate) fn report(error: &clap::Error, words: &[OsString]) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader who left early has seen enough.
            let _ = error.print().and_then(|()| std::io::stdout().flush());
            Exit::Done
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage
        }
        ErrorKind::InvalidUtf8 => {
            message::say(&format!("{} is not UTF-8; see lockkeeper --help", not_text(words)));
            Exit::Usage
        }
        _ => {
            let text = message::without_words(&error.to_string(), words);
            message::say(&in_one_line(&text, hint(error).as_deref()));
            Exit::Usage
        }
    }
}

/// Where the text comes from that is none. It is not repeated: it may be a URL with a password.
fn not_text(words: &[OsString]) -> String {
    // What follows the dashes is mostly a command, which may have any words.
    let mut ours = words.iter().take_while(|word| *word != "--");
    if let Some(n_before) = ours.position(|word| word.to_str().is_none()) {
        return format!("word {n_before} of the command line");
    }
    match std::env::var(passed_on::URL) {
        Err(VarError::NotUnicode(_)) => format!("the variable {}", passed_on::URL),
        _ => "a word of the command line".into(),
    }
}

/// What to type instead, for mistakes that many make and that clap has no good tip for.
fn hint(error: &clap::Error) -> Option<Cow<'static, str>> {
    const DASHES: &str = "put -- before the command, as in lockkeeper run KEY -- COMMAND";
    let text = error.to_string();
    let holds = ["run", "try"].iter().any(|verb| text.contains(&format!("lockkeeper {verb} ")));
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if holds => {
            if word.starts_with("--within") && text.contains("lockkeeper try ") {
                return Some("try does not wait; use run --within".into());
            }
            // clap's tip, to put it after --, would make it a part of the command.
            Some(match error.get(ContextKind::SuggestedArg) {
                _ if !word.starts_with('-') => DASHES.into(),
                Some(ContextValue::String(known)) => format!("did you mean {known}?").into(),
                _ => "a key must not begin with -".into(),
            })
        }
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            missing.iter().any(|name| name.contains("COMMAND")).then(|| DASHES.into())
        }
        _ => None,
    }
}

/// Keeps the reason and the tips of clap's message, drops its usage text. A hint of ours is better
/// than a tip.
fn in_one_line(text: &str, hint: Option<&str>) -> String {
    let reason = text.split("\n\nUsage:").next().unwrap_or(text);
    let reason = reason.split("\n\nFor more information").next().unwrap_or(reason);
    let paragraphs = reason.trim().trim_start_matches("error: ").split("\n\n");
    let mut paragraphs: Vec<String> = paragraphs
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    if let Some(hint) = hint {
        paragraphs.truncate(1);
        paragraphs.push(hint.to_owned());
    }
    format!("{}; see lockkeeper --help", paragraphs.join("; "))
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a duration like 500ms, 90s or 7d"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use lockkeeper::{DEFAULT_TTL, LONGEST_TTL, SHORTEST_TTL};

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_usage_error_is_one_line_with_its_tip() {
        let error = Args::try_parse_from(["lockkeeper", "tid"]).unwrap_err();
        let line = in_one_line(&error.to_string(), hint(&error).as_deref());
        assert!(!line.contains('\n') && !line.starts_with("error"), "{line}");
        assert!(
            line.contains("'tid'") && line.contains("tip: ") && line.contains("'tidy'"),
            "{line}"
        );
    }

    #[test]
    fn the_help_has_the_limits_of_the_ttl() {
        let mut command = Args::command();
        let run = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        let help = run.split_whitespace().collect::<Vec<_>>().join(" ");
        let [_, ttl] = help.split("--ttl <DURATION> ").collect::<Vec<_>>()[..] else {
            panic!("{help}")
        };
        let range = "time: 100ms to 24h [default: 10s; with dialect=redisson 30s]";
        assert!(ttl.split("--").next().unwrap().contains(range), "{ttl}");
        let limits = [SHORTEST_TTL, LONGEST_TTL, DEFAULT_TTL];
        assert_eq!(["100ms", "24h", "10s"].map(|text| duration(text).unwrap()), limits);
    }

    #[test]
    fn everything_after_the_dashes_belongs_to_the_command() {
        let args = ["lockkeeper", "run", "--ttl", "3s", "k", "--", "ls", "--ttl", "-l"];
        let Command::Run { hold, within } = Args::try_parse_from(args).unwrap().command else {
            panic!("not a run");
        };
        assert_eq!(hold.command, ["ls", "--ttl", "-l"]);
        assert_eq!((hold.ttl, within), (Some(Duration::from_secs(3)), None));
        assert_eq!((hold.on_loss, hold.grace), (OnLoss::Term, Duration::from_secs(5)));
    }
}
