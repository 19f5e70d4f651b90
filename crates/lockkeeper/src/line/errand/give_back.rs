//! The end of a claim: its lock is given back, or its place in line, and the line asks again if anybody
//! wants it.

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use super::{asking, at_once, backoff::Backoff, steward::Errand, unconfirmed::Unsettled};
use crate::{
    engine::{
        Answers, Claim, Expiry, LONGEST_TTL, Released,
        error::{Call, Result},
        event::{Event, Loss},
    },
    line::{
        Line,
        core::Core,
        held::{Held, Taken},
    },
    tools::caught::caught,
};

/// How much longer than its ttl, and one answer's time, something of a claim may be left at an engine: a place
/// in line may last longer than a short ttl, and clocks run at different rates.
const LINGERS: Duration = Duration::from_secs(5);

/// Ends a hold whose guard was dropped: the release is sent here and now, and nobody waits for
/// its answer.
pub(crate) fn release_soon(held: Arc<Held>) {
    let line = &held.line;
    let mut claim = match held.take() {
        Taken::Claim(claim) => claim,
        taken => {
            let line = line.clone();
            return line.start(Box::pin(async move {
                // Trouble is told to observers.
                let _ = release(held, taken).await;
            }));
        }
    };
    match line.core.profile.answers {
        Answers::AtOnce => match at_once(caught(|| claim.release(line.core.clock.now()))) {
            // Nobody waits for the answer; a loss is told to observers.
            Some(Ok(released)) => drop(confirm(line, released)),
            Some(Err(_)) | None => give_back_behind(line, claim, held.ttl),
        },
        Answers::Later => line.core.part(line, claim, held.ttl),
    }
    ask_if_wanted(line);
}

/// Ends a hold at the engine, then asks again if somebody joined the line meanwhile.
pub(crate) async fn release(held: Arc<Held>, taken: Taken) -> Result<()> {
    let line = &held.line;
    let answer = match taken {
        Taken::Claim(claim) => give_back(line, claim, held.ttl).await,
        Taken::ByRenewal => held.released().await,
        Taken::Gone => Ok(Released::Done),
    };
    ask_if_wanted(line);
    let released = confirm(line, answer?);
    // A renewal that was under way may have found that it was lost, whatever the release says.
    if held.was_taken_away() { Err(held.lost_error()) } else { released }
}

/// What the guard of a released hold is told. A lock that was not ours any more was lost, and observers
/// hear of that too: where there are no fences, nothing else tells that two may have held it.
pub(crate) fn confirm(line: &Line, released: Released) -> Result<()> {
    if released == Released::Done {
        return Ok(());
    }
    let loss =
        Loss::TakenAway("the engine had another holder, or none, when it was released".into());
    line.core.observers.tell(&Event::Lost { key: line.key(), loss: &loss });
    Err(line.lost_error(&loss))
}

/// The claim is out of our hands. If somebody is in line, the next one is not our caller's matter.
pub(crate) fn ask_if_wanted(line: &Line) {
    line.core.observers.tell(&Event::Released { key: line.key() });
    if line.is_wanted_or_idle() {
        line.start(asking(line));
    }
}

/// Gives a claim back that was asked for with this ttl; if the engine does not answer, it is asked again in the
/// background.
pub(crate) async fn give_back(
    line: &Line,
    mut claim: Box<dyn Claim>,
    ttl: Duration,
) -> Result<Released> {
    let now = line.core.clock.now();
    let answer = line.limited(now, || claim.release(now)).await;
    given_back(line, claim, ttl, answer)
}

/// What follows from the answer to a release.
pub(crate) fn given_back(
    line: &Line,
    claim: Box<dyn Claim>,
    ttl: Duration,
    answer: Result<Released>,
) -> Result<Released> {
    match answer {
        Ok(released) => {
            line.keep_spare(claim);
            Ok(released)
        }
        Err(error) => {
            give_back_behind(line, claim, ttl);
            Err(line.core.error_at(error, line.key(), Call::Release))
        }
    }
}

/// The same for a claim whose owner wants no answer: trouble is told to observers by the errand
/// that goes on.
pub(crate) async fn give_back_soon(line: &Line, claim: Box<dyn Claim>, ttl: Duration) {
    let _ = give_back(line, claim, ttl).await;
}

/// Goes on giving a claim back until the engine confirms it, or until nothing of it can be left there. What the engine says counts only if it answered at once: a release that is
/// repeated may find that the one before was carried out.
pub(crate) async fn give_back_at_last(
    unsettled: &Unsettled,
    mut claim: Box<dyn Claim>,
) -> Released {
    let Unsettled { line, ttl } = unsettled;
    let core = &line.core;
    let mut give_up_at = None;
    let mut backoff = Backoff::default();
    loop {
        let error = match core.limited(|| claim.release(core.clock.now())).await {
            Ok(released) => {
                line.keep_spare(claim);
                return if give_up_at.is_none() { released } else { Released::Done };
            }
            Err(error) => error,
        };
        let now = core.clock.now();
        // Whatever could have taken the lock was sent before the first release.
        let give_up_at = *give_up_at.get_or_insert(now + core.outlasts(*ttl));
        if now >= give_up_at || !error.may_pass() {
            return Released::Done;
        }
        let pause = backoff.pause_behind(*ttl);
        core.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
        core.alarms.wait_until(give_up_at.min(now + pause)).await;
    }
}

impl Core {
    /// For how long something may be left at the engine of a claim with this ttl that nobody renews.
    fn outlasts(&self, ttl: Duration) -> Duration {
        match self.profile.expiry {
            Expiry::Lease { .. } => ttl + self.answer_within + LINGERS,
            // Only the end of the session ends it, so this is just where the patience ends.
            Expiry::Session => LONGEST_TTL,
        }
    }
}

/// The same behind everybody's back, for a claim that nobody holds the lock by any more.
pub(crate) fn give_back_behind(line: &Line, claim: Box<dyn Claim>, ttl: Duration) {
    let unsettled = Unsettled::new(line, ttl);
    line.core.steward.adopt_if_ready(async move {
        give_back_at_last(&unsettled, claim).await;
    });
}

/// The same; the release is sent here and now, so that whoever asks next comes behind it.
pub(crate) fn give_back_ahead(line: &Line, claim: Box<dyn Claim>, ttl: Duration) {
    let unsettled = Unsettled::new(line, ttl);
    let mut errand: Errand = Box::pin(async move {
        give_back_at_last(&unsettled, claim).await;
    });
    if errand.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        line.core.steward.adopt_if_ready(errand);
    }
}
