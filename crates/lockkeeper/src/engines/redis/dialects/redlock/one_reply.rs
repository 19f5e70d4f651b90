//! What one server is asked: nearly always one reply to wait for, seldom more.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use crate::{
    engine::error::Result,
    engines::redis::wire::reply::{Answer, Replies},
};

/// A question to one server. Where one reply is the answer, it needs no future of its own.
pub(super) enum OneReply<R: Read> {
    Short(Arc<Answer>, Option<R>),
    Long(R::Long),
    Done(Result<R::Output>),
    Over,
}

/// Knows what to make of the reply.
pub(super) trait Read: Sized + Unpin {
    type Output: Unpin;
    /// What goes on when one reply was not all.
    type Long: Future<Output = Result<Self::Output>> + Unpin;

    fn read(self, answer: Result<Replies>) -> OneReply<Self>;
}

/// What is seldom needed, in a room of its own.
pub(super) type Long<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

pub(super) fn long<'a, T>(rest: impl Future<Output = Result<T>> + Send + 'a) -> Long<'a, T> {
    Box::pin(rest)
}

impl<R: Read> Future for OneReply<R> {
    type Output = Result<R::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut *self {
                Self::Short(answer, read) => {
                    let answer = ready!(answer.poll(context, mem::take));
                    let next = read.take().map_or(Self::Over, |read| read.read(answer));
                    *self = next;
                }
                Self::Long(rest) => return Pin::new(rest).poll(context),
                Self::Done(_) => {
                    if let Self::Done(answer) = mem::replace(&mut *self, Self::Over) {
                        return Poll::Ready(answer);
                    }
                }
                Self::Over => return Poll::Pending,
            }
        }
    }
}
