//! The wait for one response, which may be given up.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::{Abandoned, Pending, Pipeline, Protocol};
use crate::{
    engine::{
        Moment,
        error::{Error, Result},
    },
    tools::{
        fork::Origin,
        sync::{keep_waker, locked},
    },
};

/// Where a response is put, shared by the caller and the driver.
pub(super) struct Answer<R>(Mutex<AnswerState<R>>);

struct AnswerState<R> {
    response: Option<Result<R>>,
    waker: Option<Waker>,
    is_abandoned: bool,
    abandoned: Option<Abandoned<R>>,
}

/// What became of a response.
pub(super) enum Unread {
    /// It is kept for the caller, who is to be woken once no mutex is held.
    Kept(Option<Waker>),
    /// Nobody waits for it any more; this request is to follow.
    Abandoned(Option<Vec<u8>>),
}

impl<R> Answer<R> {
    pub(super) fn new(abandoned: Option<Abandoned<R>>) -> Self {
        Self(Mutex::new(AnswerState {
            response: None,
            waker: None,
            is_abandoned: false,
            abandoned,
        }))
    }

    pub(super) fn give(&self, response: R) -> Unread {
        let mut state = locked(&self.0);
        if state.is_abandoned {
            let undo = state.abandoned.take();
            return Unread::Abandoned(undo.and_then(|undo| undo(&response)));
        }
        state.response = Some(Ok(response));
        Unread::Kept(state.waker.take())
    }

    pub(super) fn fail(&self, why: Error) -> Option<Waker> {
        let mut state = locked(&self.0);
        state.response.get_or_insert(Err(why));
        state.waker.take()
    }

    /// Nobody will read the response: the request that is to follow, if it has come already.
    fn abandon(&self) -> Option<Vec<u8>> {
        let mut state = locked(&self.0);
        state.is_abandoned = true;
        // The response may have come just now, unread.
        let Some(Ok(response)) = state.response.take() else { return None };
        state.abandoned.take().and_then(|undo| undo(&response))
    }
}

/// The wait for a response. Whoever stops waiting simply drops it.
pub(crate) struct Reply<P: Protocol> {
    pipeline: Arc<Pipeline<P>>,
    answer: Arc<Answer<P::Response>>,
    sent_at: Moment,
    is_over: bool,
    origin: Origin,
}

impl<P: Protocol> Reply<P> {
    pub(super) fn new(
        pipeline: Arc<Pipeline<P>>,
        answer: Arc<Answer<P::Response>>,
        sent_at: Moment,
    ) -> Self {
        Self { pipeline, answer, sent_at, is_over: false, origin: Origin::here() }
    }
}

impl<P: Protocol> Future for Reply<P> {
    type Output = Result<P::Response>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Arc::clone(&self.answer);
        let mut state = locked(&answer.0);
        if let Some(response) = state.response.take() {
            self.is_over = true;
            return Poll::Ready(response);
        }
        keep_waker(state, |state| &mut state.waker, context.waker());
        Poll::Pending
    }
}

impl<P: Protocol> Drop for Reply<P> {
    fn drop(&mut self) {
        // In a forked child, the connection and its mutexes are the parent's.
        if self.is_over || !self.origin.is_here() {
            return;
        }
        if let Some(request) = self.answer.abandon() {
            self.pipeline.push(&request, Pending { sent_at: self.sent_at, answer: None });
        }
    }
}
