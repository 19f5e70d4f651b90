//! The wait for an answer.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::resp::Value;
use crate::{error::Result, sync::locked};

/// The replies to one call, or why there are none.
pub(super) type Replies = Result<Vec<Value>>;

/// Where an answer is put, shared by who asks and who reads.
#[derive(Debug, Default)]
pub(super) struct Answer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    replies: Option<Replies>,
    waker: Option<Waker>,
}

impl Answer {
    pub(super) fn put(&self, replies: Replies) {
        let mut state = locked(&self.0);
        state.replies = Some(replies);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The wait for an answer. Who stops waiting leaves nothing behind: the answer is dropped when it comes.
#[derive(Debug)]
pub(super) struct Reply(pub(super) Arc<Answer>);

impl Future for Reply {
    type Output = Replies;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Replies> {
        let mut state = locked(&self.0.0);
        if let Some(replies) = state.replies.take() {
            return Poll::Ready(replies);
        }
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            let before = state.waker.replace(context.waker().clone());
            drop(state);
            drop(before);
        }
        Poll::Pending
    }
}
