//! From an address to a connection that is ready for use: TCP, TLS, login, and a check of the server.

use std::{future::poll_fn, sync::Arc};

use super::{check, distinct_servers::Place, settings::Login};
use crate::{
    engine::error::{Error, Result},
    engines::{
        net::{dial::dial, stream::Stream, tls::Tls},
        redis::wire::{
            call::Call,
            refusal::no_error,
            resp::{self, Frame, Value},
            script::Script,
        },
    },
    tools::url::Host,
};

/// What is sent first on every connection of a client.
#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) login: Login,
    pub(crate) database: u32,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) scripts: Vec<&'static Script>,
    /// Whether each connection listens on a channel of its own.
    pub(crate) listens: bool,
    pub(crate) peer: Peer,
    pub(crate) place: Option<Place>,
}

/// What kind of server is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A server that takes writes.
    Primary {
        evicting_allowed: bool,
        /// Whether another server may have replaced this one, and can be found.
        may_move: bool,
    },
    /// A server that is only asked where the primary is: a sentinel, or any node of a cluster.
    Guide,
}

impl Hello {
    pub(crate) async fn open(&self, host: &Host, channel: &str) -> Result<Stream> {
        let mut stream = dial(host, self.tls.as_deref()).await?;
        let mut call = Call::default();
        self.introduce(&mut call);
        if self.listens {
            call.add(&[b"SUBSCRIBE", channel.as_bytes()]);
        }
        for script in &self.scripts {
            call.add(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]);
        }
        if let Peer::Primary { .. } = self.peer {
            call.add(&[b"INFO"]);
        }
        let replies = exchange(&mut stream, &call).await?;
        // The code of this error is not specific, and only the second command may have failed.
        if matches!(replies.get(1), Some(Value::Error(text)) if text.contains("DB index")) {
            return Err(Error::refused("the server has no database of the number in the URL"));
        }
        let replies = no_error(replies)?;
        if let (Peer::Primary { evicting_allowed, may_move }, Some(Value::Text(info))) =
            (self.peer, replies.last())
        {
            let info = String::from_utf8_lossy(info);
            check::server(&info, evicting_allowed, may_move)?;
            self.place.as_ref().map_or(Ok(()), |place| place.take(&info))?;
        }
        Ok(stream)
    }

    /// Sends a call on a connection that is opened for this call only.
    pub(crate) async fn ask(&self, host: &Host, call: &Call) -> Result<Vec<Value>> {
        let mut stream = self.open(host, "").await?;
        exchange(&mut stream, call).await
    }

    /// Whether a server says that it is a replica.
    pub(crate) async fn is_replica(&self, host: &Host) -> Result<bool> {
        let mut stream = dial(host, self.tls.as_deref()).await?;
        let mut call = Call::default();
        self.introduce(&mut call);
        call.add(&[b"INFO"]);
        let replies = no_error(exchange(&mut stream, &call).await?)?;
        let Some(Value::Text(info)) = replies.last() else { return Ok(false) };
        Ok(check::is_replica(&String::from_utf8_lossy(info)))
    }

    fn introduce(&self, call: &mut Call) {
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &self.login.password {
            let user = self.login.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH" as &[u8], user.as_bytes(), password.0.as_bytes()]);
        }
        hello.extend([b"SETNAME" as &[u8], b"lockkeeper"]);
        call.add(&hello);
        if self.database > 0 {
            call.add(&[b"SELECT", self.database.to_string().as_bytes()]);
        }
    }
}

fn broke(error: std::io::Error) -> Error {
    Error::unreachable("the connection broke before it could be used", error)
}

/// Writes all bytes to a stream that has no driver.
pub(crate) async fn write(stream: &mut Stream, bytes: &[u8]) -> Result<()> {
    let mut n_written = 0;
    while n_written < bytes.len() {
        let rest = &bytes[n_written..];
        n_written += poll_fn(|context| stream.poll_write(context, rest)).await.map_err(broke)?;
    }
    poll_fn(|context| stream.poll_flush(context)).await.map_err(broke)
}

/// Sends a call over a stream that has no driver yet.
async fn exchange(stream: &mut Stream, call: &Call) -> Result<Vec<Value>> {
    write(stream, &call.bytes).await?;
    let (mut inbox, mut room, mut replies) = (Vec::new(), [0; 4096], Vec::new());
    while replies.len() < call.n_replies.into() {
        match resp::parse(&inbox)? {
            Some((frame, n_bytes)) => {
                match frame {
                    Frame::Reply(reply) => replies.push(reply),
                    // SUBSCRIBE is answered by a push.
                    Frame::Push(items) => replies.push(Value::List(items)),
                    Frame::Message { .. } => {}
                }
                inbox.drain(..n_bytes);
            }
            None => {
                let n_bytes = poll_fn(|context| stream.poll_read(context, &mut room)).await;
                match n_bytes.map_err(broke)? {
                    0 => return Err(hung_up(replies.first())),
                    n_bytes => inbox.extend_from_slice(&room[..n_bytes]),
                }
            }
        }
    }
    Ok(replies)
}

/// The error for a connection that the server has closed. A server in protected mode, or with too many clients, says
/// why before it closes.
fn hung_up(said: Option<&Value>) -> Error {
    match said {
        Some(Value::Error(text)) => crate::engines::redis::wire::refusal::refusal(text),
        _ => {
            let why = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            Error::unreachable("the server closed the connection before it could be used", why)
        }
    }
}
