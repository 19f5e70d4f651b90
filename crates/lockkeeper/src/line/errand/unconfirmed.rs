//! Claims that were given back, and whose answer is still on its way.
//!
//! When a guard is dropped, its release is sent from right there, and nobody waits for the answer:
//! a thread woken for each would cost more than all the rest. So it is kept here. Whoever
//! drops a guard next looks whether the oldest answers have come; what nobody has looked at for a
//! moment, the steward takes over, who also asks again when an answer was lost.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_lite::future;

use super::{give_back, quick_call, steward::Errand};
use crate::{
    engine::{Claim, Released, unattended},
    line::{Line, core::Core},
    tools::{fork, sync::locked},
};

/// How long an answer is left alone before the steward looks for it; twice that at most.
const MOMENT: Duration = Duration::from_millis(50);
/// How many of the oldest are looked at when another comes: two, so that they get fewer.
const LOOKS: usize = 2;
/// How many may be under way before the steward takes over what is not answered yet.
const MOST: usize = 4096;

#[derive(Default)]
pub(crate) struct Unconfirmed {
    state: Mutex<State>,
    /// How many are not confirmed yet, wherever they are.
    n_open: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The oldest first, each with the round in which it came.
    under_way: VecDeque<(u64, Returning)>,
    /// Counts the steward's looks.
    round: u64,
    /// Whether the steward looks in now and then.
    is_watched: bool,
}

/// Something of a line that is being given back, and that the engine has not confirmed; counted while it lives.
pub(crate) struct Unsettled {
    pub(crate) line: Line,
    /// The ttl it was asked for with.
    pub(crate) ttl: Duration,
}

impl Unsettled {
    pub(crate) fn new(line: &Line, ttl: Duration) -> Self {
        line.core.unconfirmed.n_open.fetch_add(1, Ordering::Relaxed);
        Self { line: line.clone(), ttl }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.line.core.unconfirmed.n_open.fetch_sub(1, Ordering::Release);
    }
}

impl Core {
    /// Gives a claim back: does as much as can be done at once, here; the rest needs nobody to wait.
    pub(crate) fn part(self: &Arc<Self>, line: &Line, claim: Box<dyn Claim>, ttl: Duration) {
        let Some(returning) = Returning::begin(Unsettled::new(line, ttl), claim) else { return };
        let mut state = locked(&self.unconfirmed.state);
        let oldest: [_; LOOKS] = std::array::from_fn(|_| state.under_way.pop_front());
        let round = state.round;
        state.under_way.push_back((round, returning));
        self.watch(state);
        // The younger first: what is put back comes to stand in the old order.
        for (round, returning) in oldest.into_iter().rev().flatten() {
            if let Some(returning) = returning.look() {
                self.put_back(round, returning);
            }
        }
    }

    fn put_back(self: &Arc<Self>, round: u64, returning: Returning) {
        let mut state = locked(&self.unconfirmed.state);
        if state.under_way.len() < MOST {
            state.under_way.push_front((round, returning));
            self.watch(state);
        } else {
            drop(state);
            self.steward.adopt_if_ready(returning.into_errand());
        }
    }

    /// Has the steward look in from now on, if it does not already.
    fn watch(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let was_watched = std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if !was_watched && self.steward.adopt(see_off(Arc::clone(self))).is_err() {
            // The next one tries again to find a thread for it.
            locked(&self.unconfirmed.state).is_watched = false;
        }
    }

    /// Waits until everything that was given back or given up is confirmed, but not for longer than one
    /// answer may take; the steward goes on with the rest.
    pub(crate) async fn settle(&self) {
        let under_way = std::mem::take(&mut locked(&self.unconfirmed.state).under_way);
        let under_way = under_way.into_iter().map(|(_, returning)| returning.into_errand());
        let mut under_way = InHands { core: self, errands: under_way.collect() };
        let confirmed = async {
            while let Some(errand) = under_way.errands.front_mut() {
                errand.await;
                under_way.errands.pop_front();
            }
            while self.unconfirmed.n_open.load(Ordering::Acquire) > 0 || self.is_winding_up() {
                // The steward has it in hands just now.
                self.alarms.rest(Duration::from_millis(1)).await;
            }
        };
        future::or(confirmed, self.alarms.rest(self.answer_within)).await;
    }
}

/// Errands in the hands of one who waits for them; what is left of them goes on without that one.
struct InHands<'a> {
    core: &'a Core,
    errands: VecDeque<Errand>,
}

