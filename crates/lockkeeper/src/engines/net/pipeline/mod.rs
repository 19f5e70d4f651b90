//! One connection of a request and response protocol, shared by all callers of one runtime.
//!
//! Requests are written in the order in which they come, and the server answers in that order. A caller
//! may stop waiting at any moment: its answer is read all the same, so no later answer is taken for it.
//! Where an answer that nobody reads needs another request, the call says which (see [`Abandoned`]).
//! There are no timers here: how long to wait is the caller's decision.

mod answer;
mod driver;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use tokio::{net::tcp::OwnedWriteHalf, runtime::Handle};

pub(crate) use self::answer::Reply;
use self::answer::{Answer, Unread};
use super::{driving::Driven, per_runtime::Link, stream::Stream};
use crate::{
    engine::{
        Moment,
        error::{Error, ErrorKind, Result},
    },
    tools::sync::{keep_waker, locked, wake},
};

/// After this long without an answer, a connection gets no new calls: another one is opened.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How the responses of a server are read.
pub(crate) trait Protocol: Send + Sync + 'static {
    type Response: fmt::Debug + Send + 'static;

    /// The response at the start of the bytes and its length; `None` if it is not whole yet.
    ///
    /// # Errors
    /// If no response begins like this: the connection is out of step, and is closed.
    fn read(bytes: &[u8]) -> Result<Option<(Self::Response, usize)>>;

    /// Whether nobody can know what comes behind this response: the connection is closed.
    fn is_last(response: &Self::Response) -> bool;
}

/// Makes the request that is to be sent if the response comes when nobody waits for it any more: it
/// takes back what the caller never knew it had.
pub(crate) type Abandoned<R> = Box<dyn FnOnce(&R) -> Option<Vec<u8>> + Send>;

pub(crate) struct Pipeline<P: Protocol>(Mutex<PipelineState<P>>);

struct PipelineState<P: Protocol> {
    stage: Stage,
    /// Bytes that are not written yet.
    out: Vec<u8>,
    /// The calls without a response, in the order of their requests.
    pending: VecDeque<Pending<P::Response>>,
    driver: Option<Waker>,
    /// For callers that write by themselves.
    wire: Option<Arc<OwnedWriteHalf>>,
}

#[derive(Debug)]
enum Stage {
    /// Calls are taken. Until the connection stands, they wait in `out`.
    Open,
    /// No new calls; those that were sent are still to be answered.
    Retired,
    Ended(Error),
}

struct Pending<R> {
    sent_at: Moment,
    /// `None` for a request whose response nobody needs.
    answer: Option<Arc<Answer<R>>>,
}

impl<P: Protocol> Pipeline<P> {
    /// A connection that nobody drives yet.
    fn new() -> Self {
        Self(Mutex::new(PipelineState {
            stage: Stage::Open,
            out: Vec::new(),
            pending: VecDeque::new(),
            driver: None,
            wire: None,
        }))
    }

    /// Opens a connection; calls may be sent at once. `connect` runs on the runtime.
    pub(crate) fn open(
        runtime: &Handle,
        connect: impl Future<Output = Result<Stream>> + Send + 'static,
    ) -> Arc<Self> {
        let pipeline = Arc::new(Self::new());
        let driven = Arc::clone(&pipeline);
        runtime.spawn(async move { driver::drive(&driven, connect).await });
        pipeline
    }

    /// Sends a request; the future has the response.
    pub(crate) fn call(self: &Arc<Self>, request: &[u8], now: Moment) -> Reply<P> {
        self.call_or_undo(request, now, None)
    }

    /// As [`call`](Self::call), with what is to be sent if the caller stops waiting.
    pub(crate) fn call_or_undo(
        self: &Arc<Self>,
        request: &[u8],
        now: Moment,
        abandoned: Option<Abandoned<P::Response>>,
    ) -> Reply<P> {
        let answer = Arc::new(Answer::new(abandoned));
        self.push(request, Pending { sent_at: now, answer: Some(Arc::clone(&answer)) });
        Reply::new(Arc::clone(self), answer, now)
    }

