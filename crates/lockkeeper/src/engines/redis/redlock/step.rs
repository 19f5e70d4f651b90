//! What one server is asked: nearly always one reply to wait for, seldom more.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::super::reply::{Replies, Reply};
use crate::error::Result;

/// A question to one server. Where one reply is the answer, it needs no future of its own.
pub(super) enum Step<'a, T> {
    Short(Reply, Option<Read<'a, T>>),
    Long(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
    Done(Result<T>),
    Over,
}

/// What to make of the reply.
type Read<'a, T> = Box<dyn FnOnce(Result<Replies>) -> Step<'a, T> + Send + 'a>;

impl<'a, T> Step<'a, T> {
    pub(super) fn short(
        reply: Reply,
        read: impl FnOnce(Result<Replies>) -> Self + Send + 'a,
    ) -> Self {
        Self::Short(reply, Some(Box::new(read)))
    }
}

impl<T: Unpin> Future for Step<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut *self {
                Self::Short(reply, read) => {
                    let answer = ready!(Pin::new(reply).poll(context));
                    let next = read.take().map_or(Self::Over, |read| read(answer));
                    *self = next;
                }
                Self::Long(rest) => return rest.as_mut().poll(context),
                Self::Done(_) => {
                    if let Self::Done(answer) = std::mem::replace(&mut *self, Self::Over) {
                        return Poll::Ready(answer);
                    }
                }
                Self::Over => return Poll::Pending,
            }
        }
    }
}
