//! The limit of the calls that a line makes.
//!
//! A key that is wanted again and again makes call after call, each with the same limit. So each of them just
//! says until when it waits, and the clock's thread looks at the line now and then; see [`NextCheck`].
//!
//! [`NextCheck`]: crate::time::next_check::NextCheck

use std::{
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::no_answer_within;
use crate::{
    engine::{
        Answers,
        error::{Error, Result},
        poller,
    },
    line::Line,
    time::{clock::Moment, timers::Entry},
    tools::{
        caught::{Caught, caught},
        sync::{keep_waker, let_go, locked},
    },
};

/// The limit of one line.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Until when the call that is under way waits; never, if there is none.
    ends_at: AtomicU64,
    /// Whom to wake then. It is kept until the next look: most often, the same task calls again.
    waker: Mutex<Option<Waker>>,
}

impl Default for Limit {
    fn default() -> Self {
        Self { ends_at: AtomicU64::new(NONE), waker: Mutex::default() }
    }
}

const NONE: u64 = Moment::NEVER.as_nanos();

/// What came of setting a limit.
#[derive(Debug, PartialEq, Eq)]
enum Setting {
    Set,
    /// Another call of the line has it.
    Taken,
}

/// What a look at the limit found.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) waker: Option<Waker>,
    /// When to look again.
    pub(crate) next: Moment,
}

impl Limit {
    fn set(&self, ends_at: Moment, waker: &Waker) -> Setting {
        // The mutex is also what [`NextCheck`] asks for.
        let set = locked(&self.waker);
        if self.ends_at.load(Ordering::Relaxed) != NONE {
            return Setting::Taken;
        }
        self.ends_at.store(ends_at.as_nanos(), Ordering::Relaxed);
        keep_waker(set, |set| set, waker);
        Setting::Set
    }

    /// From now on this task is the one to wake.
    fn move_to(&self, waker: &Waker) {
        keep_waker(locked(&self.waker), |set| set, waker);
    }

    fn clear(&self) {
        self.ends_at.store(NONE, Ordering::Release);
    }

    /// The clock's thread looks: a call that is over is to be woken, one that is not to be looked at again.
    pub(crate) fn look(&self, now: Moment) -> Look {
        let mut set = locked(&self.waker);
        match Moment::from_nanos(self.ends_at.load(Ordering::Acquire)) {
            Moment::NEVER => {
                let unwanted = set.take();
                drop(set);
                unwanted.into_iter().for_each(let_go);
                Look { waker: None, next: Moment::NEVER }
            }
            ends_at if ends_at > now => Look { waker: None, next: ends_at },
            _ => Look { waker: set.clone(), next: Moment::NEVER },
        }
    }
}

/// What one call of a line has of its limit. Whoever has it must [end](Self::end) it.
#[derive(Debug)]
pub(crate) struct CallLimit {
    began_at: Moment,
    watch: Watch,
}

#[derive(Clone, Copy, Debug)]
enum Watch {
    NotYet,
    ByLine,
    /// Another call has the line's limit.
    Apart(Entry),
}

impl CallLimit {
    pub(crate) fn new(began_at: Moment) -> Self {
        Self { began_at, watch: Watch::NotYet }
    }

    /// The error that the call has come to when its time is over; until then, the task is woken for that.
    pub(crate) fn poll(&mut self, line: &Line, context: &Context<'_>) -> Poll<Error> {
        let (core, waker) = (&line.core, context.waker());
        // Whoever only looks in watches the time by other means.
        if core.profile.answers == Answers::AtOnce || !poller().waits {
            return Poll::Pending;
        }
        let ends_at = self.began_at + core.answer_within;
        match self.watch {
            Watch::NotYet => {
                self.watch = match line.record().limit.set(ends_at, waker) {
                    Setting::Set => {
                        line.record().watch_limit(&core.alarms, self.began_at, ends_at);
                        Watch::ByLine
                    }
                    Setting::Taken => {
                        Watch::Apart(core.alarms.set_limit(core.answer_within, waker).0)
                    }
                };
                return Poll::Pending;
            }
            Watch::ByLine => {
                line.record().limit.move_to(waker);
                // The look may be missing, if there was no thread for it.
                line.record().watch_limit(&core.alarms, self.began_at, ends_at);
            }
            // If the limit is over, the look at the clock tells as well.
            Watch::Apart(entry) => drop(core.alarms.move_limit(entry, waker)),
        }
        // After the move: the clock's thread may have looked just before it, and woken another task.
        match core.alarms.is_over(ends_at) {
            true => Poll::Ready(no_answer_within(core.answer_within)),
            false => Poll::Pending,
        }
    }

    /// The call is over.
    pub(crate) fn end(&mut self, line: &Line) {
        match std::mem::replace(&mut self.watch, Watch::NotYet) {
            Watch::NotYet => {}
            Watch::ByLine => line.record().limit.clear(),
            Watch::Apart(entry) => line.core.alarms.forget_limit(entry),
        }
    }
}

impl Line {
    /// Makes a call of this line that begins now, and gives it up when its answer takes too long.
    pub(crate) fn limited<F>(&self, now: Moment, call: impl FnOnce() -> F) -> LimitedInLine<'_, F> {
        LimitedInLine { call: caught(call), line: self, limit: CallLimit::new(now) }
    }
}

/// A call of a line with a limit; the call is dropped when that is over.
pub(crate) struct LimitedInLine<'a, F> {
    call: Caught<F>,
    line: &'a Line,
    limit: CallLimit,
}

impl<T, F: Future<Output = Result<T>> + Unpin> Future for LimitedInLine<'_, F> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // First of all: an answer that came at the last instant counts.
        if let Poll::Ready(answer) = Pin::new(&mut self.call).poll(context) {
            return Poll::Ready(answer);
        }
        let line = self.line;
        self.limit.poll(line, context).map(Err)
    }
}

impl<F> Drop for LimitedInLine<'_, F> {
    fn drop(&mut self) {
        self.limit.end(self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_has_the_limit_and_is_looked_at_while_it_waits() {
        let (limit, waker) = (Limit::default(), Waker::noop());
        let at = Moment::from_nanos;
        assert_eq!(limit.set(at(10), waker), Setting::Set);
        assert_eq!(limit.set(at(11), waker), Setting::Taken);
        limit.clear();
        assert_eq!(limit.set(at(20), waker), Setting::Set);
        let look = limit.look(at(10));
        assert!(look.waker.is_none() && look.next == at(20), "{look:?}");
        let look = limit.look(at(20));
        assert!(look.waker.is_some() && look.next == Moment::NEVER, "{look:?}");
        limit.clear();
        assert!(locked(&limit.waker).is_some());
        let look = limit.look(at(40));
        assert!(look.waker.is_none() && look.next == Moment::NEVER, "{look:?}");
        assert!(locked(&limit.waker).is_none(), "one who does not call again is forgotten");
    }
}