    fn push(&self, request: &[u8], pending: Pending<P::Response>) {
        let mut state = locked(&self.0);
        if let Stage::Ended(why) = &state.stage {
            let why = why.echo();
            drop(state);
            pending.fail(why);
            return;
        }
        let is_quiet = state.pending.is_empty() && state.out.is_empty();
        state.out.extend_from_slice(request);
        state.pending.push_back(pending);
        // With others under way, the driver writes for all of them at once.
        if is_quiet && let Some(wire) = state.wire.clone() {
            // An error will meet the driver too, which tells everyone.
            let n_written = wire.try_write(&state.out).unwrap_or(0);
            state.out.drain(..n_written);
        }
        let driver = if state.out.is_empty() { None } else { state.driver.take() };
        drop(state);
        driver.into_iter().for_each(wake);
    }

    /// Gives a response to the call it belongs to; adds who is to be woken.
    fn take(&self, response: P::Response, wakers: &mut Vec<Waker>) -> Result<()> {
        let mut state = locked(&self.0);
        let Some(oldest) = state.pending.pop_front() else {
            let message = "the server sent a response that nobody asked for";
            return Err(Error::new(ErrorKind::Unreachable, message));
        };
        let is_last = P::is_last(&response);
        let followed = match oldest.answer.map(|answer| answer.give(response)) {
            None => None,
            Some(Unread::Kept(waker)) => {
                wakers.extend(waker);
                None
            }
            Some(Unread::Abandoned(request)) => request,
        };
        if is_last {
            let message = "the server answered with an error, and what follows cannot be trusted";
            return Err(Error::new(ErrorKind::Unreachable, message));
        }
        if let Some(request) = followed {
            state.out.extend_from_slice(&request);
            state.pending.push_back(Pending { sent_at: oldest.sent_at, answer: None });
        }
        Ok(())
    }

    /// What the driver has to do next. If that is nothing, its waker is kept.
    fn work(&self, driver: &Waker) -> Work {
        let state = locked(&self.0);
        let is_idle = state.pending.is_empty() && state.out.is_empty();
        match state.stage {
            Stage::Ended(_) => return Work::Done,
            Stage::Retired if is_idle => return Work::Done,
            _ if !state.out.is_empty() => return Work::Write,
            _ => {}
        }
        keep_waker(state, |state| &mut state.driver, driver);
        Work::Nothing
    }
}

/// What the driver of a connection has to do.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    Nothing,
    Write,
    /// Nothing is under way, and nothing will be.
    Done,
}

impl<R> Pending<R> {
    fn fail(self, why: Error) {
        if let Some(answer) = self.answer {
            answer.fail(why).into_iter().for_each(wake);
        }
    }
}

impl<P: Protocol> Driven for Pipeline<P> {
    fn is_unwanted(&self, driver: &Waker) -> bool {
        let state = locked(&self.0);
        let is_unwanted = !matches!(state.stage, Stage::Open);
        keep_waker(state, |state| &mut state.driver, driver);
        is_unwanted
    }

    fn opened(&self, wire: Option<Arc<OwnedWriteHalf>>) {
        locked(&self.0).wire = wire;
    }

    fn end(&self, why: &Error) {
        let mut state = locked(&self.0);
        if let Stage::Ended(_) = state.stage {
            return;
        }
        state.stage = Stage::Ended(why.echo());
        let (pending, wire) = (std::mem::take(&mut state.pending), state.wire.take());
        state.out.clear();
        drop(state);
        drop(wire);
        pending.into_iter().for_each(|pending| pending.fail(why.echo()));
    }
}

impl<P: Protocol> Link for Pipeline<P> {
    fn is_fit(&self, now: Moment) -> bool {
        let state = locked(&self.0);
        let oldest = state.pending.front().map(|oldest| now.since(oldest.sent_at));
        matches!(state.stage, Stage::Open) && oldest.is_none_or(|age| age < STALLED_AFTER)
    }

    fn has_ended(&self) -> bool {
        matches!(locked(&self.0).stage, Stage::Ended(_))
    }

    fn retire(&self) {
        let mut state = locked(&self.0);
        if let Stage::Open = state.stage {
            state.stage = Stage::Retired;
        }
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(wake);
    }
}

impl<P: Protocol> fmt::Debug for Pipeline<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = locked(&self.0);
        write!(f, "Pipeline({:?}, {} pending)", state.stage, state.pending.len())
    }
}

#[cfg(test)]
mod tests;
