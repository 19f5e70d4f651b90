//! Where one task waits for its turn: what it wishes, and what it will be told.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
    time::Duration,
};

use super::{core::Core, turn::Turn};
use crate::{
    engine::{Order, Patience, error::Error},
    time::clock::{Clock, Moment},
    tools::sync::{keep_waker, locked},
};

/// What a task wants of the lock. The tasks of a line share one claim, which is made on the terms of its
/// first task and serves the others too. Of the terms, only the ttl concerns a lock that is held; the label
/// is for people, and the order is a matter of asking.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) label: Arc<str>,
    pub(crate) order: Order,
}

/// The identity of an [`Owner`](crate::Owner): its tasks share a turn.
pub(crate) type OwnerNumber = u64;

/// One task's wish to have a turn.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Terms of its own; without them, those of the core.
    pub(crate) terms: Option<Arc<Terms>>,
    pub(crate) patience: Patience,
    pub(crate) owner: Option<OwnerNumber>,
    pub(crate) maximum_hold: Option<Duration>,
}

impl Wish {
    pub(crate) fn terms<'a>(&'a self, core: &'a Core) -> &'a Terms {
        self.terms.as_deref().unwrap_or(&core.terms)
    }

    /// The end of the maximum hold of a guard that begins now. The clock is only read if there is one.
    pub(crate) fn guard_ends_at(&self, clock: &Clock) -> Moment {
        self.maximum_hold.map_or(Moment::NEVER, |maximum| clock.now() + maximum)
    }
}

/// A seat, shared by the task and the line.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) wish: Wish,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// What a task that waits is told in the end.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is your turn.
    Yours(Turn),
    /// Busy, and you would not wait.
    Busy,
    /// It cannot be had.
    Failed(Error),
}

impl Seat {
    pub(crate) fn new(wish: Wish) -> Self {
        Self { wish, state: Mutex::default() }
    }

    /// Sets the first waker, before anybody else knows the seat.
    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(waker.clone());
    }

    /// Answers the task; its waker must be woken once no mutex is held.
    #[must_use]
    pub(crate) fn answer(&self, answer: Answer) -> Option<Waker> {
        let mut state = locked(&self.state);
        state.answer = Some(answer);
        state.waker.take()
    }

    /// The answer, if it has come; otherwise the waker is woken when it does.
    pub(crate) fn poll_answer(&self, waker: &Waker) -> Option<Answer> {
        let mut state = locked(&self.state);
        if let Some(answer) = state.answer.take() {
            return Some(answer);
        }
        keep_waker(state, |state| &mut state.waker, waker);
        None
    }

    /// The answer, if it has come; nobody is woken for a later one. An errand may keep the seat for long after its
    /// task has gone, and must not keep the task's waker.
    pub(crate) fn leave(&self) -> Option<Answer> {
        let mut state = locked(&self.state);
        let (answer, waker) = (state.answer.take(), state.waker.take());
        drop(state);
        drop(waker);
        answer
    }

    /// The answer, if it has come. Whoever has in hands what will answer needs no waker.
    pub(crate) fn take_answer(&self) -> Option<Answer> {
        locked(&self.state).answer.take()
    }
}
