//! A claim that holds its key: when that ends, who renews it, and what happens when it is lost.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Left, Line,
    errand::{self, give_back},
    lease::terms_of,
};
use crate::{
    engine::event::Loss,
    engine::{
        Claim, Grant, Lease, Released,
        error::{Error, ErrorKind, Result},
        event::Event,
    },
    time::clock::{Clock, Moment},
    tools::{
        caught::calling,
        sync::{Flag, Raised, locked},
    },
};

/// When a renewal is tried again for which there was no thread.
const RENEW_LATER: Duration = Duration::from_millis(50);

/// One grant of the engine to this process. It may serve several turns of the line.
///
/// Whether it holds is arithmetic, not a flag: the end counts from before the request was sent,
/// and moves only when a renewal is confirmed.
pub(crate) struct Held {
    pub(crate) line: Line,
    /// The ttl that its lease was asked for.
    pub(crate) ttl: Duration,
    first_fence: u64,
    ends_at: AtomicU64,
    /// The end of the maximum hold of this turn: of the last of the guards that share it. It changes
    /// under the mutex of the line only, as turns do.
    turn_ends_at: AtomicU64,
    /// Why it was lost, and when. It is set under the mutex of the line only, while the hold is the line's.
    loss: OnceLock<(Loss, Moment)>,
    lost: Flag,
    asked_back: Flag,
    released: Flag,
    keep: Mutex<Keep>,
}

struct Keep {
    claim: Hands,
    renew_at: Moment,
    /// The engine raised an alert during a renewal, which may have looked before that: another follows.
    renew_again: bool,
}

/// Whose hands the claim is in.
enum Hands {
    Ours(Box<dyn Claim>),
    Renewal {
        then: Then,
    },
    /// Given back by a renewal that had it; this is what came of that, until somebody asks.
    GivenBack(Result<Released>),
    Nobody,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Keep,
    Release,
}

impl Held {
    /// Takes a granted claim into keeping and has it watched.
    ///
    /// # Errors
    /// With the claim, if it cannot be watched: then it must be given back.
    pub(crate) fn keep(
        line: &Line,
        claim: Box<dyn Claim>,
        grant: &Grant,
        sent_at: Moment,
        ttl: Duration,
    ) -> Result<Arc<Self>, (Box<dyn Claim>, Error)> {
        let (ends_at, renew_at) = terms_of(grant.lease, sent_at);
        let held = Arc::new(Self {
            line: line.clone(),
            ttl,
            first_fence: grant.fence,
            ends_at: AtomicU64::new(ends_at.as_nanos()),
            turn_ends_at: AtomicU64::new(Moment::NEVER.as_nanos()),
            loss: OnceLock::new(),
            lost: Flag::default(),
            asked_back: Flag::default(),
            released: Flag::default(),
            keep: Mutex::new(Keep { claim: Hands::Ours(claim), renew_at, renew_again: false }),
        });
        let mut keep = locked(&held.keep);
        if let Err(error) = held.watch(&keep, sent_at)
            && let Hands::Ours(claim) = std::mem::replace(&mut keep.claim, Hands::Nobody)
        {
            return Err((claim, error));
        }
        drop(keep);
        Ok(held)
    }

    /// The fence of a turn. An engine without fences gives 0, for every turn.
    pub(crate) fn fence_of(&self, number: u64) -> u64 {
        if self.first_fence == 0 { 0 } else { self.first_fence + number }
    }

    pub(crate) fn ends_at(&self) -> Moment {
        Moment::from_nanos(self.ends_at.load(Ordering::Acquire))
    }

    pub(crate) fn turn_ends_at(&self) -> Moment {
        Moment::from_nanos(self.turn_ends_at.load(Ordering::Acquire))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.loss.get().is_some()
    }

    pub(crate) fn holds_at(&self, now: Moment) -> bool {
        !self.is_lost() && now < self.ends_at()
    }

    /// The same now; the clock is only read if the hold ends by time.
    pub(crate) fn holds(&self, clock: &Clock) -> bool {
        !self.is_lost() && (self.ends_at() == Moment::NEVER || clock.now() < self.ends_at())
    }

