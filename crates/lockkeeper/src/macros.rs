//! What functions under [`locked`](crate::locked) call; no one else should.

use std::{fmt, future::ready};

use crate::{
    api::{blocking, guard::Guard},
    engine::error::{Error, ErrorKind, Result},
};

/// A [`Result`] that can carry an [`Error`]: what a locked function returns.
#[diagnostic::on_unimplemented(
    message = "a locked function must return a `Result` whose error is `From<lockkeeper::Error>`",
    label = "the lock may not be had, or may be lost, and `{Self}` cannot say so",
    note = "return `Result<_, E>` where `E: From<lockkeeper::Error>`"
)]
pub trait Answer {
    /// The answer of a function that could not do its work under the lock.
    fn failed(error: Error) -> Self;
    /// Whether the work was done.
    fn is_done(&self) -> bool;
}

impl<T, E: From<Error>> Answer for std::result::Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn is_done(&self) -> bool {
        self.is_ok()
    }
}

/// An [`Answer`] that can also say "not this time".
#[diagnostic::on_unimplemented(
    message = "with `busy = skip` a locked function must return `Result<Option<_>, _>`",
    label = "has no `Ok(None)` for when the lock is busy",
    note = "choose `busy = fail` to have an error instead"
)]
pub trait Skip {
    /// The answer of a function that was not run.
    fn skipped() -> Self;
}

impl<T, E> Skip for std::result::Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}

/// How a function answers, taken once so that a type which cannot is reported once.
pub struct Terms<A> {
    failed: fn(Error) -> A,
    is_done: fn(&A) -> bool,
}

/// The terms of this answer.
pub fn terms<A: Answer>() -> Terms<A> {
    Terms { failed: A::failed, is_done: A::is_done }
}

impl<A> Terms<A> {
    /// The answer for this error.
    pub fn failed(&self, error: Error) -> A {
        (self.failed)(error)
    }
}

impl<A> fmt::Debug for Terms<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terms")
    }
}

/// A guard as the parameter that a function asks for.
#[diagnostic::on_unimplemented(
    message = "the guard of this function is no `{T}`",
    label = "expected `&lockkeeper::Guard`, or in a function that is not async `&lockkeeper::blocking::Guard`"
)]
pub trait Lend<T> {
    /// The guard itself.
    fn lend(&self) -> &T;
}

impl Lend<Guard> for Guard {
    fn lend(&self) -> &Guard {
        self
    }
}

impl Lend<Guard> for blocking::Guard {
    fn lend(&self) -> &Guard {
        self.as_async()
    }
}

impl Lend<Self> for blocking::Guard {
    fn lend(&self) -> &Self {
        self
    }
}

/// See [`Lend`].
pub fn lend<G: Lend<T>, T>(guard: &G) -> &T {
    guard.lend()
}

/// See [`Skip`].
pub fn skipped<A: Skip>() -> A {
    A::skipped()
}

/// What `busy = fail` answers.
pub fn busy(key: &str) -> Error {
    Error::new(
        ErrorKind::TimedOut,
        format!("{key:?} is busy, and the call does not wait; try later"),
    )
}

/// A value of any type, for a place that is never reached.
pub fn never<T>() -> T {
    unreachable!("only its type is asked for")
}

/// Runs the body of a function that is not async; as an argument it may give away what it borrows.
pub fn run<A>(body: impl FnOnce() -> A) -> A {
    body()
}

/// Ends the hold after the work; the work's own error is the one that counts.
pub async fn finish<A>(guard: Guard, outcome: Result<A>, terms: &Terms<A>) -> A {
    match outcome {
        Ok(answer) => terms.settle(answer, guard.release().await),
        // Nothing is held that could be released, and the engine may well be the one that is gone.
        Err(lost) => terms.failed(lost),
    }
}

/// Ends the hold after work that could not be stopped.
pub fn blocking_finish<A>(guard: blocking::Guard, answer: A, terms: &Terms<A>) -> A {
    let ended = match blocking::block_on(guard.as_async().protect(ready(()))) {
        Ok(()) => guard.release(),
        Err(lost) => Err(lost),
    };
    terms.settle(answer, ended)
}

impl<A> Terms<A> {
    /// Done work stays done when only the release got no answer: the lease frees the lock. A loss
    /// means that somebody else may have been at work too.
    fn settle(&self, answer: A, ended: Result<()>) -> A {
        match ended {
            Err(error) if error.kind() == ErrorKind::Lost && (self.is_done)(&answer) => {
                self.failed(error)
            }
            _ => answer,
        }
    }
}
