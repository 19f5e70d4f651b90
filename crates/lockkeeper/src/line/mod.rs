//! The line: the tasks of this process that want the same key, served by one claim.
//!
//! While a turn lasts, the others wait here; when it ends, the lock is passed on inside the process
//! with the next fence of the grant, until nobody here wants it, the numbers are used up, or it
//! has been kept from other processes for long enough. That is what makes a hot key cheap.

pub(crate) mod acquire;
pub(crate) mod core;
pub(crate) mod errand;
pub(crate) mod held;
mod lease;
pub(crate) mod limit;
mod queue;
pub(crate) mod seat;
mod sharing;
mod state;
pub(crate) mod turn;
mod turns;
mod watched;

use std::{
    borrow::Cow,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use self::{
    acquire::Ticket,
    core::Core,
    errand::handoff::Handoff,
    held::Held,
    limit::Limit,
    queue::Queue,
    seat::{Answer, Seat, Wish},
    state::{Stage, State},
    turn::Turn,
};
pub(crate) use self::{
    state::Word,
    turns::{Ended, Left, Offer, Unwanted, Why},
};
use crate::{
    engine::{
        Answers, Claim, Patience,
        error::{Call, Error, ErrorKind},
        event::Loss,
        key::Key,
    },
    time::next_check::NextCheck,
    tools::{
        caught::calling,
        linked_queue::Place,
        sync::{keep_waker, let_go, locked, wake},
    },
};

/// A line and the core it belongs to. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) core: Arc<Core>,
    record: Arc<LineRecord>,
}

/// What the core knows of a line. It does not know the core, so idle lines keep nothing alive.
#[derive(Debug)]
pub(crate) struct LineRecord {
    key: Key,
    state: Mutex<State>,
    pub(crate) limit: Limit,
    next_check: NextCheck,
}

/// A claim that was given back and can begin again.
pub(crate) type Spare = Option<Box<dyn Claim>>;