    /// What has ended it by this moment, if anything has.
    pub(crate) fn over_at(&self, now: Moment) -> Option<Loss> {
        if now >= self.ends_at() {
            Some(Loss::Expired)
        } else {
            (now >= self.turn_ends_at()).then_some(Loss::MaximumHold)
        }
    }

    /// Why it does not hold any more, and since when; only the clock may have told so yet.
    pub(crate) fn loss(&self) -> (Loss, Moment) {
        if !self.line.core.is_this_process() {
            let why = "this process was forked from the one that holds it";
            return (Loss::TakenAway(why.into()), Moment::from_nanos(0));
        }
        self.loss.get().cloned().unwrap_or_else(|| (Loss::Expired, self.ends_at()))
    }

    /// Whether the engine said that it is not ours any more.
    pub(crate) fn was_taken_away(&self) -> bool {
        matches!(self.loss.get(), Some((Loss::TakenAway(_), _)))
    }

    /// What its guards are told when it does not hold any more.
    pub(crate) fn lost_error(&self) -> Error {
        self.line.lost_error(&self.loss().0)
    }

    /// Ends when the hold was lost and that was noticed.
    pub(crate) fn told(&self) -> Raised<'_> {
        self.lost.raised()
    }

    /// From now on the turn ends at this moment. For the line, which holds its mutex.
    pub(crate) fn end_turn_at(&self, ends_at: Moment, clock: &Clock) {
        let before = self.turn_ends_at();
        if before == ends_at {
            return;
        }
        self.turn_ends_at.store(ends_at.as_nanos(), Ordering::Release);
        if ends_at < before {
            // It was watched before, so the thread is there and this cannot fail.
            let _ = self.watch(&locked(&self.keep), clock.now());
        }
    }

    /// Notes why it was lost, unless it was before. For the line, which holds its mutex.
    pub(crate) fn note_loss(&self, loss: Loss, now: Moment) -> bool {
        self.loss.set((loss, now.min(self.ends_at()))).is_ok()
    }

    /// Takes the claim out of keeping in order to give it back.
    pub(crate) fn take(&self) -> Taken {
        let mut keep = locked(&self.keep);
        match std::mem::replace(&mut keep.claim, Hands::Nobody) {
            Hands::Ours(claim) => Taken::Claim(claim),
            Hands::Renewal { .. } => {
                keep.claim = Hands::Renewal { then: Then::Release };
                self.asked_back.raise();
                Taken::ByRenewal
            }
            Hands::GivenBack(_) | Hands::Nobody => Taken::Gone,
        }
    }

    /// Ends when a renewal has no reason to go on.
    pub(crate) async fn asked_back(&self) {
        self.asked_back.raised().await;
    }

    /// Ends when the renewal that had the claim in hands has released it.
    pub(crate) async fn released(&self) -> Result<Released> {
        self.released.raised().await;
        match std::mem::replace(&mut locked(&self.keep).claim, Hands::Nobody) {
            Hands::GivenBack(answer) => answer,
            Hands::Ours(_) | Hands::Renewal { .. } | Hands::Nobody => Ok(Released::Done),
        }
    }

    #[cfg(unix)]
    pub(crate) fn descriptor(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        self.line.core.check_process()?;
        match &locked(&self.keep).claim {
            // A look changes nothing of the claim, so the hold goes on also if the look panics.
            Hands::Ours(claim) => calling(|| claim.descriptor())?,
            Hands::Renewal { .. } => Err(Error::new(
                ErrorKind::Other,
                "the lock is being renewed right now; ask again in a moment",
            )),
            Hands::GivenBack(_) | Hands::Nobody => {
                Err(Error::new(ErrorKind::Lost, "the lock is not held any more"))
            }
        }
    }

    /// Something may be due: the end, the maximum, or a renewal. Called by the clock's thread, so it
    /// only decides; what takes time is the steward's. Answers when something is due next.
    pub(crate) fn due(self: &Arc<Self>, now: Moment) -> Moment {
        let mut keep = locked(&self.keep);
        if !matches!(keep.claim, Hands::Ours(_) | Hands::Renewal { then: Then::Keep }) {
            return Moment::NEVER;
        }
        if let Some(loss) = self.over_at(now) {
            drop(keep);
            self.lose(&loss);
            keep = locked(&self.keep);
            // Otherwise another turn has begun meanwhile.
            if self.is_lost() || self.over_at(now).is_some() {
                return Moment::NEVER;
            }
        }
        let steward = &self.line.core.steward;
        if now >= keep.renew_at && steward.ready().is_err() {
            // There may be a thread for it in a moment.
            keep.renew_at = now + RENEW_LATER;
        } else if now >= keep.renew_at {
            match std::mem::replace(&mut keep.claim, Hands::Renewal { then: Then::Keep }) {
                Hands::Ours(claim) => {
                    steward.adopt_if_ready(errand::renew(Arc::clone(self), claim));
                }
                hands => keep.claim = hands,
            }
        }
        self.next_due(&keep)
    }

    /// The engine says that the hold should be looked at: it is [due](Self::due) for a renewal.
    pub(crate) fn renew_now(&self, now: Moment) {
        let mut keep = locked(&self.keep);
        match keep.claim {
            Hands::Ours(_) => keep.renew_at = now,
            Hands::Renewal { .. } => keep.renew_again = true,
            Hands::GivenBack(_) | Hands::Nobody => {}
        }
    }

    /// A renewal came back with a longer lease. Gives the claim back if it is to be released.
    pub(crate) fn renewed(
        self: &Arc<Self>,
        claim: Box<dyn Claim>,
        lease: Lease,
        sent_at: Moment,
    ) -> Option<Box<dyn Claim>> {
        if self.line.core.clock.now() >= self.ends_at() {
            // However short, there was a gap.
            self.lose(&Loss::Expired);
        }
        let mut keep = locked(&self.keep);
        if self.is_lost() || !matches!(keep.claim, Hands::Renewal { then: Then::Keep }) {
            return Some(claim);
        }
        let (ends_at, renew_at) = terms_of(lease, sent_at);
        self.ends_at.store(ends_at.as_nanos(), Ordering::Release);
        let again = std::mem::take(&mut keep.renew_again);
        keep.renew_at = if again { sent_at } else { renew_at };
        keep.claim = Hands::Ours(claim);
        // It was watched before, so the thread is there and this cannot fail.
        let _ = self.watch(&keep, sent_at);
        None
    }

    /// The renewal is over and the claim given back.
    pub(crate) fn renewal_ended(&self, answer: Result<Released>) {
        locked(&self.keep).claim = Hands::GivenBack(answer);
        self.released.raise();
    }

    /// Whether a renewal still has a reason to go on trying.
    pub(crate) fn wants_renewal(&self, now: Moment) -> bool {
        let keep = locked(&self.keep);
        self.holds_at(now) && matches!(keep.claim, Hands::Renewal { then: Then::Keep })
    }

    /// The hold is over though nobody asked: tells the guards, frees the line, cleans up. Nothing of that if
    /// only time ended it, and its turn ended before: the next turn has a maximum of its own, and what is
    /// released is not lost.
    pub(crate) fn lose(self: &Arc<Self>, loss: &Loss) {
        let line = &self.line;
        let Some(left) = line.lose(self, loss) else { return };
        self.lost.raise();
        line.core.observers.tell(&Event::Lost { key: line.key(), loss });
        if let Taken::Claim(claim) = self.take() {
            give_back::give_back_behind(line, claim, self.ttl);
        }
        if let Left::Waiting = left {
            line.entrust(errand::ask(line.clone()));
        }
    }

    /// Has the clock's thread [look](Self::due) in time.
    fn watch(&self, keep: &Keep, now: Moment) -> Result<()> {
        self.line.core.alarms.watch_hold(self.line.record(), now, self.next_due(keep))
    }

    fn next_due(&self, keep: &Keep) -> Moment {
        let renew_at = match keep.claim {
            Hands::Ours(_) => keep.renew_at,
            Hands::Renewal { .. } | Hands::GivenBack(_) | Hands::Nobody => Moment::NEVER,
        };
        renew_at.min(self.ends_at()).min(self.turn_ends_at())
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("key", self.line.key())
            .field("ends_at", &self.ends_at())
            .field("loss", &self.loss)
            .finish_non_exhaustive()
    }
}

/// What [`Held::take`] found.
pub(crate) enum Taken {
    Claim(Box<dyn Claim>),
    /// A renewal is under way and will release it; see [`Held::released`].
    ByRenewal,
    Gone,
}
