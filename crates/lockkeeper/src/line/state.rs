//! What a line knows: who waits, who has a turn, and how far the grant goes.

use std::{sync::Arc, task::Waker};

use super::Spare;
use crate::{
    at_hand::AtHand,
    clock::{Clock, Rough},
    engine::Patience,
    error::Error,
    held::Held,
    roll::Roll,
    seat::{Answer, OwnerNumber, Seat, Terms, Wish},
    turn::{Open, Turn},
};

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Roll<Arc<Seat>>,
    pub(super) stage: Stage,
    pub(super) spare: Spare,
    pub(super) word: Word,
    /// The errand that waits for us, to be woken when nobody does any more.
    pub(super) errand: Option<Waker>,
    /// The errand that waits for us, while it is driven by one of us.
    pub(super) at_hand: Option<Arc<AtHand>>,
}

/// What the engine last said about this key, as far as it concerns those who wait.
#[derive(Debug)]
pub(crate) enum Word {
    /// Nothing yet, since the line was opened.
    Nothing,
    Busy,
    /// It does not answer, or not as it should.
    Trouble(Error),
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Nobody here wants the key. The line is kept for a while: most keys are wanted again.
    Idle,
    /// Forgotten by the house while it was idle: whoever still knows it must look again.
    Closed,
    /// An errand is asking, waiting or giving back for us.
    Asking,
    /// One of our tasks has its turn.
    Held(Tenure),
}

/// The time from one grant of the engine to its release.
#[derive(Debug)]
pub(super) struct Tenure {
    pub(super) held: Arc<Held>,
    pub(super) terms: Option<Arc<Terms>>,
    /// How many turns there have been; the one that lasts has the number before.
    pub(super) n_turns: u64,
    pub(super) n_fences: u32,
    pub(super) pass_on_until: Rough,
    pub(super) has_maximum: bool,
    /// Whose turn it is, if others of the same owner may share it.
    pub(super) owner: Option<(OwnerNumber, Open)>,
}

impl State {
    /// The tenure of this hold, if it still is the line's.
    pub(super) fn tenure_of(&self, held: &Arc<Held>) -> Option<&Tenure> {
        match &self.stage {
            Stage::Held(tenure) if Arc::ptr_eq(&tenure.held, held) => Some(tenure),
            _ => None,
        }
    }

    /// The turn that is going on, if the one who wishes may share it.
    pub(super) fn shared_with(&self, wish: &Wish) -> Option<Turn> {
        let (Stage::Held(tenure), Some(wisher)) = (&self.stage, wish.owner) else { return None };
        tenure.owner.as_ref().filter(|(owner, _)| *owner == wisher)?.1.join(&tenure.held)
    }

    /// Whether nobody waits who would be served by a claim that waits.
    pub(super) fn is_deserted(&self) -> bool {
        self.queue.first().is_none_or(|seat| seat.wish.patience == Patience::Tries)
    }

    /// Whether one who only tries would get an answer of its own without delay.
    pub(super) fn would_try_at_once(&self) -> bool {
        matches!(self.stage, Stage::Asking) && self.is_deserted()
    }

    /// Gives the first in line its turn, and the same to everyone of the same owner.
    pub(super) fn begin_turn(&mut self) -> Wakers {
        let Stage::Held(tenure) = &mut self.stage else { return Wakers::default() };
        let Some(seat) = self.queue.pop_first() else { return Wakers::default() };
        let mut turn = Turn::new(Arc::clone(&tenure.held), tenure.n_turns);
        tenure.n_turns += 1;
        tenure.has_maximum = seat.wish.maximum_hold.is_some();
        let Some(owner) = seat.wish.owner else {
            tenure.owner = None;
            return Wakers { first: seat.answer(Answer::Yours(turn)), more: Vec::new() };
        };
        let open = turn.open();
        let mates = self.queue.iter().filter(|(_, mate)| mate.wish.owner == Some(owner));
        let mates: Vec<_> = mates.map(|(place, _)| place).collect();
        let mates = mates.into_iter().filter_map(|place| self.queue.remove(place));
        let share = |mate: Arc<Seat>| mate.answer(Answer::Yours(open.join(&tenure.held)?));
        let more = mates.filter_map(share).collect();
        tenure.owner = Some((owner, open));
        Wakers { first: seat.answer(Answer::Yours(turn)), more }
    }
}

/// Those to be woken once the mutex is free; nearly always one.
#[derive(Default)]
pub(super) struct Wakers {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakers {
    pub(super) fn wake(self) {
        self.first.into_iter().for_each(Waker::wake);
        self.more.into_iter().for_each(Waker::wake);
    }
}

impl Tenure {
    pub(super) fn may_pass_on_to(&self, wish: &Wish, clock: &Clock) -> bool {
        self.n_turns < u64::from(self.n_fences)
            && clock.rough() < self.pass_on_until
            && self.held.holds(clock)
            && self.terms == wish.terms
    }
}
