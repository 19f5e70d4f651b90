//! The limit of the calls that a line makes.
//!
//! A key that is wanted again and again makes call after call, each with the same limit. So each of them just
//! says until when it waits, and the clock's thread looks at the line now and then; see [`NextLook`].
//!
//! [`NextLook`]: crate::next_look::NextLook

use std::{
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use super::{Rest, no_answer_within};
use crate::{
    clock::Moment,
    engine::Answers,
    error::Result,
    line::Line,
    sync::{is_unattended, locked},
};

/// The limit of one line: until when the call that is under way waits, and whom to wake then.
#[derive(Debug, Default)]
pub(crate) struct Limit(Mutex<Option<(Moment, Waker)>>);

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
        let mut call = locked(&self.0);
        if call.is_some() {
            return Setting::Taken;
        }
        *call = Some((ends_at, waker.clone()));
        Setting::Set
    }

    /// From now on this task is the one to wake.
    fn move_to(&self, waker: &Waker) {
        let mut call = locked(&self.0);
        let Some((_, known)) = &mut *call else { return };
        if !known.will_wake(waker) {
            let before = std::mem::replace(known, waker.clone());
            // An old waker may run code of its own when dropped: not under our mutex.
            drop(call);
            drop(before);
        }
    }

    fn clear(&self) {
        // Bound, so that it is dropped after the mutex is free.
        let _call = locked(&self.0).take();
    }

    /// The clock's thread looks: a call that is over is to be woken, one that is not to be looked at again.
    pub(crate) fn look(&self, now: Moment) -> Look {
        match &*locked(&self.0) {
            None => Look { waker: None, next: Moment::NEVER },
            Some((ends_at, _)) if *ends_at > now => Look { waker: None, next: *ends_at },
            Some((_, waker)) => Look { waker: Some(waker.clone()), next: Moment::NEVER },
        }
    }
}

impl Line {
    /// Gives a call of this line that begins now up when its answer takes too long.
    pub(crate) fn limited<F>(&self, now: Moment, call: F) -> LimitedInLine<'_, F> {
        LimitedInLine { call, line: self, now, watch: Watch::NotYet }
    }
}

/// A call of a line with a limit; the call is dropped when that is over.
pub(crate) struct LimitedInLine<'a, F> {
    call: F,
    line: &'a Line,
    now: Moment,
    watch: Watch<'a>,
}

enum Watch<'a> {
    NotYet,
    ByLine,
    /// Another call has the line's limit.
    Apart(Rest<'a>),
}

impl<T, F: Future<Output = Result<T>> + Unpin> Future for LimitedInLine<'_, F> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // First of all: an answer that came at the last instant counts.
        if let Poll::Ready(answer) = Pin::new(&mut self.call).poll(context) {
            return Poll::Ready(answer);
        }
        let this = &mut *self;
        let house = &this.line.house;
        // Whoever only looks in watches the time by other means.
        if house.profile.answers == Answers::AtOnce || is_unattended() {
            return Poll::Pending;
        }
        let ends_at = this.now + house.answer_within;
        if let Watch::NotYet = this.watch {
            this.watch = match this.line.record().limit.set(ends_at, context.waker()) {
                Setting::Set => {
                    house.alarms.watch_limit(this.line.record(), this.now, ends_at);
                    Watch::ByLine
                }
                Setting::Taken => Watch::Apart(house.alarms.rest(house.answer_within)),
            };
            if let Watch::ByLine = this.watch {
                return Poll::Pending;
            }
        }
        match &mut this.watch {
            Watch::Apart(rest) => std::task::ready!(Pin::new(rest).poll(context)),
            _ if house.alarms.is_over(ends_at) => {}
            _ => {
                this.line.record().limit.move_to(context.waker());
                return Poll::Pending;
            }
        }
        Poll::Ready(Err(no_answer_within(house.answer_within)))
    }
}

impl<F> Drop for LimitedInLine<'_, F> {
    fn drop(&mut self) {
        // In a forked child the mutex may be locked for ever, and nobody looks.
        if let Watch::ByLine = self.watch
            && self.line.house.is_this_process()
        {
            self.line.record().limit.clear();
        }
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
        let look = limit.look(at(40));
        assert!(look.waker.is_none() && look.next == Moment::NEVER, "{look:?}");
    }
}
