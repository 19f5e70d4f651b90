//! One error for the whole crate; its kinds are what a caller can act on.

use std::{any::Any, fmt};

use super::key::Key;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong, where, with which key, and during which call.
///
/// There is one type on purpose: finer ones do not compose across engines, and what a caller
/// decides by is the [`kind`](Error::kind). "Busy" is not an error: `try_acquire` answers `Ok(None)`.
pub struct Error(Box<Parts>);

struct Parts {
    kind: ErrorKind,
    message: String,
    engine: Option<&'static str>,
    key: Option<Key>,
    call: Option<Call>,
    source: Option<Source>,
    is_panic: bool,
}

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was busy for the whole time the caller was willing to wait.
    TimedOut,
    /// The lock was held and is not any more; stop the work it protected.
    Lost,
    /// The engine did not answer; trying again later may help.
    Unreachable,
    /// Too few of the servers answered to decide.
    NoQuorum,
    /// The engine answered no, and will again: rights, a foreign file, an unsafe set-up.
    Refused,
    /// This engine, or this platform, cannot do that.
    Unsupported,
    /// The key is empty or too long.
    BadKey,
    /// An option or a URL that cannot be meant.
    BadOptions,
    /// Anything else; the message says what.
    Other,
}

/// The call during which an [`Error`] came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Opening the engine.
    Connect,
    /// Asking for the lock, once or while waiting.
    Acquire,
    /// Keeping it.
    Renew,
    /// Giving it back.
    Release,
    /// Looking who holds it and who waits.
    Inspect,
}

impl Error {
    /// An error of this kind; the message says what happened, to what, and what to do,
    /// in lower case and without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            message: message.into(),
            engine: None,
            key: None,
            call: None,
            source: None,
            is_panic: false,
        }))
    }

    /// The engine did not answer.
    pub fn unreachable(message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::new(ErrorKind::Unreachable, message).because(source)
    }

    /// The engine will not do this, now or later.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// The engine or the platform cannot do this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// An option or a URL that cannot be meant.
    pub fn bad_options(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadOptions, message)
    }

    /// A thread of ours could not be started.
    pub(crate) fn no_thread(thread: &str, source: std::io::Error) -> Self {
        let message = format!(
            "cannot start {thread}: the system has no thread to spare; raise its limit of processes or of memory"
        );
        Self::new(ErrorKind::Other, message).because(source)
    }

    /// A call of the engine panicked, with this.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let message = match text.or_else(|| panic.downcast_ref::<&str>().copied()) {
            // One line says what; the others have values, which may be anything.
            Some(text) => {
                format!("the engine panicked: {}", text.lines().next().unwrap_or_default())
            }
            None => "the engine panicked".to_owned(),
        };
        let mut error = Self::new(ErrorKind::Other, message);
        error.0.is_panic = true;
        error
    }

    /// Whether it is a [panic](Self::panicked): a matter of the one call, not of everyone who asks.
    pub(crate) fn is_panic(&self) -> bool {
        self.0.is_panic
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn because(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the engine, the key and the call, where they are not known yet.
    #[must_use]
    pub fn at(mut self, engine: &'static str, key: Option<&Key>, call: Call) -> Self {
        self.0.engine.get_or_insert(engine);
        if self.0.key.is_none() {
            self.0.key = key.cloned();
        }
        self.0.call.get_or_insert(call);
        self
    }

    /// Adds the call to an error that came up before the engine was known.
    pub(crate) fn during(mut self, call: Call) -> Self {
        self.0.call = Some(call);
        self
    }

    /// Adds the engine and the key to an error whose message names them already.
    pub(crate) fn about(mut self, engine: &'static str, key: &Key) -> Self {
        self.0.engine = Some(engine);
        self.0.key = Some(key.clone());
        self
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The engine's name, as in [`Profile::engine`](crate::engine::Profile::engine).
    pub fn engine(&self) -> Option<&'static str> {
        self.0.engine
    }

    /// The key that was asked for.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_ref().map(Key::as_str)
    }

    /// The call that failed.
    pub fn call(&self) -> Option<Call> {
        self.0.call
    }

    /// The same error for a second one who waited for the same answer: the source stays behind,
    /// its text comes along.
    pub(crate) fn echo(&self) -> Self {
        let message = match &self.0.source {
            Some(source) => format!("{}: {source}", self.0.message),
            None => self.0.message.clone(),
        };
        Self(Box::new(Parts { message, source: None, key: self.0.key.clone(), ..*self.0 }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.0.call {
            Some(Call::Connect) => "cannot open",
            Some(Call::Acquire) => "cannot take",
            Some(Call::Renew) => "cannot keep",
            Some(Call::Release) => "cannot release",
            Some(Call::Inspect) => "cannot look at",
            None => return f.write_str(&self.0.message),
        };
        f.write_str(verb)?;
        if let Some(key) = &self.0.key {
            write!(f, " {:?}", key.as_str())?;
        }
        match (self.0.engine, &self.0.key) {
            (Some(engine), Some(_)) => write!(f, " on {engine}")?,
            (Some(engine), None) => write!(f, " {engine}")?,
            (None, _) => {}
        }
        write!(f, ": {}", self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        if let Some(source) = &self.0.source {
            write!(f, " ({source})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_to_what_and_where() {
        let key = Key::new("deploy").unwrap();
        let error = Error::refused("the folder is not ours").at("file", Some(&key), Call::Acquire);
        assert_eq!(error.to_string(), r#"cannot take "deploy" on file: the folder is not ours"#);
        let error = Error::refused("no such folder").at("file", None, Call::Connect);
        assert_eq!(error.to_string(), "cannot open file: no such folder");
    }

    #[test]
    fn control_characters_of_a_key_do_not_reach_the_terminal() {
        let key = Key::new("a\x1b[31m\nb").unwrap();
        let error = Error::refused("no").at("file", Some(&key), Call::Acquire);
        assert!(!error.to_string().chars().any(char::is_control));
    }

    #[test]
    fn an_echo_keeps_the_kind_and_the_reason() {
        let error = Error::unreachable("no answer", "connection refused").echo();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert_eq!(error.to_string(), "no answer: connection refused");
    }
}
