//! How a line gives its tasks their turns: with a grant of the engine, and from one task to the next.

use std::{sync::Arc, time::Duration};

use super::{
    Line, errand,
    held::{Held, Taken},
    state::{Stage, Tenure, Word},
};
use crate::{
    engine::event::Loss,
    engine::{Claim, Grant, Lease, error::Error, event::Event},
    time::clock::{Moment, Rough},
    tools::sync::locked,
};

/// How long one process may pass a key on among its own tasks before it asks the engine again,
/// and so lets others have a turn. The number of turns is bound by the fences of the grant.
const PASS_ON_FOR: Duration = Duration::from_millis(100);

/// A claim that was granted the key, for the first in line.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) claim: Box<dyn Claim>,
    pub(crate) grant: Grant,
    pub(crate) sent_at: Moment,
    /// The ttl that the lease was asked for.
    pub(crate) ttl: Duration,
    /// If it is passed on, and not from the engine: until when that may be done.
    pub(crate) pass_on_until: Option<Rough>,
}

/// An offer that nobody took.
#[derive(Debug)]
pub(crate) struct Unwanted {
    pub(crate) offer: Offer,
    pub(crate) why: Why,
}

#[derive(Debug)]
pub(crate) enum Why {
    NobodyWaits,
    /// The first in line wants this ttl, and the lease was asked for another.
    OtherTtl(Duration),
    /// The lease was over after this long, when the answer came.
    TooLate(Duration),
    /// It cannot be watched.
    Unwatched(Error),
}

/// What came of ending a turn.
#[derive(Debug)]
#[must_use = "a hold that is not passed on must be released"]
pub(crate) enum Ended {
    /// The hold serves another turn.
    GoesOn,
    /// Nobody here may have it next: the hold must be [released](crate::line::errand::give_back::release).
    Last,
    /// The hold was lost before.
    Lost,
}

/// Whom a hold that was lost leaves behind.
#[derive(Debug)]
pub(crate) enum Left {
    /// Its line, which must [ask](errand::ask()) again.
    Waiting,
    /// The line has moved on.
    Nobody,
}

impl Line {
    /// The engine granted a claim: the first in line gets its turn, whoever it was when the claim was made.
    pub(crate) fn granted(&self, offer: Offer) -> Result<(), Unwanted> {
        let clock = &self.core.clock;
        let (now, ttl) = match offer.grant.lease {
            Lease::For(_) => (clock.now(), Some(offer.ttl)),
            // Such a hold cannot have run out since, so the older moment will do.
            Lease::WithSession { .. } => (offer.sent_at, None),
        };
        let mut state = locked(&self.record.state);
        let wanted = state.queue.first().map(|seat| seat.wish.terms(&self.core).ttl);
        match (wanted, ttl) {
            (None, _) => return Err(Unwanted { offer, why: Why::NobodyWaits }),
            (Some(wanted), Some(ttl)) if wanted != ttl => {
                return Err(Unwanted { offer, why: Why::OtherTtl(wanted) });
            }
            _ => {}
        }
        let Offer { claim, grant, sent_at, ttl: asked, pass_on_until } = offer;
        let offered = |claim, grant| Offer { claim, grant, sent_at, ttl: asked, pass_on_until };
        let held = match Held::keep(self, claim, &grant, sent_at, asked) {
            Ok(held) => held,
            Err((claim, error)) => {
                return Err(Unwanted { offer: offered(claim, grant), why: Why::Unwatched(error) });
            }
        };
        // Bound to be ours: nobody else knows of this hold yet.
        if !held.holds_at(now)
            && let Taken::Claim(claim) = held.take()
        {
            let why = Why::TooLate(now.since(sent_at).max(asked));
            return Err(Unwanted { offer: offered(claim, grant), why });
        }
        let tenure = Tenure {
            held,
            ttl,
            n_turns: 0,
            n_fences: grant.n_fences,
            pass_on_until: pass_on_until.unwrap_or_else(|| clock.rough() + PASS_ON_FOR),
            sharing: None,
        };
        let word = std::mem::replace(&mut state.word, Word::Busy);
        state.was_late = false;
        let before = std::mem::replace(&mut state.stage, Stage::Held(tenure));
        let was_alerted = state.is_alerted;
        let wakers = state.begin_turn(clock);
        drop(state);
        if was_alerted {
            // The alert came before the hold, which is looked at now. It is watched, so this cannot fail.
            let _ = self.core.alarms.watch_hold(&self.record, sent_at, sent_at);
        }
        drop((before, word));
        let (key, fence) = (self.key(), grant.fence);
        self.core.observers.tell(&match pass_on_until {
            None => Event::Granted { key, fence },
            Some(_) => Event::Passed { key, fence },
        });
        wakers.wake();
        Ok(())
    }