/// What came of joining.
pub(crate) enum Joined<'a> {
    /// Nobody here had asked: whoever opens the line must [`ask`](mod@crate::line::errand::ask).
    Opened(Ticket<'a>),
    Queued(Ticket<'a>),
    /// The owner has it already.
    Again(Turn),
    /// It is held here, and the task would not wait.
    Busy,
}

impl Line {
    pub(crate) fn new(core: Arc<Core>, record: Arc<LineRecord>) -> Self {
        Self { core, record }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.record.key
    }

    pub(crate) fn record(&self) -> &Arc<LineRecord> {
        &self.record
    }

    /// Stands in line. The waker is woken when an answer comes to one who is queued.
    pub(crate) fn join(&self, wish: Wish, waker: &Waker) -> Joined<'_> {
        let mut seat = Arc::new(Seat::new(wish));
        let mut line = Cow::Borrowed(self);
        loop {
            let mut state = locked(&line.record.state);
            if matches!(state.stage, Stage::Closed) {
                drop(state);
                let record = self.core.line(self.key());
                line = Cow::Owned(Self::new(Arc::clone(&self.core), record));
                continue;
            }
            match state.share_with(&seat.wish, &self.core.clock) {
                None => {}
                Some(Ok(turn)) => return Joined::Again(turn),
                Some(Err((held, loss))) => {
                    drop(state);
                    held.lose(&loss);
                    continue;
                }
            }
            let opens = matches!(state.stage, Stage::Idle);
            if opens {
                state.stage = Stage::Asking;
                (state.word, state.was_late) = (Word::Nothing, false);
            } else if seat.wish.patience == Patience::Tries && !state.would_try_at_once() {
                return Joined::Busy;
            } else if let Some(seat) = Arc::get_mut(&mut seat) {
                seat.set_waker(waker);
            }
            let place = state.queue.push_back(Arc::clone(&seat));
            let handoff = if opens { None } else { state.handoff.clone() };
            drop(state);
            if let Some(handoff) = handoff {
                // Its task may be blocked, and we would stand still with it.
                line.hand_over(&handoff);
            }
            let ticket = Ticket::new(line, seat, place);
            return if opens { Joined::Opened(ticket) } else { Joined::Queued(ticket) };
        }
    }

    /// Notes that one of our tasks drives the errand that waits for us. If others depend on it,
    /// the steward has it instead.
    pub(crate) fn keep_handoff(&self, handoff: &Arc<Handoff>) {
        let mut state = locked(&self.record.state);
        let before = state.handoff.replace(Arc::clone(handoff));
        let has_second = state.queue.has_second();
        drop(state);
        drop(before);
        if has_second {
            self.hand_over(handoff);
        }
    }

    /// Has the steward take over the errand at hand. Without a thread for that the line keeps the errand: whoever
    /// comes next tries again.
    fn hand_over(&self, handoff: &Arc<Handoff>) {
        if handoff.hand_over(&self.core.steward).is_err() {
            return;
        }
        let mut state = locked(&self.record.state);
        let handed_over = state.handoff.take_if(|known| Arc::ptr_eq(known, handoff));
        drop(state);
        drop(handed_over);
    }

    /// Leaves the line, if it has not been answered yet.
    pub(crate) fn leave(&self, place: Place) {
        let mut state = locked(&self.record.state);
        let seat = state.queue.remove(place);
        let errand = if state.is_deserted() { state.errand.take() } else { None };
        drop(state);
        drop(seat);
        errand.into_iter().for_each(wake);
    }

    /// The first in line, with what it can ask with; if nobody is there, the line is idle from now on.
    pub(crate) fn first_or_idle(&self) -> Option<(Arc<Seat>, Spare)> {
        let mut state = locked(&self.record.state);
        let Some(first) = state.queue.first().cloned() else {
            state.stage = Stage::Idle;
            return None;
        };
        Some((first, state.spare.take()))
    }

    /// Whether anybody is in line; if not, the line is idle from now on.
    pub(crate) fn is_wanted_or_idle(&self) -> bool {
        let mut state = locked(&self.record.state);
        let is_wanted = state.queue.first().is_some();
        if !is_wanted {
            state.stage = Stage::Idle;
        }
        is_wanted
    }

    /// Keeps a claim that was given back for the next request, if it is any good for that.
    pub(crate) fn keep_spare(&self, mut claim: Box<dyn Claim>) {
        let unwanted = match calling(|| claim.quick().is_some_and(|quick| quick.is_reusable())) {
            Ok(true) => locked(&self.record.state).spare.replace(claim),
            Ok(false) | Err(_) => Some(claim),
        };
        // The line must go on whatever the engine does here, and the mutex is free by now.
        unwanted.into_iter().for_each(let_go);
    }

    /// Answers this seat, if it is still the first in line: it may have left meanwhile, and the one
    /// behind it asked for something else.
    pub(crate) fn answer_first(&self, seat: &Arc<Seat>, answer: Answer) {
        let mut state = locked(&self.record.state);
        if !state.queue.first().is_some_and(|first| Arc::ptr_eq(first, seat)) {
            return;
        }
        let answered = state.queue.pop_first();
        drop(state);
        drop(answered);
        seat.answer(answer).into_iter().for_each(wake);
    }

    /// Answers everyone in line whose ttl is such with an error that asking again would not mend. Whether
    /// anybody is left.
    pub(crate) fn fail(
        &self,
        is_such: impl Fn(Duration) -> bool,
        error: impl Fn(Duration) -> Error,
    ) -> bool {
        let ttl_of = |seat: &Seat| seat.wish.terms(&self.core).ttl;
        let mut state = locked(&self.record.state);
        let failed = state.queue.take_those(|seat| is_such(ttl_of(seat)));
        let is_left = state.queue.first().is_some();
        let before =
            if is_left { None } else { Some(std::mem::replace(&mut state.word, Word::Nothing)) };
        drop(state);
        drop(before);
        for seat in failed {
            let waker = seat.answer(Answer::Failed(error(ttl_of(&seat))));
            waker.into_iter().for_each(wake);
        }
        is_left
    }

    /// Notes that a grant came only after this long, too late for some. If that happens twice without a turn
    /// in between, those are told: else everyone behind them would wait as long as they do.
    pub(crate) fn note_late(&self, took: Duration) {
        let mut state = locked(&self.record.state);
        let before = std::mem::replace(&mut state.word, Word::Late(took));
        let was_late = std::mem::replace(&mut state.was_late, true);
        drop(state);
        drop(before);
        if was_late {
            self.fail(|ttl| ttl <= took, |ttl| self.too_late(ttl));
        }
    }

    /// Notes what the engine said, for those whose time runs out meanwhile.
    pub(crate) fn note(&self, word: Word) {
        // Bound, so that it is dropped after the mutex is free.
        let _before = std::mem::replace(&mut locked(&self.record.state).word, word);
    }

    /// Why one who wants this ttl has not got it when its time is over.
    pub(crate) fn why_not(&self, seat: &Seat) -> Error {
        let ttl = seat.wish.terms(&self.core).ttl;
        let state = locked(&self.record.state);
        match &state.word {
            Word::Trouble(error) => error.echo(),
            Word::Late(took) if ttl <= *took => self.too_late(ttl),
            // An engine that answers at once has nothing to say before it is asked.
            Word::Nothing if self.core.profile.answers == Answers::Later => {
                // Whether a task that has the question in hands is polled cannot be known.
                let why = match state.queue.first() {
                    None => "no answer in the time there was",
                    Some(_) => {
                        "no answer in the time there was, or another task of this process has asked and is not polled"
                    }
                };
                self.core.error_at(
                    Error::new(ErrorKind::Unreachable, why),
                    self.key(),
                    Call::Acquire,
                )
            }
            Word::Busy | Word::Late(_) | Word::Nothing => {
                Error::new(ErrorKind::TimedOut, "it was busy")
            }
        }
    }

    /// What one is told whose ttl was over when the engine answered.
    pub(crate) fn too_late(&self, ttl: Duration) -> Error {
        let ttl = humantime::format_duration(ttl);
        let message = format!(
            "the answer took longer than the ttl of {ttl}; the engine is too slow, or the ttl too short"
        );
        let error = Error::new(ErrorKind::Unreachable, message);
        self.core.error_at(error, self.key(), Call::Acquire)
    }

    /// What a guard is told of its loss.
    pub(crate) fn lost_error(&self, loss: &Loss) -> Error {
        let engine = self.core.profile.engine;
        let message = format!("lost {:?} on {engine}: {loss}", self.key().as_str());
        Error::new(ErrorKind::Lost, message).about(engine, self.key())
    }

    /// Ends when no claim needs to wait for this line.
    pub(crate) fn deserted(&self) -> Deserted<'_> {
        Deserted(self)
    }
}

