//! The errands of the steward: to ask, to wait, to renew. Every one of them owns its claim and runs to
//! its end.

pub(crate) mod ask;
mod backoff;
mod decline;
pub(crate) mod give_back;
mod give_up;
pub(crate) mod handoff;
mod quick_call;
pub(crate) mod release;
pub(crate) mod steward;
pub(crate) mod unconfirmed;

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_lite::future;

pub(crate) use self::decline::pass_on;
use self::{
    backoff::Backoff,
    decline::decline,
    give_back::{give_back, give_back_ahead, give_back_behind, give_back_soon},
    handoff::Handoff,
    steward::Errand,
};
use super::{
    Line, Offer, Spare, Word,
    held::Held,
    seat::{Answer, Seat},
};
use crate::{
    engine::event::Loss,
    engine::{
        Answers, Attempt, Claim, Grant, Patience, Request, Standing, Tells,
        error::{Call, Error, ErrorKind, Result},
        event::Event,
    },
    time::{clock::Moment, timers},
    tools::caught::{Broken, calling, caught},
};

/// What is left to do when the engine has answered an attempt.
pub(crate) fn answered(
    line: &Line,
    first: Arc<Seat>,
    claim: Box<dyn Claim>,
    sent_at: Moment,
    answer: Result<Attempt>,
) -> Option<Errand> {
    let answer = match answer {
        Ok(Attempt::Granted(grant)) => {
            match line.granted(offer(line, &first, claim, grant, sent_at)) {
                Ok(()) => return None,
                Err(unwanted) => Err(unwanted),
            }
        }
        answer if goes_on(&first, &answer) => {
            return begin_to_wait(line, first, claim, answer);
        }
        answer => Ok((claim, answer)),
    };
    let line = line.clone();
    Some(Box::pin(async move {
        let next = match answer {
            Err(unwanted) => decline(&line, Some(&first), unwanted).await,
            Ok((claim, answer)) => turned_away(&line, &first, claim, answer).await,
        };
        if let Next::Ask = next {
            ask(line).await;
        }
    }))
}

/// Asks the engine for whoever is first in line, until the line is served or empty.
pub(crate) async fn ask(line: Line) {
    while let Some((first, spare)) = line.first_or_idle() {
        let Some((claim, sent_at)) = claim_for(&line, &first, spare) else { continue };
        if let Next::Nothing = ask_with(&line, &first, claim, sent_at).await {
            return;
        }
    }
}

async fn ask_with(
    line: &Line,
    first: &Arc<Seat>,
    mut claim: Box<dyn Claim>,
    sent_at: Moment,
) -> Next {
    match line.limited(sent_at, || claim.attempt(sent_at)).await {
        Ok(Attempt::Granted(grant)) => {
            match line.granted(offer(line, first, claim, grant, sent_at)) {
                Ok(()) => Next::Nothing,
                Err(unwanted) => decline(line, Some(first), unwanted).await,
            }
        }
        answer => turned_away(line, first, claim, answer).await,
    }
}

/// What to ask with; nothing if the engine has none, which the first in line is told.
pub(crate) fn claim_for(
    line: &Line,
    first: &Arc<Seat>,
    spare: Spare,
) -> Option<(Box<dyn Claim>, Moment)> {
    let core = &line.core;
    let request = core.request(line.key(), &first.wish);
    let claim = calling(|| match spare {
        None => new_claim(line, request),
        Some(mut spare) => match spare.quick() {
            Some(quick) => match quick.reuse(request) {
                Ok(()) => spare,
                Err(request) => new_claim(line, request),
            },
            None => new_claim(line, request),
        },
    });
    match claim {
        Ok(claim) => Some((claim, core.clock.now())),
        Err(error) => {
            refuse(line, first, error);
            None
        }
    }
}

/// A claim that knows how to tell of a loss, if its engine tells.
fn new_claim(line: &Line, request: Request) -> Box<dyn Claim> {
    let mut claim = line.core.engine.claim(request);
    if line.core.profile.tells == Tells::Unasked {
        claim.watched(line.alert());
    }
    claim
}

/// What the errand that asks has to do next.
enum Next {
    Ask,
    Nothing,
}

