//! The task that moves the bytes of one connection.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    connection::{Connection, Use, Work},
    resp::{self, Frame, Value},
};
use crate::{
    engine::error::Result,
    engines::net::{
        driving::{self, Inbox, broke},
        stream::Stream,
    },
    tools::sync::wake,
};

/// Opens a connection and drives it to its end. All pending callers are told of the end.
pub(crate) async fn drive(connection: Arc<Connection>, open: impl Future<Output = Result<Stream>>) {
    let start = |stream| {
        let mut driver = Driver::new(&connection, stream);
        move |context: &mut Context<'_>| driver.poll(context)
    };
    driving::drive(&*connection, open, start).await;
}

struct Driver<'a> {
    connection: &'a Connection,
    stream: Stream,
    inbox: Inbox,
    outbox: Vec<u8>,
    n_written: usize,
    /// Whether the driver has yielded once, so that other tasks could add their calls to this write.
    has_waited: bool,
    needs_flush: bool,
    // Kept between reads to reuse the allocation.
    wakers: Vec<Waker>,
}

impl<'a> Driver<'a> {
    fn new(connection: &'a Connection, stream: Stream) -> Self {
        Self {
            connection,
            stream,
            inbox: Inbox::with_room(16 * 1024),
            outbox: Vec::new(),
            n_written: 0,
            has_waited: false,
            needs_flush: false,
            wakers: Vec::new(),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.inbox.poll_fill(&mut self.stream, context)?.is_ready() {
            self.deliver()?;
        }
        self.poll_out(context)
    }

    /// Writes all bytes that are to be sent.
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            while self.n_written < self.outbox.len() {
                match self.stream.poll_write(context, &self.outbox[self.n_written..]) {
                    Poll::Ready(Ok(n_bytes)) => self.n_written += n_bytes,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(broke(error))),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if self.needs_flush {
                match self.stream.poll_flush(context) {
                    Poll::Ready(flushed) => flushed.map_err(broke)?,
                    Poll::Pending => return Poll::Pending,
                }
                self.needs_flush = false;
            }
            match self.connection.work(context.waker()) {
                Work::Nothing => return Poll::Pending,
                Work::Done => return Poll::Ready(Ok(())),
                Work::Write if !self.has_waited => {
                    // Yield once to tasks that are about to send: with many tasks, this triples the
                    // throughput.
                    self.has_waited = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Work::Write => {
                    self.has_waited = false;
                    self.outbox.clear();
                    self.n_written = 0;
                    self.connection.take_out(&mut self.outbox);
                    self.needs_flush = true;
                }
            }
        }
    }

    /// Gives the frames that have come to their callers and listeners.
    fn deliver(&mut self) -> Result<()> {
        let (mut start, mut desk) = (0, None);
        loop {
            let rest = &self.inbox.unread()[start..];
            let (reply, n_bytes) = if let Some(common) = resp::common(rest) {
                common
            } else if let Some((frame, n_bytes)) = resp::parse(rest)? {
                let reply = match frame {
                    Frame::Reply(reply) => Some(reply),
                    // SUBSCRIBE is answered by a push and by no other reply.
                    Frame::Push(items) if is_about_subscription(&items) => Some(Value::List(items)),
                    Frame::Push(items) => {
                        desk = None;
                        tell_of_shard(self.connection, &items);
                        None
                    }
                    Frame::Message { channel, text } => {
                        // Listeners are woken, which must not happen while the mutex is held.
                        desk = None;
                        hear(self.connection, channel, text);
                        None
                    }
                };
                let Some(reply) = reply else {
                    start += n_bytes;
                    continue;
                };
                (reply, n_bytes)
            } else {
                break;
            };
            start += n_bytes;
            if self.connection.is_for(Use::Shards) {
                continue;
            }
            let desk = desk.get_or_insert_with(|| self.connection.desk());
            desk.take_reply(reply, &mut self.wakers)?;
        }
        drop(desk);
        self.inbox.consume(start);
        self.wakers.drain(..).for_each(wake);
        Ok(())
    }
}

fn hear(connection: &Connection, channel: &[u8], text: &[u8]) {
    // A message on our own channel begins with one letter and the owner that the message is for.
    let own = connection.channel.as_bytes() == channel;
    let topic = if own { text.get(1..33) } else { Some(channel) };
    if let Some(topic) = topic {
        connection.listeners.tell(topic, text);
    }
}

/// Handles a shard subscription that has begun, or that the server has ended because the slot has moved. Messages may
/// have been missed in both cases, so the listeners must ask again.
fn tell_of_shard(connection: &Connection, items: &[Value]) {
    if let [kind, channel, ..] = items
        && let (Some("ssubscribe" | "sunsubscribe"), Some(channel)) =
            (kind.as_text(), channel.as_bytes())
    {
        connection.listeners.tell(channel, b"");
    }
}

fn is_about_subscription(items: &[Value]) -> bool {
    let kind = items.first().and_then(Value::as_text);
    matches!(kind, Some("subscribe" | "unsubscribe"))
}

impl Drop for Driver<'_> {
    /// The runtime may be shutting down: calls that are still to be sent, above all releases, are written if possible.
    fn drop(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut rest = Vec::new();
        self.connection.take_out(&mut rest);
        self.outbox.drain(..self.n_written);
        self.outbox.append(&mut rest);
        while !self.outbox.is_empty() {
            match self.stream.poll_write(&mut context, &self.outbox) {
                Poll::Ready(Ok(n_bytes)) if n_bytes > 0 => drop(self.outbox.drain(..n_bytes)),
                _ => return,
            }
        }
        let _ = self.stream.poll_flush(&mut context);
    }
}