impl Drop for InHands<'_> {
    fn drop(&mut self) {
        let errands = std::mem::take(&mut self.errands);
        match self.core.is_this_process() {
            true => {
                errands.into_iter().for_each(|errand| self.core.steward.adopt_if_ready(errand));
            }
            false => fork::leave(errands),
        }
    }
}

/// Looks in now and then, while there is something under way.
async fn see_off(core: Arc<Core>) {
    loop {
        core.alarms.rest(MOMENT).await;
        for returning in core.unconfirmed.overdue() {
            if let Some(returning) = returning.look() {
                core.steward.adopt_if_ready(returning.into_errand());
            }
        }
        let mut state = locked(&core.unconfirmed.state);
        if state.under_way.is_empty() {
            state.is_watched = false;
            return;
        }
    }
}

impl Unconfirmed {
    /// Takes out what came before the last look.
    fn overdue(&self) -> Vec<Returning> {
        let mut state = locked(&self.state);
        let round = state.round;
        state.round += 1;
        let mut overdue = Vec::new();
        while state.under_way.front().is_some_and(|(came, _)| *came < round) {
            overdue.extend(state.under_way.pop_front().map(|(_, returning)| returning));
        }
        overdue
    }

    /// In a forked child: leaves everything to the parent, whose it is.
    pub(crate) fn leave(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        fork::leave(std::mem::take(&mut state.under_way));
    }
}

/// A claim on its way back.
enum Returning {
    /// Its release was sent the quick way.
    Sent(Unsettled, Box<dyn Claim>),
    Errand(Errand),
}

impl Returning {
    /// Begins one, and answers what is left of it.
    fn begin(unsettled: Unsettled, mut claim: Box<dyn Claim>) -> Option<Self> {
        let clock = &unsettled.line.core.clock;
        if unattended(|| quick_call::send_now::<Released>(&mut *claim, clock)).is_some() {
            return Some(Self::Sent(unsettled, claim));
        }
        Self::begin_errand(unsettled, claim, Before::Nothing)
    }

    fn begin_errand(unsettled: Unsettled, claim: Box<dyn Claim>, before: Before) -> Option<Self> {
        let errand = Box::pin(async move {
            let line = &unsettled.line;
            let released = give_back::give_back_at_last(&unsettled, claim).await;
            // It may be our own release before that it heard of.
            let is_repeated = matches!(before, Before::Unanswered);
            confirmed(line, if is_repeated { Released::Done } else { released });
        });
        Self::Errand(errand).look()
    }

    /// Looks whether it is done, without being told when it is; answers what is left.
    fn look(self) -> Option<Self> {
        match self {
            Self::Sent(unsettled, mut claim) => {
                let mut context = Context::from_waker(Waker::noop());
                let mut answer = quick_call::answer(&mut *claim);
                match unattended(|| Pin::new(&mut answer).poll(&mut context)) {
                    Poll::Pending => Some(Self::Sent(unsettled, claim)),
                    Poll::Ready(Ok(Some(released))) => {
                        unsettled.line.keep_spare(claim);
                        confirmed(&unsettled.line, released);
                        None
                    }
                    Poll::Ready(Ok(None)) => Self::begin_errand(unsettled, claim, Before::Nothing),
                    Poll::Ready(Err(_)) => Self::begin_errand(unsettled, claim, Before::Unanswered),
                }
            }
            Self::Errand(mut errand) => {
                let mut context = Context::from_waker(Waker::noop());
                let look = unattended(|| errand.as_mut().poll(&mut context));
                look.is_pending().then_some(Self::Errand(errand))
            }
        }
    }

    /// The rest of it, for one who waits.
    fn into_errand(self) -> Errand {
        let (unsettled, mut claim) = match self {
            Self::Sent(unsettled, claim) => (unsettled, claim),
            Self::Errand(errand) => return errand,
        };
        Box::pin(async move {
            let line = &unsettled.line;
            let released = match line.core.limited(|| quick_call::answer(&mut *claim)).await {
                Ok(Some(released)) => {
                    line.keep_spare(claim);
                    released
                }
                Ok(None) => give_back::give_back_at_last(&unsettled, claim).await,
                Err(_) => {
                    give_back::give_back_at_last(&unsettled, claim).await;
                    Released::Done
                }
            };
            confirmed(line, released);
        })
    }
}

/// What was sent before a release.
enum Before {
    Nothing,
    /// A release that got no answer.
    Unanswered,
}

/// Nothing is left to do for a claim; nobody waits for the answer, but observers hear of a loss.
fn confirmed(line: &Line, released: Released) {
    drop(give_back::confirm(line, released));
}

impl fmt::Debug for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} unconfirmed", self.n_open.load(Ordering::Relaxed))
    }
}