/// The claim did not win: one who tries is told so, one who waits is looked after.
async fn turned_away(
    line: &Line,
    first: &Arc<Seat>,
    claim: Box<dyn Claim>,
    answer: Result<Attempt>,
) -> Next {
    match goes_on(first, &answer) {
        true => {
            if let Some(wait) = begin_to_wait(line, Arc::clone(first), claim, answer) {
                wait.await;
            }
            Next::Nothing
        }
        false => {
            let answer = match answer {
                Ok(_) => {
                    // It has not entered the queue, so only an engine that needs no network is
                    // told that it goes.
                    if line.core.profile.answers == Answers::AtOnce {
                        give_back_soon(line, claim, ttl_of(line, first)).await;
                    }
                    Answer::Busy
                }
                Err(error) => {
                    // The engine may have granted it all the same; nobody should wait for that.
                    give_back_behind(line, as_after(&error, claim), ttl_of(line, first));
                    Answer::Failed(line.core.error_at(error, line.key(), Call::Acquire))
                }
            };
            line.answer_first(first, answer);
            Next::Ask
        }
    }
}

/// What is left of a claim after a call that failed so.
fn as_after(error: &Error, claim: Box<dyn Claim>) -> Box<dyn Claim> {
    if error.is_panic() { Box::new(Broken(claim)) } else { claim }
}

/// Whether a claim with this answer goes on for the first in line.
fn goes_on(first: &Seat, answer: &Result<Attempt>) -> bool {
    first.wish.patience == Patience::Waits && !answer.as_ref().is_err_and(Error::is_panic)
}

/// Tells those who are concerned that the lock cannot be had: after a panic, the one it came up for; otherwise
/// everyone in line.
fn refuse(line: &Line, first: &Arc<Seat>, error: Error) {
    let error = line.core.error_at(error, line.key(), Call::Acquire);
    match error.is_panic() {
        true => line.answer_first(first, Answer::Failed(error)),
        false => drop(line.fail(|_| true, |_| error.echo())),
    }
}

/// Waits with a claim that did not win. Answers what the caller's own task has of it to drive.
fn begin_to_wait(
    line: &Line,
    first: Arc<Seat>,
    claim: Box<dyn Claim>,
    answer: Result<Attempt>,
) -> Option<Errand> {
    if answer.is_ok() {
        line.note(Word::Busy);
    }
    // From here on it may take long. An engine without a network is waited for by blocking
    // calls, which no caller's task should have in hands.
    let line = line.clone();
    let wait: Errand = Box::pin(wait(line.clone(), first, claim, retry_in(answer)));
    match line.core.profile.answers {
        Answers::AtOnce => {
            line.entrust(wait);
            None
        }
        Answers::Later => {
            let handoff = Handoff::new(wait);
            line.keep_handoff(&handoff);
            Some(Box::pin(async move { handoff.drive(&line.core.steward).await }))
        }
    }
}

/// Waits with a claim until it is granted, refused, or nobody wants it any more.
async fn wait(
    line: Line,
    first: Arc<Seat>,
    mut claim: Box<dyn Claim>,
    mut answer: Result<Option<Duration>>,
) {
    let core = &line.core;
    let mut backoff = Backoff::default();
    core.observers.tell(&Event::Waiting { key: line.key() });
    let mut is_in_trouble = answer.is_err();
    while let Some(pause) = backoff.pause_after(answer, &line) {
        match rest(&line, &mut *claim, pause).await {
            Ok(Rest::Over) => {}
            Ok(Rest::Deserted) => break,
            Err(error) => {
                refuse(&line, &first, error);
                break;
            }
        }
        let sent_at = core.clock.now();
        answer = match attempt(&line, &mut *claim, sent_at).await {
            Ok(Attempt::Granted(grant)) => {
                match line.granted(offer(&line, &first, claim, grant, sent_at)) {
                    Ok(()) => return,
                    Err(unwanted) => match decline(&line, Some(&first), unwanted).await {
                        Next::Ask => return asking(&line).await,
                        Next::Nothing => return,
                    },
                }
            }
            Err(error) if error.is_panic() => {
                claim = as_after(&error, claim);
                refuse(&line, &first, error);
                break;
            }
            other => retry_in(other),
        };
        is_in_trouble = answer.is_err();
    }
    match is_in_trouble {
        // It may be long until the engine answers, and whoever came meanwhile need not wait for that.
        true => give_back_ahead(&line, claim, ttl_of(&line, &first)),
        false => give_back_soon(&line, claim, ttl_of(&line, &first)).await,
    }
    asking(&line).await;
}

