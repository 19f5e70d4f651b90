//! Waiting for the response to a call.

use std::{
    mem,
    ops::Deref,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use super::resp::Value;
use crate::{
    engine::error::{Error, Result},
    tools::sync::{keep_waker, locked, wake},
};

/// The replies to one call. Most calls have one or two, which need no allocation.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    few: [Value; 2],
    n_few: usize,
    /// All replies, once there are more than fit into `few`.
    many: Vec<Value>,
}

impl Replies {
    fn push(&mut self, reply: Value) {
        if let Some(place) = self.few.get_mut(self.n_few) {
            *place = reply;
            self.n_few += 1;
            return;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter_mut().map(mem::take));
        }
        self.many.push(reply);
    }

    fn clear(&mut self) {
        self.n_few = 0;
        self.many.clear();
    }

    pub(crate) fn into_vec(mut self) -> Vec<Value> {
        if self.many.is_empty() {
            self.many.extend(self.few.into_iter().take(self.n_few));
        }
        self.many
    }
}

impl Deref for Replies {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        if self.many.is_empty() { &self.few[..self.n_few] } else { &self.many }
    }
}

/// Where the response to a call is put: shared by the caller and the task that reads the connection.
#[derive(Debug)]
pub(crate) struct Answer(Mutex<State>);

#[derive(Debug)]
struct State {
    replies: Replies,
    n_missing: u8,
    /// Why there will be no answer.
    failure: Option<Error>,
    waker: Option<Waker>,
}

/// Whether all replies of an answer have come.
#[derive(Debug)]
pub(crate) enum Added {
    MoreToCome,
    /// All have come. The waker is to be woken once no mutex is held.
    Whole(Option<Waker>),
}

impl Answer {
    /// An answer that is complete with this many replies.
    pub(crate) fn of(n_replies: u8) -> Self {
        Self(Mutex::new(State {
            replies: Replies::default(),
            n_missing: n_replies,
            failure: None,
            waker: None,
        }))
    }

    /// Reuses the answer of an earlier call, or makes a new one if the earlier response may still arrive.
    pub(crate) fn kept(kept: &mut Option<Arc<Self>>, n_replies: u8) -> &Arc<Self> {
        if let Some(answer) = kept.as_mut().and_then(Arc::get_mut) {
            let state = answer.0.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.replies.clear();
            state.n_missing = n_replies;
            state.failure = None;
        } else {
            *kept = None;
        }
        kept.get_or_insert_with(|| Arc::new(Self::of(n_replies)))
    }

    pub(crate) fn add(&self, reply: Value) -> Added {
        let mut state = locked(&self.0);
        state.replies.push(reply);
        state.n_missing -= 1;
        if state.n_missing > 0 { Added::MoreToCome } else { Added::Whole(state.waker.take()) }
    }

    /// Adds the last missing reply, and wakes the caller.
    pub(crate) fn settle(&self, reply: Value) {
        if let Added::Whole(Some(waker)) = self.add(reply) {
            wake(waker);
        }
    }

    /// Reads the replies in place, once all have come.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        read: impl FnOnce(&mut Replies) -> T,
    ) -> Poll<Result<T>> {
        let mut state = locked(&self.0);
        if state.n_missing == 0 {
            return Poll::Ready(Ok(read(&mut state.replies)));
        }
        if let Some(why) = state.failure.take() {
            return Poll::Ready(Err(why));
        }
        keep_waker(state, |state| &mut state.waker, context.waker());
        Poll::Pending
    }

    pub(crate) fn fail(&self, why: Error) {
        let mut state = locked(&self.0);
        state.failure = Some(why);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(wake);
    }
}

/// A future for the replies. A caller may drop it at any time: the response is then discarded when it comes.
#[derive(Debug)]
pub(crate) struct Reply(pub(crate) Arc<Answer>);

impl Future for Reply {
    type Output = Result<Replies>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context, mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::block_on::block_on;

    #[test]
    fn an_answer_has_all_its_replies_in_order() {
        for n_replies in 1..5_u8 {
            let answer = Arc::new(Answer::of(n_replies));
            for i in 1..=n_replies {
                let added = answer.add(Value::Int(i.into()));
                assert_eq!(matches!(added, Added::Whole(_)), i == n_replies);
            }
            let expected: Vec<_> = (1..=n_replies).map(|i| Value::Int(i.into())).collect();
            let replies = block_on(Reply(answer)).unwrap();
            assert_eq!(replies[..], expected);
            assert_eq!(replies.into_vec(), expected);
        }
    }
}
