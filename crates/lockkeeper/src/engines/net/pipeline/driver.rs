//! The task that moves the bytes of one connection.

use std::task::{Context, Poll, Waker};

use super::{Pipeline, Protocol, Work};
use crate::{
    engine::error::Result,
    engines::net::{
        driving::{self, Inbox, broke},
        stream::Stream,
    },
    tools::sync::{locked, wake},
};

/// Connects, and moves bytes until the end of the connection, of which everyone who waits is told.
pub(super) async fn drive<P: Protocol>(
    pipeline: &Pipeline<P>,
    connect: impl Future<Output = Result<Stream>>,
) {
    let start = |stream| {
        let mut driver = Driver { pipeline, stream, inbox: Inbox::with_room(4096) };
        move |context: &mut Context<'_>| driver.poll(context)
    };
    driving::drive(pipeline, connect, start).await;
}

struct Driver<'a, P: Protocol> {
    pipeline: &'a Pipeline<P>,
    stream: Stream,
    inbox: Inbox,
}

impl<P: Protocol> Driver<'_, P> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.inbox.poll_fill(&mut self.stream, context)?.is_ready() {
            self.deliver()?;
        }
        loop {
            if self.write(context)?.is_pending() {
                return Poll::Pending;
            }
            match self.pipeline.work(context.waker()) {
                Work::Nothing => return Poll::Pending,
                Work::Done => return Poll::Ready(Ok(())),
                Work::Write => {}
            }
        }
    }

    /// Gives what has come to those who wait for it.
    fn deliver(&mut self) -> Result<()> {
        let (mut start, mut wakers) = (0, Vec::new());
        let delivered = loop {
            match P::read(&self.inbox.unread()[start..]) {
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
                Ok(Some((response, n_bytes))) => {
                    start += n_bytes;
                    if let Err(error) = self.pipeline.take(response, &mut wakers) {
                        break Err(error);
                    }
                }
            }
        };
        self.inbox.consume(start);
        // Those who have their answer are told of it, whatever becomes of the others.
        wakers.into_iter().for_each(wake);
        delivered
    }

    /// Writes what there is to write, as far as that goes without waiting.
    fn write(&mut self, context: &mut Context<'_>) -> Result<Poll<()>> {
        let mut state = locked(&self.pipeline.0);
        while !state.out.is_empty() {
            match self.stream.poll_write(context, &state.out) {
                Poll::Ready(Ok(n_bytes)) => drop(state.out.drain(..n_bytes)),
                Poll::Ready(Err(error)) => return Err(broke(error)),
                Poll::Pending => {
                    state.driver = Some(context.waker().clone());
                    return Ok(Poll::Pending);
                }
            }
        }
        drop(state);
        match self.stream.poll_flush(context) {
            Poll::Ready(flushed) => flushed.map_err(broke).map(Poll::Ready),
            Poll::Pending => Ok(Poll::Pending),
        }
    }
}

impl<P: Protocol> Drop for Driver<'_, P> {
    /// The runtime may be ending: what was to be sent, releases above all, still goes out if it can.
    fn drop(&mut self) {
        let _ = self.write(&mut Context::from_waker(Waker::noop()));
    }
}
