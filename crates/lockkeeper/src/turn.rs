//! One task's time with the lock, from the wish for it to its end.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use crate::{
    clock::Moment,
    engine::{Order, Patience},
    errand,
    error::{Error, Result},
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
    waiting: Mutex<Waiting>,
    had: OnceLock<Had>,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// What makes a wish a turn.
#[derive(Debug)]
pub(crate) struct Had {
    pub(crate) held: Arc<Held>,
    pub(crate) fence: u64,
}

/// What a task that waits is told in the end.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is your turn.
    Yours,
    /// It is your owner's turn: share this one.
    Shared(Arc<Turn>),
    /// Busy, and you would not wait.
    Busy,
    /// It cannot be had.
    Failed(Error),
}

impl Turn {
    pub(crate) fn new(wish: Wish) -> Arc<Self> {
        Arc::new(Self {
            wish,
            waiting: Mutex::default(),
            had: OnceLock::new(),
            ended: AtomicBool::new(false),
        })
    }

    /// What is had; `None` while it is still a wish.
    pub(crate) fn had(&self) -> Option<&Had> {
        self.had.get()
    }

    /// Makes the wish a turn. Happens once, when the line gives it.
    pub(crate) fn begin(&self, held: Arc<Held>, fence: u64) -> Option<Waker> {
        let begun = self.had.set(Had { held, fence });
        debug_assert!(begun.is_ok(), "a turn begins once");
        self.answer(Answer::Yours)
    }

    /// Answers the task; its waker must be woken once no mutex is held.
    #[must_use]
    pub(crate) fn answer(&self, answer: Answer) -> Option<Waker> {
        let mut waiting = locked(&self.waiting);
        waiting.answer = Some(answer);
        waiting.waker.take()
    }

    pub(crate) fn poll_answer(&self, waker: &Waker) -> Poll<Answer> {
        let mut waiting = locked(&self.waiting);
        if let Some(answer) = waiting.answer.take() {
            return Poll::Ready(answer);
        }
        if !waiting.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiting.waker = Some(waker.clone());
        }
        Poll::Pending
    }

    pub(crate) fn take_answer(&self) -> Option<Answer> {
        locked(&self.waiting).answer.take()
    }

    /// Ends the turn; answers the hold if that was not passed on and is to be released.
    pub(crate) fn end(&self) -> Option<Arc<Held>> {
        let had = self.had.get()?;
        if self.ended.swap(true, Ordering::AcqRel) {
            return None;
        }
        had.held.line.end_turn(&had.held)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(had) = self.had.get() else { return };
        let house = &had.held.line.house;
        if house.is_this_process()
            && let Some(held) = self.end()
        {
            house.steward.start(Box::pin(async move {
                // Nobody waits for the answer; trouble is told to observers.
                let _ = errand::release(held).await;
            }));
        }
    }
}

impl Answer {
    /// The turn that the answer gives to the task that wished for `own`.
    pub(crate) fn into_turn(self, own: &Arc<Turn>) -> Result<Option<Arc<Turn>>> {
        match self {
            Self::Yours => Ok(Some(Arc::clone(own))),
            Self::Shared(turn) => Ok(Some(turn)),
            Self::Busy => Ok(None),
            Self::Failed(error) => Err(error),
        }
    }
}
