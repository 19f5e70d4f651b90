//! Subscribes to the sentinels, which announce when another server becomes primary.
//!
//! A primary that was replaced may run on and consider itself primary for 8 seconds and more, until a sentinel makes it
//! a replica. A client that goes on using it is granted locks that another client is granted at the new primary. So
//! there is a subscription to every known sentinel. Each is asked for the primary as soon as its connection is open,
//! because its announcement may have come before. The watch itself retries nothing: a broken connection is opened
//! again by callers that look for the primary, at most once a second.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{
    route::{Kind, Shared},
    sentinel,
};
use crate::{
    engine::error::{Error, Result},
    engines::{
        net::stream::Stream,
        redis::{
            server::handshake::write,
            wire::{
                call::Call,
                refusal::refusal,
                resp::{self, Frame, Value},
            },
        },
    },
    tools::{sync::locked, url::Host},
};

/// The most sentinels that are subscribed to.
const MOST: usize = 9;
/// How often callers check that there is a subscription to every sentinel.
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Makes sure that there is a subscription to every known sentinel.
pub(crate) fn keep(shared: &Arc<Shared>, own_runtime: &Handle) {
    let Kind::Sentinel { .. } = shared.kind else { return };
    let mut state = locked(&shared.state);
    let mut watches = std::mem::take(&mut state.watches);
    watches.retain(|(_, task)| !task.is_finished());
    for guide in state.guides.iter().take(MOST) {
        if !watches.iter().any(|(known, _)| known == guide) {
            let (shared, sentinel) = (Arc::clone(shared), guide.clone());
            let task = own_runtime.spawn(async move {
                // An error here shows again when the primary is looked for.
                let _ = listen(&shared, &sentinel).await;
            });
            watches.push((guide.clone(), task.abort_handle()));
        }
    }
    state.watches = watches;
}

async fn listen(shared: &Shared, sentinel: &Host) -> Result<()> {
    let Kind::Sentinel { primary, .. } = &shared.kind else { return Ok(()) };
    let ask = sentinel::question(primary);
    let mut call = Call::default();
    // Subscribe first, so that every change after the response is announced.
    sentinel::listen(&mut call);
    call.bytes.extend_from_slice(&ask.bytes);
    let mut wire = Wire { stream: shared.hello.open(sentinel, "").await?, inbox: Vec::new() };
    write(&mut wire.stream, &call.bytes).await?;
    let mut replies = Vec::new();
    loop {
        match wire.next().await? {
            Heard::Message => write(&mut wire.stream, &ask.bytes).await?,
            Heard::Reply(reply) => replies.push(reply),
            Heard::Nothing => {}
        }
        if replies.len() == usize::from(ask.n_replies) {
            if let Some((host, term)) = sentinel::primary_in(&replies) {
                shared.turn_to(host, term);
            }
            replies.clear();
        }
    }
}

/// A connection to a sentinel, on which replies and announcements arrive in any order.
struct Wire {
    stream: Stream,
    inbox: Vec<u8>,
}

enum Heard {
    /// An announcement that some server has become primary.
    Message,
    Reply(Value),
    Nothing,
}

impl Wire {
    async fn next(&mut self) -> Result<Heard> {
        loop {
            if let Some((frame, n_bytes)) = resp::parse(&self.inbox)? {
                let heard = match frame {
                    Frame::Reply(Value::Error(text)) => return Err(refusal(&text)),
                    Frame::Reply(reply) => Heard::Reply(reply),
                    Frame::Message { .. } => Heard::Message,
                    Frame::Push(_) => Heard::Nothing,
                };
                self.inbox.drain(..n_bytes);
                return Ok(heard);
            }
            let mut room = [0; 4096];
            let n_bytes = poll_fn(|context| self.stream.poll_read(context, &mut room)).await;
            match n_bytes.map_err(|error| Error::unreachable("the connection broke", error))? {
                0 => {
                    return Err(Error::unreachable(
                        "the sentinel closed the connection",
                        "end of stream",
                    ));
                }
                n_bytes => self.inbox.extend_from_slice(&room[..n_bytes]),
            }
        }
    }
}
