//! Listens to the sentinels, which tell when another server becomes primary.
//!
//! A primary that was replaced may live on and take itself for the primary, for 8 seconds and more: until a sentinel
//! makes it a replica. Whoever goes on asking it there is granted, and renewed, what somebody else is granted at the new
//! one. So every sentinel that is known is listened to, and is asked as soon as a connection to it stands, because it
//! may have told before. Nothing is tried again by the watch itself: a connection that broke is opened again by
//! those who need the way, at most every second.

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

/// How many sentinels are listened to.
const MOST: usize = 9;
/// How long after the last look somebody looks again whether all of them are listened to.
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Sees to it that every known sentinel is listened to.
pub(crate) fn keep(shared: &Arc<Shared>, own_runtime: &Handle) {
    let Kind::Sentinel { .. } = shared.kind else { return };
    let mut state = locked(&shared.state);
    let mut watches = std::mem::take(&mut state.watches);
    watches.retain(|(_, task)| !task.is_finished());
    for guide in state.guides.iter().take(MOST) {
        if !watches.iter().any(|(known, _)| known == guide) {
            let (shared, sentinel) = (Arc::clone(shared), guide.clone());
            let task = own_runtime.spawn(async move {
                // Whatever the trouble is, it shows again when the way is asked for.
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
    // In this order, so that whatever changes after the answer is told.
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

/// A connection to a sentinel, on which anything may come at any time.
struct Wire {
    stream: Stream,
    inbox: Vec<u8>,
}

enum Heard {
    /// Some server has become primary somewhere.
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
