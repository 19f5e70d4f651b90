//! The errands of the steward: to ask, to wait, to renew, to give back. Every one of them owns its
//! claim and runs to its end.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_lite::future;

use crate::{
    clock::Moment,
    engine::{Answers, Attempt, Claim, Patience, Standing, Wake},
    error::{Call, Error, ErrorKind, Result},
    event::Event,
    guard::Loss,
    held::{Held, Taken},
    line::{Line, Unwanted},
    seat::{Answer, Seat},
    steward::Errand,
};

/// The longest pause before a waiting claim is asked about again, when the engine tells of changes
/// and when it does not.
const PAUSE_WHEN_TOLD: Duration = Duration::from_secs(10);
const PAUSE_WHEN_ASKED: Duration = Duration::from_millis(200);
/// The longest pause between two tries of an engine that does not answer.
const PAUSE_IN_TROUBLE: Duration = Duration::from_secs(1);
/// The first pause of a row; they double from there.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Asks for whoever has just opened the line. What cannot be answered at once is left as an errand.
pub(crate) fn ask_at_once(line: &Line) -> Option<Errand> {
    if line.house.profile.answers == Answers::Later {
        return Some(asking(line));
    }
    let first = line.first_or_idle()?;
    let (mut claim, sent_at) = claim_for(line, &first);
    let answer = match at_once(claim.attempt(sent_at)) {
        Some(Ok(Attempt::Granted(grant))) => {
            match line.granted(claim, &grant, sent_at, first.wish.terms.clone()) {
                Ok(()) => return None,
                Err(unwanted) => Err(unwanted),
            }
        }
        Some(answer) => Ok((claim, answer)),
        // It broke its promise; the claim frees what it may have taken.
        None => return Some(asking(line)),
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
    while let Some(first) = line.first_or_idle() {
        let (mut claim, sent_at) = claim_for(&line, &first);
        let next = match claim.attempt(sent_at).await {
            Ok(Attempt::Granted(grant)) => {
                match line.granted(claim, &grant, sent_at, first.wish.terms.clone()) {
                    Ok(()) => return,
                    Err(unwanted) => decline(&line, &first, unwanted).await,
                }
            }
            answer => turned_away(&line, &first, claim, answer).await,
        };
        if let Next::Nothing = next {
            return;
        }
    }
}

fn claim_for(line: &Line, first: &Seat) -> (Box<dyn Claim>, Moment) {
    let house = &line.house;
    (house.engine.claim(house.request(line.key(), &first.wish)), house.clock.now())
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
            // From here on it may take long: no caller's task should have it in hands.
            let errand = waiting(line.clone(), Arc::clone(first), claim, retry_in(answer));
            line.house.steward.adopt(errand);
            Next::Nothing
        }
        Patience::Tries => {
            give_back_soon(line, claim).await;
            let answer = match answer {
                Ok(_) => Answer::Busy,
                Err(error) => Answer::Failed(line.house.error_at(error, line.key(), Call::Acquire)),
            };
            line.answer_first(first, answer);
            Next::Ask
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
            let again_at = house.clock.now() + pause;
            future::or(claim.changed(), house.alarms.wait_until(again_at)).await;
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
        answer = match claim.attempt(sent_at).await {
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
fn asking(line: &Line) -> Errand {
    Box::pin(ask(line.clone()))
}

fn waiting(
    line: Line,
    first: Arc<Seat>,
    claim: Box<dyn Claim>,
    answer: Result<Option<Duration>>,
) -> Errand {
    Box::pin(wait(line, first, claim, answer))
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

/// How the waiting goes: how long the last pause was, and since when there is trouble.
#[derive(Default)]
struct Mood {
    pause: Duration,
    troubled_since: Option<Moment>,
}

impl Mood {
    /// How long to pause after this answer; `None` when there is no sense in asking again, which
    /// everyone in line is then told.
    fn pause_after(&mut self, answer: Result<Option<Duration>>, line: &Line) -> Option<Duration> {
        let house = &line.house;
        match answer {
            Ok(retry_in) => {
                self.troubled_since = None;
                line.set_trouble(None);
                let longest = match house.profile.wake {
                    Wake::Told => PAUSE_WHEN_TOLD,
                    Wake::Asked => self.longer_pause(PAUSE_WHEN_ASKED),
                };
                Some(retry_in.map_or(longest, |retry_in| retry_in.min(longest)))
            }
            Err(error) => {
                let error = house.error_at(error, line.key(), Call::Acquire);
                let now = house.clock.now();
                let since = *self.troubled_since.get_or_insert(now);
                if !error.may_pass() || now.since(since) >= line.first_ttl() {
                    line.fail(&error);
                    return None;
                }
                let pause = self.longer_pause(PAUSE_IN_TROUBLE);
                house.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
                line.set_trouble(Some(error));
                Some(pause)
            }
        }
    }

    /// Twice the last pause, up to `longest`, less a random part, so that many who wait do not
    /// ask in step.
    fn longer_pause(&mut self, longest: Duration) -> Duration {
        self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, longest);
        self.pause.mul_f64(1.0 - 0.5 * fastrand::f64())
    }
}

/// A grant came that cannot be used: gives it back and says why where somebody wants to know.
async fn decline(line: &Line, first: &Arc<Seat>, unwanted: Unwanted) -> Next {
    give_back_soon(line, unwanted.claim).await;
    match unwanted.error {
        None => {}
        Some(error) if first.wish.patience == Patience::Tries => {
            line.answer_first(first, Answer::Failed(error));
        }
        Some(error) if error.may_pass() => line.set_trouble(Some(error)),
        Some(error) => line.fail(&error),
    }
    Next::Ask
}

/// Renews a hold; goes on trying while it still holds and nobody wants to release it.
pub(crate) async fn renew(held: Arc<Held>, mut claim: Box<dyn Claim>) {
    let line = &held.line;
    let house = &line.house;
    let mut mood = Mood::default();
    while held.wants_renewal(house.clock.now()) {
        let sent_at = house.clock.now();
        match claim.renew(sent_at).await {
            Ok(Standing::Held(lease)) => match held.renewed(claim, lease, sent_at) {
                None => return,
                Some(asked_back) => claim = asked_back,
            },
            Ok(Standing::Lost(why)) => held.lose(Loss::TakenAway(why)),
            Err(error) => {
                let pause = mood.longer_pause(PAUSE_IN_TROUBLE);
                house.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
                let rest = house.alarms.wait_until(house.clock.now() + pause);
                future::or(rest, held.asked_back()).await;
            }
        }
    }
    give_back_soon(line, claim).await;
    held.renewal_ended();
}

/// Ends a hold whose guard was dropped: at once if the engine can, else as an errand.
pub(crate) fn release_soon(held: Arc<Held>) {
    let line = held.line.clone();
    if line.house.profile.answers == Answers::AtOnce
        && let Taken::Claim(mut claim) = held.take()
    {
        if !matches!(at_once(claim.release()), Some(Ok(()))) {
            line.house.steward.adopt(give_back_at_last(line.clone(), claim));
        }
        if released(&line) {
            line.house.steward.start(asking(&line));
        }
        return;
    }
    line.house.steward.start(Box::pin(async move {
        // Nobody waits for the answer; trouble is told to observers.
        let _ = release(held).await;
    }));
}

/// Ends a hold at the engine, then asks again if somebody joined the line meanwhile.
pub(crate) async fn release(held: Arc<Held>) -> Result<()> {
    let line = &held.line;
    let answer = match held.take() {
        Taken::Claim(claim) => give_back(line, claim).await,
        Taken::ByRenewal => {
            held.released().await;
            Ok(())
        }
        Taken::Gone => Ok(()),
    };
    if released(line) {
        asking(line).await;
    }
    answer
}

/// The claim is out of our hands. Answers whether somebody wants the next one.
fn released(line: &Line) -> bool {
    line.house.observers.tell(&Event::Released { key: line.key() });
    line.first_or_idle().is_some()
}

/// Gives a claim back; if the engine does not answer, it is asked again in the background.
async fn give_back(line: &Line, mut claim: Box<dyn Claim>) -> Result<()> {
    let Err(error) = claim.release().await else { return Ok(()) };
    line.house.steward.adopt(give_back_at_last(line.clone(), claim));
    Err(line.house.error_at(error, line.key(), Call::Release))
}

/// The same for a claim whose owner wants no answer: trouble is told to observers by the errand
/// that goes on.
async fn give_back_soon(line: &Line, claim: Box<dyn Claim>) {
    let _ = give_back(line, claim).await;
}

/// Goes on giving a claim back until the engine confirms it or the longest lease is over, when it
/// has ended by itself.
pub(crate) async fn give_back_at_last(line: Line, mut claim: Box<dyn Claim>) {
    let house = &line.house;
    let give_up_at = house.clock.now() + crate::lock::LONGEST_TTL;
    let mut mood = Mood::default();
    while let Err(error) = claim.release().await {
        let now = house.clock.now();
        if now >= give_up_at || !error.may_pass() {
            return;
        }
        let pause = mood.longer_pause(PAUSE_IN_TROUBLE);
        house.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
        house.alarms.wait_until(now + pause).await;
    }
}

/// The answer of a call that needs nobody to wait for.
fn at_once<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

impl Error {
    /// Whether asking again later may help.
    fn may_pass(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unreachable | ErrorKind::NoQuorum)
    }
}
