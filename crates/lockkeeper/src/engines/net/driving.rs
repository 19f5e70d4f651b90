//! What every connection does the same way: it is opened, its bytes are read as they come, and its end is told.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use tokio::net::tcp::OwnedWriteHalf;

use super::stream::Stream;
use crate::engine::error::{Error, Result};

/// A connection that a task drives.
pub(crate) trait Driven {
    /// While it is being opened: whether nobody needs it any more. If not, the waker is kept.
    fn is_unwanted(&self, driver: &Waker) -> bool;

    /// It stands. With the wire, where there is one, callers can write by themselves.
    fn opened(&self, wire: Option<Arc<OwnedWriteHalf>>);

    /// It has ended: everyone who waits for it is told why. Only the first call counts.
    fn end(&self, why: &Error);
}

/// Opens a connection, and has it driven to its end by what `start` makes of the bytes. Whoever waits is told of the
/// end, also when the task is dropped.
pub(crate) async fn drive<C: Driven, D: FnMut(&mut Context<'_>) -> Poll<Result<()>>>(
    connection: &C,
    open: impl Future<Output = Result<Stream>>,
    start: impl FnOnce(Stream) -> D,
) {
    let _ending = Ending(connection);
    let mut open = pin!(open);
    let opened = poll_fn(|context| {
        if let Poll::Ready(opened) = open.as_mut().poll(context) {
            return Poll::Ready(opened);
        }
        // A connection that nobody needs any more is not worth waiting for.
        if connection.is_unwanted(context.waker()) {
            let message = "no connection came about in time";
            return Poll::Ready(Err(Error::unreachable(message, "given up")));
        }
        Poll::Pending
    });
    let why = match opened.await {
        Err(why) => why,
        Ok(stream) => {
            connection.opened(stream.wire());
            match poll_fn(start(stream)).await {
                Err(why) => why,
                Ok(()) => Error::unreachable("the connection was closed", "no longer needed"),
            }
        }
    };
    connection.end(&why);
}

/// Tells the end also when the task is dropped, as happens when its runtime ends.
struct Ending<'a, C: Driven>(&'a C);

impl<C: Driven> Drop for Ending<'_, C> {
    fn drop(&mut self) {
        let message = "the connection ended with the runtime it was opened in";
        self.0.end(&Error::unreachable(message, "dropped"));
    }
}

/// What has come over a connection and is not read yet, and room for more.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    n_filled: usize,
}

impl Inbox {
    pub(crate) fn with_room(n_bytes: usize) -> Self {
        Self { bytes: vec![0; n_bytes], n_filled: 0 }
    }

    /// Takes in what has come, at least one byte.
    pub(crate) fn poll_fill(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if self.n_filled == self.bytes.len() {
            self.bytes.resize(2 * self.n_filled, 0);
        }
        match ready!(stream.poll_read(context, &mut self.bytes[self.n_filled..])) {
            Ok(0) => {
                let why = io::Error::from(io::ErrorKind::UnexpectedEof);
                Poll::Ready(Err(Error::unreachable("the server closed the connection", why)))
            }
            Ok(n_bytes) => {
                self.n_filled += n_bytes;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(broke(error))),
        }
    }

    /// All that has come and was not [consumed](Self::consume).
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[..self.n_filled]
    }

    /// Forgets the first bytes, which were read.
    pub(crate) fn consume(&mut self, n_bytes: usize) {
        self.bytes.copy_within(n_bytes..self.n_filled, 0);
        self.n_filled -= n_bytes;
    }
}

/// The connection is of no use any more.
pub(crate) fn broke(error: io::Error) -> Error {
    Error::unreachable("the connection broke", error)
}
