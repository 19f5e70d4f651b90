//! How long a call of an engine may take.
//!
//! Engines have no timers: one that must wait for an answer would wait for ever. So every call of
//! such an engine is given up here when its time is over, and counts as not answered. Most answers
//! come soon, so a limit costs nothing before the call has to wait, and little then.

mod per_line;

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

pub(crate) use self::per_line::{CallLimit, Limit};

use super::core::Core;
use crate::{
    engine::{
        Answers,
        error::{Error, ErrorKind, Result},
        poller,
    },
    time::{
        alarms::{Alarms, Moved},
        clock::Moment,
        timers::{self, Entry},
    },
    tools::caught::{Caught, caught},
};

impl Core {
    /// Makes a call, and gives it up when its answer takes too long.
    pub(crate) fn limited<F>(&self, call: impl FnOnce() -> F) -> Limited<'_, F> {
        self.limited_to(self.answer_within, call)
    }

    /// The same for a renewal while the lease still lasts for so long: at most half of that, so
    /// that there is time for another try.
    pub(crate) fn limited_in_lease<F>(
        &self,
        left: Duration,
        call: impl FnOnce() -> F,
    ) -> Limited<'_, F> {
        let half = timers::rounded_down(left / 2);
        self.limited_to(self.answer_within.min(half), call)
    }

    fn limited_to<F>(&self, limit: Duration, call: impl FnOnce() -> F) -> Limited<'_, F> {
        let rest = match self.profile.answers {
            Answers::AtOnce => None,
            Answers::Later => Some(self.alarms.rest(limit)),
        };
        Limited { call: caught(call), rest }
    }
}

/// A call with a limit; the call is dropped when that is over.
pub(crate) struct Limited<'a, F> {
    call: Caught<F>,
    rest: Option<Rest<'a>>,
}

impl<T, F: Future<Output = Result<T>> + Unpin> Future for Limited<'_, F> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // First of all: an answer that came at the last instant counts.
        if let Poll::Ready(answer) = Pin::new(&mut self.call).poll(context) {
            return Poll::Ready(answer);
        }
        let Some(rest) = &mut self.rest else { return Poll::Pending };
        std::task::ready!(Pin::new(&mut *rest).poll(context));
        Poll::Ready(Err(no_answer_within(rest.lasts)))
    }
}

pub(crate) fn no_answer_within(limit: Duration) -> Error {
    Error::new(ErrorKind::Unreachable, format!("no answer within {}", shown(limit)))
}

/// A limit as people read it, without what is smaller than a millisecond.
pub(crate) fn shown(limit: Duration) -> impl fmt::Display {
    let shown = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    humantime::format_duration(if shown.is_zero() { limit } else { shown })
}

impl Alarms {
    /// Ends this long after it is first polled. There should be few different lengths, as in
    /// [`Timers::enter_after`](timers::Timers::enter_after).
    pub(crate) fn rest(&self, lasts: Duration) -> Rest<'_> {
        Rest { alarms: self, lasts, set: None }
    }
}

/// A pause that is nearly always over before its end; leaves nothing behind.
pub(crate) struct Rest<'a> {
    alarms: &'a Alarms,
    lasts: Duration,
    set: Option<Set>,
}

struct Set {
    entry: Entry,
    ends_at: Moment,
}

impl Future for Rest<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker();
        let this = &mut *self;
        if !poller().waits {
            // There is nobody to wake: whoever looks in so watches the time by other means.
            return Poll::Pending;
        }
        match &this.set {
            None => {
                let (entry, ends_at) = this.alarms.set_limit(this.lasts, waker);
                this.set = Some(Set { entry, ends_at });
            }
            Some(set) if this.alarms.is_over(set.ends_at) => return Poll::Ready(()),
            Some(set) => match this.alarms.move_limit(set.entry, waker) {
                Moved::InTime => {}
                Moved::TooLate => return Poll::Ready(()),
            },
        }
        Poll::Pending
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        if let Some(set) = &self.set {
            self.alarms.forget_limit(set.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        task::{Wake, Waker},
    };

    use super::*;
    use crate::time::{alarms::Attention, clock::Clock};

    struct Tells(mpsc::Sender<()>);

    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_limit_that_woke_the_task_before_is_over_for_the_next() {
        let clock = Clock::by_hand();
        let alarms = Alarms::new(clock.clone(), Attention::ByThread);
        let (tell, told) = mpsc::channel();
        let (entry, _) = alarms.set_limit(Duration::from_secs(1), Waker::noop());
        let waker = Waker::from(Arc::new(Tells(tell)));
        assert_eq!(alarms.move_limit(entry, &waker), Moved::InTime);
        clock.advance(Duration::from_secs(2));
        told.recv_timeout(Duration::from_secs(30)).expect("it was woken");
        // Whoever looked at the clock just before that must not wait for another wake-up.
        assert_eq!(alarms.move_limit(entry, Waker::noop()), Moved::TooLate);
    }
}
