//! What a line knows: who waits, who has a turn, and how far the grant goes.

use std::{sync::Arc, task::Waker, time::Duration};

use super::{
    Spare,
    errand::handoff::Handoff,
    held::Held,
    queue::Queue,
    seat::{Answer, Wish},
    sharing::Sharing,
    turn::Turn,
};
use crate::{
    engine::event::Loss,
    engine::{Patience, error::Error},
    time::clock::{Clock, Rough},
    tools::sync::wake,
};

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) stage: Stage,
    pub(super) spare: Spare,
    pub(super) word: Word,
    /// Whether a grant came too late since the last turn began.
    pub(super) was_late: bool,
    /// The errand that waits for us, to be woken when nobody does any more.
    pub(super) errand: Option<Waker>,
    /// The errand that waits for us, while it is driven by one of us.
    pub(super) handoff: Option<Arc<Handoff>>,
    /// The engine said that a hold should be looked at, and nobody has looked since.
    pub(super) is_alerted: bool,
}

/// What the engine last said about this key, as far as it concerns those who wait.
#[derive(Debug)]
pub(crate) enum Word {
    /// Nothing yet, since the line was opened.
    Nothing,
    Busy,
    /// It does not answer, or not as it should.
    Trouble(Error),
    /// It granted the key, but only after this long: too late for those whose ttl is no longer.
    Late(Duration),
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Nobody here wants the key. The line is kept for a while: most keys are wanted again.
    Idle,
    /// Forgotten by the core while it was idle: whoever still knows it must look again.
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
    /// The ttl that its lease was asked for; none if the lease does not end by time.
    pub(super) ttl: Option<Duration>,
    /// How many turns there have been; the one that lasts has the number before.
    pub(super) n_turns: u64,
    pub(super) n_fences: u32,
    pub(super) pass_on_until: Rough,
    /// Who has this turn, if others of the same owner may share it. Boxed, because most turns have none and
    /// pay for every byte that is moved.
    pub(super) sharing: Option<Box<Sharing>>,
}

impl State {
    /// The tenure of this hold, if it still is the line's.
    pub(super) fn tenure_of(&self, held: &Arc<Held>) -> Option<&Tenure> {
        match &self.stage {
            Stage::Held(tenure) if Arc::ptr_eq(&tenure.held, held) => Some(tenure),
            _ => None,
        }
    }

    /// The tenure of this hold, to be changed.
    pub(super) fn tenure_of_mut(&mut self, held: &Arc<Held>) -> Option<&mut Tenure> {
        match &mut self.stage {
            Stage::Held(tenure) if Arc::ptr_eq(&tenure.held, held) => Some(tenure),
            _ => None,
        }
    }

    /// A share of the turn that is going on, if the one who wishes is its owner.
    ///
    /// # Errors
    /// With the hold and why it is over, if that has not been noticed: it must be lost first.
    pub(super) fn share_with(
        &mut self,
        wish: &Wish,
        clock: &Clock,
    ) -> Option<Result<Turn, (Arc<Held>, Loss)>> {
        let (Stage::Held(tenure), Some(wisher)) = (&mut self.stage, wish.owner) else {
            return None;
        };
        let sharing = tenure.sharing.as_mut().filter(|sharing| sharing.owner == wisher)?;
        let held = Arc::clone(&tenure.held);
        if let Some(loss) = held.over_at(clock.now()) {
            return Some(Err((held, loss)));
        }
        let ends_at = wish.guard_ends_at(clock);
        sharing.add(ends_at);
        held.end_turn_at(sharing.ends_at()?, clock);
        Some(Ok(Turn::new(held, tenure.n_turns - 1, ends_at)))
    }

    /// Whether nobody waits who would be served by a claim that waits.
    pub(super) fn is_deserted(&self) -> bool {
        self.queue.first().is_none_or(|seat| seat.wish.patience == Patience::Tries)
    }

    /// Whether one who only tries would get an answer of its own without delay. Behind one who waits it would not,
    /// however soon those before are answered.
    pub(super) fn would_try_at_once(&self) -> bool {
        matches!(self.stage, Stage::Asking) && !self.queue.has_waiting()
    }

    /// Gives the first in line its turn, and the same to everyone of the same owner. Those who only try are
    /// told that it is busy: they would wait for the end of the turn.
    pub(super) fn begin_turn(&mut self, clock: &Clock) -> Wakers {
        let Stage::Held(tenure) = &mut self.stage else { return Wakers::default() };
        let Some(seat) = self.queue.pop_first() else { return Wakers::default() };
        let (held, number) = (&tenure.held, tenure.n_turns);
        tenure.n_turns += 1;
        let yours = |ends_at| Answer::Yours(Turn::new(Arc::clone(held), number, ends_at));
        let (mut ends_at, mut more) = (seat.wish.guard_ends_at(clock), Vec::new());
        let first = seat.answer(yours(ends_at));
        tenure.sharing = seat.wish.owner.map(|owner| {
            let mut sharing = Box::new(Sharing::of(owner));
            sharing.add(ends_at);
            for mate in self.queue.take_mates(owner) {
                let mate_ends_at = mate.wish.guard_ends_at(clock);
                sharing.add(mate_ends_at);
                ends_at = ends_at.max(mate_ends_at);
                more.extend(mate.answer(yours(mate_ends_at)));
            }
            sharing
        });
        held.end_turn_at(ends_at, clock);
        more.extend(self.queue.take_trying().iter().filter_map(|seat| seat.answer(Answer::Busy)));
        Wakers { first, more }
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
        self.first.into_iter().for_each(wake);
        self.more.into_iter().for_each(wake);
    }
}

impl Tenure {
    /// Whether another turn may have the hold.
    pub(super) fn may_pass_on(&self, clock: &Clock) -> bool {
        self.n_turns < u64::from(self.n_fences)
            && clock.rough() < self.pass_on_until
            && self.held.holds(clock)
    }

    /// Whether the lease is one for a task that wants this ttl.
    pub(super) fn suits(&self, ttl: Duration) -> bool {
        self.ttl.is_none_or(|asked| asked == ttl)
    }
}
