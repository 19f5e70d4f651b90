//! The task that moves the bytes of one connection.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::{Pipeline, Protocol, Work};
use crate::{
    engine::error::{Error, Result},
    engines::net::stream::Stream,
    tools::sync::{locked, wake},
};

/// Connects, and moves bytes until the end of the connection, of which everyone who waits is told.
pub(super) async fn drive<P: Protocol>(
    pipeline: &Pipeline<P>,
    connect: impl Future<Output = Result<Stream>>,
) {
    let _ending = Ending(pipeline);
    let mut connect = pin!(connect);
    let connected = poll_fn(|context| {
        if let Poll::Ready(connected) = connect.as_mut().poll(context) {
            return Poll::Ready(connected);
        }
        // A retired connection that does not stand yet is not worth waiting for.
        if pipeline.is_unwanted(context.waker()) {
            let message = "no connection came about in time";
            return Poll::Ready(Err(Error::unreachable(message, "given up")));
        }
        Poll::Pending
    });
    let why = match connected.await {
        Err(why) => why,
        Ok(stream) => {
            locked(&pipeline.0).wire = stream.wire();
            let mut driver = Driver { pipeline, stream, inbox: vec![0; 4096], n_filled: 0 };
            match poll_fn(|context| driver.poll(context)).await {
                Err(why) => why,
                Ok(()) => Error::unreachable("the connection was closed", "no longer needed"),
            }
        }
    };
    pipeline.end(&why);
}

/// Tells the end also when the task is dropped, as happens when its runtime ends.
struct Ending<'a, P: Protocol>(&'a Pipeline<P>);

impl<P: Protocol> Drop for Ending<'_, P> {
    fn drop(&mut self) {
        let message = "the connection ended with the runtime it was opened in";
        self.0.end(&Error::unreachable(message, "dropped"));
    }
}

struct Driver<'a, P: Protocol> {
    pipeline: &'a Pipeline<P>,
    stream: Stream,
    /// What has come and is not whole yet, and room for more.
    inbox: Vec<u8>,
    n_filled: usize,
}

impl<P: Protocol> Driver<'_, P> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if self.n_filled == self.inbox.len() {
                self.inbox.resize(2 * self.n_filled, 0);
            }
            match self.stream.poll_read(context, &mut self.inbox[self.n_filled..]) {
                Poll::Ready(Ok(0)) => {
                    let why = io::Error::from(io::ErrorKind::UnexpectedEof);
                    let message = "the server closed the connection";
                    return Poll::Ready(Err(Error::unreachable(message, why)));
                }
                Poll::Ready(Ok(n_bytes)) => {
                    self.n_filled += n_bytes;
                    self.deliver()?;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broke(error))),
                Poll::Pending => break,
            }
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
            match P::read(&self.inbox[start..self.n_filled]) {
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
        self.inbox.copy_within(start..self.n_filled, 0);
        self.n_filled -= start;
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

fn broke(error: io::Error) -> Error {
    Error::unreachable("the connection broke", error)
}
