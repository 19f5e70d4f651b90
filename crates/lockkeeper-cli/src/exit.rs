//! Exit codes: the one table that the code, `--help` and the manual page are made from.

use lockkeeper::{Error, ErrorKind};

use crate::message;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done,
    /// The child's own status, or 128 + n when signal n ended it.
    Child(u8),
    /// Signal n ended the wait for the lock.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "elsewhere it ends us too"))]
    Signal(u8),
    Usage,
    Unreachable,
    Failed,
    Busy,
    TimedOut,
    Refused,
    Lost,
    CannotExecute,
    NotFound,
}

/// The codes of `lockkeeper` itself, as the help and the manual page show them.
const OWN: [(Exit, &str); 9] = [
    (Exit::Usage, "bad usage: an unknown option, URL scheme or parameter, a bad key or ttl"),
    (Exit::Unreachable, "the engine cannot be reached, or too few of its servers answer"),
    (Exit::Failed, "anything else that went wrong"),
    (Exit::Busy, "somebody else holds the lock (try)"),
    (Exit::TimedOut, "the lock was busy for all of --within (run)"),
    (
        Exit::Refused,
        "refused or not supported: rights, a foreign file, a folder not ours, a key that an outer run holds, an engine \
         that is not built in",
    ),
    (
        Exit::Lost,
        "the lock was lost while the command ran; the command was stopped, or had already ended",
    ),
    (Exit::CannotExecute, "the command was found but cannot be executed"),
    (Exit::NotFound, "the command was not found"),
];

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Child(code) => code,
            Self::Signal(signal) => 128 | signal,
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::Failed => 70,
            Self::Busy => 75,
            Self::TimedOut => 76,
            Self::Refused => 77,
            Self::Lost => 79,
            Self::CannotExecute => 126,
            Self::NotFound => 127,
        }
    }
}

/// Every code with its meaning, in rising order.
pub(crate) fn table() -> impl Iterator<Item = (String, &'static str)> {
    let own = OWN.into_iter().map(|(exit, meaning)| (exit.code().to_string(), meaning));
    let child = [
        ("n", "run and try end with the status of the command, whatever it is"),
        ("128+n", "signal n ended the command, or the wait for the lock"),
    ];
    let child = child.into_iter().map(|(code, meaning)| (code.to_owned(), meaning));
    child.clone().take(1).chain(own).chain(child.skip(1))
}

/// The table as the help shows it.
pub(crate) fn help() -> String {
    let mut text = String::from("Exit status:\n");
    for (code, meaning) in table() {
        text += &format!("  {code:>5}  {meaning}\n");
    }
    text
}

/// Why the command gives up: its exit code, and what to say on stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: Some(message.into()) }
    }

    /// Says nothing: whoever sent the signal knows.
    #[cfg(target_os = "linux")]
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self { exit: Exit::Signal(signal), message: None }
    }

    /// The system refused something the command cannot do without.
    pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> Self {
        Self::new(Exit::Failed, format!("cannot {what}: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::BadKey | ErrorKind::BadOptions => Exit::Usage,
            ErrorKind::Unreachable | ErrorKind::NoQuorum => Exit::Unreachable,
            ErrorKind::TimedOut => Exit::TimedOut,
            ErrorKind::Refused | ErrorKind::Unsupported => Exit::Refused,
            ErrorKind::Lost => Exit::Lost,
            _ => Exit::Failed,
        };
        Self::new(exit, message::chain(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_codes_rise_and_are_all_in_the_help() {
        let codes: Vec<u8> = OWN.iter().map(|(exit, _)| exit.code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        for code in codes {
            assert!(help().contains(&format!("{code:>5}  ")), "{code}");
        }
    }

    #[test]
    fn a_signal_ends_with_128_and_its_number() {
        assert_eq!(Exit::Signal(15).code(), 143);
    }
}