/// Ends when no claim needs to wait for a line; for one errand at a time.
pub(crate) struct Deserted<'a>(&'a Line);

impl Future for Deserted<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = locked(&self.0.record.state);
        if state.is_deserted() {
            return Poll::Ready(());
        }
        keep_waker(state, |state| &mut state.errand, context.waker());
        Poll::Pending
    }
}

impl Drop for Deserted<'_> {
    fn drop(&mut self) {
        // A waker keeps its task: it must not stay behind. In a forked child the mutex may be locked for ever.
        if self.0.core.is_this_process() {
            let _waker = locked(&self.0.record.state).errand.take();
        }
    }
}

impl LineRecord {
    pub(crate) fn new(key: Key) -> Self {
        let state = State {
            queue: Queue::default(),
            stage: Stage::Idle,
            spare: None,
            word: Word::Nothing,
            was_late: false,
            errand: None,
            handoff: None,
            is_alerted: false,
        };
        let (limit, next_check) = (Limit::default(), NextCheck::default());
        Self { key, state: Mutex::new(state), limit, next_check }
    }

    /// The hold of the task that has its turn.
    pub(crate) fn held(&self) -> Option<Arc<Held>> {
        match &locked(&self.state).stage {
            Stage::Held(tenure) => Some(Arc::clone(&tenure.held)),
            Stage::Idle | Stage::Closed | Stage::Asking => None,
        }
    }

    /// Closes the line if nobody wants it.
    pub(crate) fn close_if_idle(&self) -> bool {
        let mut state = locked(&self.state);
        if matches!(state.stage, Stage::Idle) {
            state.stage = Stage::Closed;
        }
        matches!(state.stage, Stage::Closed)
    }
}