    /// A guard's turn is over. When it was the last of those that share the turn, passes the lock on to the
    /// next in line if that may be.
    pub(crate) fn end_turn(&self, held: &Arc<Held>, ends_at: Moment) -> Ended {
        let clock = &self.core.clock;
        let mut guarded = locked(&self.record.state);
        let state = &mut *guarded;
        let next = state.queue.first().map(|seat| seat.wish.terms(&self.core).ttl);
        // If it was lost, the line has moved on without it.
        let Some(tenure) = state.tenure_of_mut(held) else { return Ended::Lost };
        if let Some(sharing) = &mut tenure.sharing {
            sharing.remove(ends_at);
            if let Some(ends_at) = sharing.ends_at() {
                held.end_turn_at(ends_at, clock);
                return Ended::GoesOn;
            }
        }
        let next = next.filter(|_| tenure.may_pass_on(clock));
        if next.is_some_and(|ttl| tenure.suits(ttl)) {
            let fence = held.fence_of(tenure.n_turns);
            let wakers = state.begin_turn(clock);
            drop(guarded);
            self.core.observers.tell(&Event::Passed { key: self.key(), fence });
            wakers.wake();
            return Ended::GoesOn;
        }
        let before = std::mem::replace(&mut state.stage, Stage::Asking);
        drop(guarded);
        match (before, next) {
            (Stage::Held(tenure), Some(ttl)) => self.pass_on_for(&tenure, ttl),
            _ => Ended::Last,
        }
    }

    /// Passes the lock on to one who wants another ttl, which the engine must know first.
    fn pass_on_for(&self, tenure: &Tenure, ttl: Duration) -> Ended {
        let Some(asked) = tenure.ttl else { return Ended::Last };
        let Taken::Claim(claim) = tenure.held.take() else { return Ended::Last };
        let n_turns = u32::try_from(tenure.n_turns).unwrap_or(u32::MAX);
        let offer = Offer {
            claim,
            grant: Grant {
                fence: tenure.held.fence_of(tenure.n_turns),
                n_fences: tenure.n_fences.saturating_sub(n_turns),
                lease: Lease::For(asked),
            },
            // Not to be used before it is renewed.
            sent_at: Moment::from_nanos(0),
            ttl: asked,
            pass_on_until: Some(tenure.pass_on_until),
        };
        self.start(errand::pass_on(self.clone(), offer, ttl));
        Ended::GoesOn
    }

    /// The hold is lost: those who wait must be served by a new claim, the guard is on its own. Nothing of that
    /// if only time ended the hold, and its turn has passed on or is being released.
    pub(crate) fn lose(&self, held: &Arc<Held>, loss: &Loss) -> Option<Left> {
        let now = self.core.clock.now();
        let mut state = locked(&self.record.state);
        let is_ours = state.tenure_of(held).is_some();
        let counts = match loss {
            Loss::TakenAway(_) => true,
            Loss::Expired => is_ours,
            Loss::MaximumHold => is_ours && now >= held.turn_ends_at(),
        };
        if !counts || !held.note_loss(loss.clone(), now) {
            return None;
        }
        if !is_ours {
            return Some(Left::Nobody);
        }
        let before = std::mem::replace(&mut state.stage, Stage::Asking);
        drop(state);
        drop(before);
        Some(Left::Waiting)
    }
}
