//! The quick way of a claim: what the core makes of [`Quick`].

use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    engine::{Attempt, Claim, Moment, Quick, Released, error::Result},
    time::clock::Clock,
    tools::caught::{calling, polling},
};

/// The answer to a call that has a quick way.
pub(crate) trait Answer: Sized {
    fn send(quick: &mut dyn Quick, now: Moment) -> bool;

    fn poll(quick: &mut dyn Quick, context: &mut Context<'_>) -> Poll<Result<Option<Self>>>;
}

impl Answer for Attempt {
    fn send(quick: &mut dyn Quick, now: Moment) -> bool {
        quick.send_attempt(now)
    }

    fn poll(quick: &mut dyn Quick, context: &mut Context<'_>) -> Poll<Result<Option<Self>>> {
        quick.poll_attempt(context)
    }
}

impl Answer for Released {
    fn send(quick: &mut dyn Quick, now: Moment) -> bool {
        quick.send_release(now)
    }

    fn poll(quick: &mut dyn Quick, context: &mut Context<'_>) -> Poll<Result<Option<Self>>> {
        quick.poll_release(context)
    }
}

/// Makes a call the quick way, if there is one right now. A call that panics is made at length, and told
/// there if it panics again.
pub(crate) fn send<A: Answer>(claim: &mut dyn Claim, now: Moment) -> bool {
    let sent = calling(|| claim.quick().is_some_and(|quick| A::send(quick, now)));
    sent.unwrap_or(false)
}

/// The same now; answers when that was. The clock is only read if there is a quick way.
pub(crate) fn send_now<A: Answer>(claim: &mut dyn Claim, clock: &Clock) -> Option<Moment> {
    let sent = calling(|| {
        let quick = claim.quick()?;
        let now = clock.now();
        A::send(quick, now).then_some(now)
    });
    sent.unwrap_or(None)
}

/// The answer to a call that was [sent](send) the quick way; `None` if the call must be made at length.
pub(crate) fn answer<A: Answer>(claim: &mut dyn Claim) -> QuickAnswer<'_, A> {
    QuickAnswer { claim, kind: PhantomData }
}

pub(crate) struct QuickAnswer<'a, A> {
    claim: &'a mut dyn Claim,
    kind: PhantomData<fn() -> A>,
}

impl<A: Answer> Future for QuickAnswer<'_, A> {
    type Output = Result<Option<A>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        polling(|| match self.claim.quick() {
            Some(quick) => A::poll(quick, context),
            None => Poll::Ready(Ok(None)),
        })
    }
}
