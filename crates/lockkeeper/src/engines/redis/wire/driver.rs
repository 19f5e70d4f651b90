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

/// Opens a connection and drives it to its end, of which everyone who waits is told.
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
    /// Whether the others have been let go first, so that their calls can come along.
    has_waited: bool,
    needs_flush: bool,
    // Kept between reads, only for its room.
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

    /// Writes what there is to write.
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
                    // One turn for the tasks that are about to send as well: with many of them, this
                    // is worth three times the throughput.
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

    /// Gives what has come to those who wait for it.
    fn deliver(&mut self) -> Result<()> {
        let (mut start, mut desk) = (0, None);
        loop {
            let rest = &self.inbox.unread()[start..];
            let (reply, n_bytes) = if let Some(common) = resp::common(rest) {
                common
            } else if let Some((frame, n_bytes)) = resp::parse(rest)? {
                let reply = match frame {
                    Frame::Reply(reply) => Some(reply),
                    // The answer to a command that has no other.
                    Frame::Push(items) if is_about_subscription(&items) => Some(Value::List(items)),
                    Frame::Push(items) => {
                        desk = None;
                        tell_of_shard(self.connection, &items);
                        None
                    }
                    Frame::Message { channel, text } => {
                        // Those who hear it are woken, which is not to be done with a mutex in hands.
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
    // What comes on our own channel begins with a letter and the name of the one it is for.
    let own = connection.channel.as_bytes() == channel;
    let topic = if own { text.get(1..33) } else { Some(channel) };
    if let Some(topic) = topic {
        connection.listeners.tell(topic, text);
    }
}

/// A subscription to a channel of a slot stands, or was ended by the server because the slot is elsewhere
/// now. Messages may have been missed before: whoever listens must ask again.
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
    /// The runtime may be ending: what was to be sent, releases above all, still goes out if it can.
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
