//! The errands of the steward: to ask, to wait, to renew. Every one of them owns its claim and runs to
//! its end.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_lite::future;

use crate::{
    at_hand::AtHand,
    book,
    clock::Moment,
    engine::{Answers, Attempt, Claim, Patience, Standing},
    error::{Call, Error, ErrorKind, Result},
    event::Event,
    give_back::{give_back, give_back_soon, giving_back},
    guard::Loss,
    held::Held,
    line::{Line, Spare, Unwanted, Word},
    mood::Mood,
    seat::{Answer, Seat},
    steward::Errand,
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
            match line.granted(claim, &grant, sent_at, first.wish.terms.clone()) {
                Ok(()) => return None,
                Err(unwanted) => Err(unwanted),
            }
        }
        answer if first.wish.patience == Patience::Waits => {
            return begin_to_wait(line, first, claim, answer);
        }
        answer => Ok((claim, answer)),
    };
    let line = line.clone();
    Some(Box::pin(async move {
        let next = match answer {
            Err(unwanted) => decline(&line, &first, unwanted).await,
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
        let (claim, sent_at) = claim_for(&line, &first, spare);
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
    match line.limited(sent_at, claim.attempt(sent_at)).await {
        Ok(Attempt::Granted(grant)) => {
            match line.granted(claim, &grant, sent_at, first.wish.terms.clone()) {
                Ok(()) => Next::Nothing,
                Err(unwanted) => decline(line, first, unwanted).await,
            }
        }
        answer => turned_away(line, first, claim, answer).await,
    }
}

pub(crate) fn claim_for(line: &Line, first: &Seat, spare: Spare) -> (Box<dyn Claim>, Moment) {
    let house = &line.house;
    let request = house.request(line.key(), &first.wish);
    let claim = match spare {
        None => house.engine.claim(request),
        Some(mut spare) => match spare.begin_again(request) {
            Ok(()) => spare,
            Err(request) => house.engine.claim(request),
        },
    };
    (claim, house.clock.now())
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
    match first.wish.patience {
        Patience::Waits => {
            if let Some(wait) = begin_to_wait(line, Arc::clone(first), claim, answer) {
                wait.await;
            }
            Next::Nothing
        }
        Patience::Tries => {
            let answer = match answer {
                Ok(_) => {
                    // It has not entered the queue, so only an engine that needs no network is
                    // told that it goes.
                    if line.house.profile.answers == Answers::AtOnce {
                        give_back_soon(line, claim).await;
                    }
                    Answer::Busy
                }
                Err(error) => {
                    // The engine may have granted it all the same; nobody should wait for that.
                    line.house.steward.start(Box::pin(giving_back(line.clone(), claim)));
                    Answer::Failed(line.house.error_at(error, line.key(), Call::Acquire))
                }
            };
            line.answer_first(first, answer);
            Next::Ask
        }
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
    match line.house.profile.answers {
        Answers::AtOnce => {
            line.house.steward.adopt(wait);
            None
        }
        Answers::Later => {
            let at_hand = AtHand::new(wait);
            line.keep_at_hand(&at_hand);
            Some(Box::pin(async move { at_hand.drive(&line.house.steward).await }))
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
    let (house, wish) = (&line.house, &first.wish);
    let mut mood = Mood::default();
    house.observers.tell(&Event::Waiting { key: line.key() });
    while let Some(pause) = mood.pause_after(answer, &line) {
        let rest = async {
            // A little early is no harm: an engine may be asked at any time.
            let pause = house.alarms.rest(book::rounded_down(pause));
            future::or(claim.changed(), pause).await;
            Rest::Over
        };
        let deserted = async {
            line.deserted().await;
            Rest::Deserted
        };
        if let Rest::Deserted = future::or(deserted, rest).await {
            break;
        }
        let sent_at = house.clock.now();
        answer = match attempt(&line, &mut *claim, sent_at).await {
            Ok(Attempt::Granted(grant)) => {
                match line.granted(claim, &grant, sent_at, wish.terms.clone()) {
                    Ok(()) => return,
                    Err(unwanted) => {
                        decline(&line, &first, unwanted).await;
                        return asking(&line).await;
                    }
                }
            }
            other => retry_in(other),
        };
    }
    give_back_soon(&line, claim).await;
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
    if claim.send_attempt(sent_at) {
        let answer = poll_fn(|context| claim.poll_attempt(context));
        if let Some(attempt) = line.limited(sent_at, answer).await? {
            return Ok(attempt);
        }
    }
    line.limited(sent_at, claim.attempt(sent_at)).await
}

enum Rest {
    Over,
    Deserted,
}

/// What an attempt that was not granted says about the next one.
fn retry_in(answer: Result<Attempt>) -> Result<Option<Duration>> {
    match answer? {
        Attempt::Busy { retry_in } => Ok(retry_in),
        Attempt::Granted(_) => Ok(None),
    }
}

/// A grant came that cannot be used: gives it back and says why where somebody wants to know.
async fn decline(line: &Line, first: &Arc<Seat>, unwanted: Unwanted) -> Next {
    match unwanted.error {
        None => {}
        Some(error) if first.wish.patience == Patience::Tries => {
            line.answer_first(first, Answer::Failed(error));
        }
        Some(error) if error.may_pass() => line.note(Word::Trouble(error)),
        Some(error) => line.fail(&error),
    }
    give_back_soon(line, unwanted.claim).await;
    Next::Ask
}

/// Renews a hold; goes on trying while it still holds and nobody wants to release it.
pub(crate) async fn renew(held: Arc<Held>, mut claim: Box<dyn Claim>) {
    let line = &held.line;
    let house = &line.house;
    let mut mood = Mood::default();
    while held.wants_renewal(house.clock.now()) {
        let sent_at = house.clock.now();
        let left = held.ends_at().since(sent_at);
        let renewal = house.limited_in_lease(left, claim.renew(sent_at));
        let asked_back = async {
            held.asked_back().await;
            Err(Error::new(ErrorKind::Other, "the lock is being released"))
        };
        match future::or(renewal, asked_back).await {
            Ok(Standing::Held(lease)) => match held.renewed(claim, lease, sent_at) {
                None => return,
                Some(asked_back) => claim = asked_back,
            },
            Ok(Standing::Lost(why)) => held.lose(Loss::TakenAway(why)),
            Err(_) if !held.wants_renewal(house.clock.now()) => {}
            Err(error) => {
                let pause = mood.pause_in_trouble();
                house.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
                let rest = house.alarms.wait_until(house.clock.now() + pause);
                future::or(rest, held.asked_back()).await;
            }
        }
    }
    held.renewal_ended(give_back(line, claim).await);
}

/// The answer of a call that needs nobody to wait for.
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
