//! One task's time with the lock, from the wish for it to its end.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

use crate::{
    clock::Moment,
    engine::{Order, Patience},
    errand,
    error::{Error, Result},
    guard::Guard,
    held::Held,
    sync::locked,
};

/// What a task wants of the lock; it is passed on only between equal terms.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub(crate) terms: Arc<Terms>,
    pub(crate) patience: Patience,
    pub(crate) owner: Option<OwnerNumber>,
    pub(crate) maximum_hold: Option<Duration>,
}

impl Wish {
    pub(crate) fn turn_ends_at(&self, now: Moment) -> Moment {
        self.maximum_hold.map_or(Moment::NEVER, |maximum| now + maximum)
    }
}

/// A turn: wished for, then perhaps had, then over. The guards of one owner share one.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) wish: Wish,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answer: Option<Answer>,
    waker: Option<Waker>,
    had: Option<Had>,
}

/// What makes a wish a turn.
#[derive(Clone, Debug)]
pub(crate) struct Had {
    pub(crate) held: Arc<Held>,
    pub(crate) fence: u64,
}

/// What a task that waits is told in the end.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is your turn.
    Yours(Had),
    /// It is your owner's turn: share this one.
    Shared(Arc<Turn>),
    /// Busy, and you would not wait.
    Busy,
    /// It cannot be had.
    Failed(Error),
}

impl Turn {
    pub(crate) fn new(wish: Wish) -> Arc<Self> {
        Arc::new(Self { wish, state: Mutex::default() })
    }

    /// What is had; `None` while it is still a wish, and after its end.
    pub(crate) fn had(&self) -> Option<Had> {
        locked(&self.state).had.clone()
    }

    /// Makes the wish a turn. Happens once, when the line gives it.
    #[must_use]
    pub(crate) fn begin(&self, held: Arc<Held>, fence: u64) -> Option<Waker> {
        let had = Had { held, fence };
        let mut state = locked(&self.state);
        state.had = Some(had.clone());
        state.answer = Some(Answer::Yours(had));
        state.waker.take()
    }

    /// Answers the task; its waker must be woken once no mutex is held.
    #[must_use]
    pub(crate) fn answer(&self, answer: Answer) -> Option<Waker> {
        let mut state = locked(&self.state);
        state.answer = Some(answer);
        state.waker.take()
    }

    pub(crate) fn poll_answer(&self, waker: &Waker) -> Poll<Answer> {
        let mut state = locked(&self.state);
        if let Some(answer) = state.answer.take() {
            return Poll::Ready(answer);
        }
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        Poll::Pending
    }

    pub(crate) fn take_answer(&self) -> Option<Answer> {
        locked(&self.state).answer.take()
    }

    /// Ends the turn; answers the hold if that was not passed on and is to be released.
    pub(crate) fn end(&mut self) -> Option<Arc<Held>> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Had { held, .. } = state.had.take()?;
        // The same hold is in an answer that nobody has taken.
        state.answer = None;
        if !held.line.house.is_this_process() {
            return None;
        }
        held.line.end_turn(&held).then_some(held)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(held) = self.end() {
            errand::release_soon(held);
        }
    }
}

impl Answer {
    /// The guard that the answer is worth to the task that wished for `own`.
    pub(crate) fn into_guard(self, own: &Arc<Turn>) -> Result<Option<Guard>> {
        match self {
            Self::Yours(had) => Ok(Some(Guard::new(Arc::clone(own), had))),
            Self::Shared(turn) => Ok(Guard::sharing(turn)),
            Self::Busy => Ok(None),
            Self::Failed(error) => Err(error),
        }
    }
}