// Asking may end in waiting and waiting in asking again: one of them must have a known type.
pub(crate) fn asking(line: &Line) -> Errand {
    Box::pin(ask(line.clone()))
}

/// The same, beginning with this claim.
pub(crate) fn asking_with(
    line: &Line,
    first: Arc<Seat>,
    claim: Box<dyn Claim>,
    sent_at: Moment,
) -> Errand {
    let line = line.clone();
    Box::pin(async move {
        if let Next::Ask = ask_with(&line, &first, claim, sent_at).await {
            ask(line).await;
        }
    })
}

/// Asks the quick way, which may be known to the claim by now, or at length.
async fn attempt(line: &Line, claim: &mut dyn Claim, sent_at: Moment) -> Result<Attempt> {
    if quick_call::send::<Attempt>(claim, sent_at)
        && let Some(attempt) = line.limited(sent_at, || quick_call::answer(claim)).await?
    {
        return Ok(attempt);
    }
    line.limited(sent_at, || claim.attempt(sent_at)).await
}

enum Rest {
    Over,
    Deserted,
}

/// Rests until it is worth asking again: the engine says so, or the pause is over.
async fn rest(line: &Line, claim: &mut dyn Claim, pause: Duration) -> Result<Rest> {
    let alarms = &line.core.alarms;
    // Without the clock's thread the pause would never end, and our place would keep others waiting.
    alarms.ready()?;
    let told = pin!(async {
        claim.changed().await;
        Ok(Rest::Over)
    });
    let paused = async {
        // A little early is no harm: an engine may be asked at any time.
        alarms.rest(timers::rounded_down(pause)).await;
        Ok(Rest::Over)
    };
    let deserted = async {
        line.deserted().await;
        Ok(Rest::Deserted)
    };
    future::or(deserted, future::or(caught(|| told), paused)).await
}

/// What an attempt that was not granted says about the next one.
fn retry_in(answer: Result<Attempt>) -> Result<Option<Duration>> {
    match answer? {
        Attempt::Busy { retry_in } => Ok(retry_in),
        Attempt::Granted(_) => Ok(None),
    }
}

/// What was granted to a claim that was made for this seat.
fn offer(line: &Line, seat: &Seat, claim: Box<dyn Claim>, grant: Grant, sent_at: Moment) -> Offer {
    Offer { claim, grant, sent_at, ttl: ttl_of(line, seat), pass_on_until: None }
}

/// The ttl that a claim is asked for with when it is made for this seat.
fn ttl_of(line: &Line, seat: &Seat) -> Duration {
    seat.wish.terms(&line.core).ttl
}

/// Renews a hold; goes on trying while it still holds and nobody wants to release it.
pub(crate) async fn renew(held: Arc<Held>, mut claim: Box<dyn Claim>) {
    let line = &held.line;
    let core = &line.core;
    let mut backoff = Backoff::default();
    while held.wants_renewal(core.clock.now()) {
        let sent_at = core.clock.now();
        let left = held.ends_at().since(sent_at);
        let renewal = core.limited_in_lease(left, || claim.renew(sent_at));
        let asked_back = async {
            held.asked_back().await;
            Err(Error::new(ErrorKind::Other, "the lock is being released"))
        };
        match future::or(renewal, asked_back).await {
            Ok(Standing::Held(lease)) => match held.renewed(claim, lease, sent_at) {
                None => return,
                Some(asked_back) => claim = asked_back,
            },
            Ok(Standing::Lost(why)) => held.lose(&Loss::TakenAway(why)),
            // What the claim had may be half undone: nobody may rely on it any more.
            Err(error) if error.is_panic() => {
                claim = as_after(&error, claim);
                held.lose(&Loss::TakenAway(error.to_string()));
            }
            Err(_) if !held.wants_renewal(core.clock.now()) => {}
            Err(error) => {
                let pause = backoff.pause_in_trouble();
                core.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
                let rest = core.alarms.wait_until(core.clock.now() + pause);
                future::or(rest, held.asked_back()).await;
            }
        }
    }
    if !held.holds_at(core.clock.now()) {
        // The clock's thread tells that too, but not of a claim that is given back.
        held.lose(&Loss::Expired);
    }
    held.renewal_ended(give_back(line, claim, held.ttl).await);
}

/// The answer of a call that needs nobody to wait for.
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
