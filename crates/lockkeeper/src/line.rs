//! The line: the tasks of this process that want the same key, served by one claim.
//!
//! While a turn lasts, the others wait here; when it ends, the lock is passed on inside the process
//! with the next fence of the grant, until nobody here wants it, the numbers are used up, or it
//! has been kept from other processes for long enough. That is what makes a hot key cheap.

mod state;

use std::{
    borrow::Cow,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    time::Duration,
};

pub(crate) use self::state::Word;
use self::state::{Stage, State, Tenure};
use crate::{
    at_hand::AtHand,
    clock::Moment,
    engine::{Claim, Grant, Lease, Patience},
    errand,
    error::{Call, Error, ErrorKind, Result},
    event::Event,
    held::{Held, Taken},
    key::Key,
    limit::Limit,
    locks::House,
    next_look::NextLook,
    roll::{Place, Roll},
    seat::{Answer, Seat, Terms, Wish},
    sync::{keep_waker, locked},
    ticket::Ticket,
    turn::Turn,
};

/// How long one process may pass a key on among its own tasks before it asks the engine again,
/// and so lets others have a turn. The number of turns is bound by the fences of the grant.
const PASS_ON_FOR: Duration = Duration::from_millis(100);

/// A line and the house it belongs to. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) house: Arc<House>,
    record: Arc<LineRecord>,
}

/// What the house knows of a line. It does not know the house, so idle lines keep nothing alive.
#[derive(Debug)]
pub(crate) struct LineRecord {
    key: Key,
    state: Mutex<State>,
    pub(crate) limit: Limit,
    pub(crate) next_look: NextLook,
}

/// A claim that was given back and can begin again.
pub(crate) type Spare = Option<Box<dyn Claim>>;

/// What came of ending a turn.
#[derive(Debug)]
#[must_use = "a hold that is not passed on must be released"]
pub(crate) enum Ended {
    /// The hold serves another turn.
    GoesOn,
    /// Nobody here may have it next: the hold must be [released](crate::give_back::release).
    Last,
    /// The hold was lost before.
    Lost,
}

/// A grant that nobody can use.
pub(crate) struct Unwanted {
    pub(crate) claim: Box<dyn Claim>,
    pub(crate) error: Option<Error>,
}

/// What came of joining.
pub(crate) enum Joined<'a> {
    /// Nobody here had asked: whoever opens the line must [`ask`](errand::ask).
    Opened(Ticket<'a>),
    Queued(Ticket<'a>),
    /// The owner has it already.
    Again(Turn),
    /// It is held here, and the task would not wait.
    Busy,
}

impl Line {
    pub(crate) fn new(house: Arc<House>, record: Arc<LineRecord>) -> Self {
        Self { house, record }
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
                let record = self.house.line(self.key());
                line = Cow::Owned(Self::new(Arc::clone(&self.house), record));
                continue;
            }
            if let Some(shared) = state.shared_with(&seat.wish) {
                return Joined::Again(shared);
            }
            let opens = matches!(state.stage, Stage::Idle);
            if opens {
                state.stage = Stage::Asking;
                state.word = Word::Nothing;
            } else if seat.wish.patience == Patience::Tries && !state.would_try_at_once() {
                return Joined::Busy;
            } else if let Some(seat) = Arc::get_mut(&mut seat) {
                seat.set_waker(waker);
            }
            let place = state.queue.push_back(Arc::clone(&seat));
            let at_hand = if opens { None } else { state.at_hand.take() };
            drop(state);
            if let Some(at_hand) = at_hand {
                // Its task may be blocked, and we would stand still with it.
                at_hand.hand_over(&self.house.steward);
            }
            let ticket = Ticket::new(line, seat, place);
            return if opens { Joined::Opened(ticket) } else { Joined::Queued(ticket) };
        }
    }

    /// Notes that one of our tasks drives the errand that waits for us. If others depend on it,
    /// the steward has it instead.
    pub(crate) fn keep_at_hand(&self, at_hand: &Arc<AtHand>) {
        let mut state = locked(&self.record.state);
        if state.queue.iter().nth(1).is_some() {
            drop(state);
            return at_hand.hand_over(&self.house.steward);
        }
        let before = state.at_hand.replace(Arc::clone(at_hand));
        drop(state);
        drop(before);
    }

    /// Leaves the line, if it has not been answered yet.
    pub(crate) fn leave(&self, place: Place) {
        let mut state = locked(&self.record.state);
        let seat = state.queue.remove(place);
        let errand = if state.is_deserted() { state.errand.take() } else { None };
        drop(state);
        drop(seat);
        errand.into_iter().for_each(Waker::wake);
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
    pub(crate) fn keep_spare(&self, claim: Box<dyn Claim>) {
        if claim.begins_again() {
            // Bound, so that it is dropped after the mutex is free.
            let _before = locked(&self.record.state).spare.replace(claim);
        }
    }

    /// The ttl that the first in line wants: not always the one who was first when a claim was made.
    pub(crate) fn first_ttl(&self) -> Duration {
        let state = locked(&self.record.state);
        let terms =
            state.queue.first().map_or(&self.house.terms, |seat| seat.wish.terms(&self.house));
        terms.ttl
    }

    /// The engine granted a claim made on these terms: the first in line gets its turn.
    pub(crate) fn granted(
        &self,
        claim: Box<dyn Claim>,
        grant: &Grant,
        sent_at: Moment,
        terms: Option<Arc<Terms>>,
    ) -> Result<(), Unwanted> {
        let now = match grant.lease {
            Lease::For(_) => self.house.clock.now(),
            // Such a hold cannot have run out since, so the older moment will do.
            Lease::WithSession { .. } => sent_at,
        };
        let mut state = locked(&self.record.state);
        let turn_ends_at = match state.queue.first() {
            Some(seat) if seat.wish.terms == terms => seat.wish.turn_ends_at(now),
            _ => return Err(Unwanted { claim, error: None }),
        };
        let held = Held::keep(self, claim, grant, sent_at, turn_ends_at)?;
        if !held.holds_at(now) {
            // Bound to be ours: nobody else knows of this hold yet.
            if let Taken::Claim(claim) = held.take() {
                let ttl = terms.as_deref().unwrap_or(&self.house.terms).ttl;
                return Err(Unwanted { claim, error: Some(too_late(ttl)) });
            }
        }
        let tenure = Tenure {
            held,
            terms,
            n_turns: 0,
            n_fences: grant.n_fences,
            pass_on_until: self.house.clock.rough() + PASS_ON_FOR,
            has_maximum: false,
            owner: None,
        };
        state.word = Word::Busy;
        let before = std::mem::replace(&mut state.stage, Stage::Held(tenure));
        let wakers = state.begin_turn();
        drop(state);
        drop(before);
        self.house.observers.tell(&Event::Granted { key: self.key(), fence: grant.fence });
        wakers.wake();
        Ok(())
    }

    /// A turn is over. Passes the lock on to the next in line if that may be.
    pub(crate) fn end_turn(&self, held: &Arc<Held>, number: u64) -> Ended {
        let mut guarded = locked(&self.record.state);
        let state = &mut *guarded;
        // If it was lost, the line has moved on without it.
        let Some(tenure) = state.tenure_of(held) else { return Ended::Lost };
        if tenure.n_turns != number + 1 {
            return Ended::GoesOn;
        }
        if let Some(next) = state.queue.first()
            && tenure.may_pass_on_to(&next.wish, &self.house.clock)
        {
            if tenure.has_maximum || next.wish.maximum_hold.is_some() {
                let now = self.house.clock.now();
                held.begin_turn(now, next.wish.turn_ends_at(now));
            }
            let fence = held.fence_of(tenure.n_turns);
            let wakers = state.begin_turn();
            drop(guarded);
            self.house.observers.tell(&Event::Passed { key: self.key(), fence });
            wakers.wake();
            return Ended::GoesOn;
        }
        let before = std::mem::replace(&mut state.stage, Stage::Asking);
        drop(guarded);
        drop(before);
        Ended::Last
    }

    /// The hold was lost: those who wait are served by a new claim, the guard is on its own.
    pub(crate) fn lost(&self, held: &Arc<Held>) {
        let mut state = locked(&self.record.state);
        if state.tenure_of(held).is_none() {
            return;
        }
        let before = std::mem::replace(&mut state.stage, Stage::Asking);
        drop(state);
        drop(before);
        self.house.steward.adopt(errand::ask(self.clone()));
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
        seat.answer(answer).into_iter().for_each(Waker::wake);
    }

    /// Answers everyone in line with an error that asking again would not mend.
    pub(crate) fn fail(&self, error: &Error) {
        let mut state = locked(&self.record.state);
        state.word = Word::Nothing;
        // One by one: the places of those who are answered must not come up again in a new queue.
        let failed: Vec<_> = std::iter::from_fn(|| state.queue.pop_first()).collect();
        drop(state);
        for seat in failed {
            let waker = seat.answer(Answer::Failed(error.echo()));
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Notes what the engine said, for those whose time runs out meanwhile.
    pub(crate) fn note(&self, word: Word) {
        // Bound, so that it is dropped after the mutex is free.
        let _before = std::mem::replace(&mut locked(&self.record.state).word, word);
    }

    /// Why one whose time is over has not got it.
    pub(crate) fn why_not(&self) -> Error {
        match &locked(&self.record.state).word {
            Word::Busy => Error::new(ErrorKind::TimedOut, "it was busy"),
            Word::Trouble(error) => error.echo(),
            Word::Nothing => {
                let error = Error::new(ErrorKind::Unreachable, "no answer in the time there was");
                self.house.error_at(error, self.key(), Call::Acquire)
            }
        }
    }

    /// Ends when no claim needs to wait for this line.
    pub(crate) async fn deserted(&self) {
        poll_fn(|context| {
            let state = locked(&self.record.state);
            if state.is_deserted() {
                return Poll::Ready(());
            }
            keep_waker(state, |state| &mut state.errand, context.waker());
            Poll::Pending
        })
        .await;
    }
}

impl LineRecord {
    pub(crate) fn new(key: Key) -> Self {
        let queue = Roll::default();
        let state = State {
            queue,
            stage: Stage::Idle,
            spare: None,
            word: Word::Nothing,
            errand: None,
            at_hand: None,
        };
        let (limit, next_look) = (Limit::default(), NextLook::default());
        Self { key, state: Mutex::new(state), limit, next_look }
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

fn too_late(ttl: Duration) -> Error {
    let ttl = humantime::format_duration(ttl);
    let message = format!(
        "the answer took longer than the ttl of {ttl}; the engine is too slow, or the ttl too short"
    );
    Error::new(ErrorKind::Unreachable, message)
}
