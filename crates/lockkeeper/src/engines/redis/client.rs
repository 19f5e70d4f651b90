//! Brings a call to the server that has the key.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    call::Call,
    connection::{Connection, Haste},
    connections::Connections,
    handshake::{Hello, Peer},
    refusal::{code, first_error, is_out_of_office, refusal},
    resp::Value,
    script::Script,
    settings::Settings,
    slot::Slot,
};
use crate::{
    engine::Moment,
    error::{Error, ErrorKind, Result},
    url::Host,
};

/// How often one call may be sent to another server than before.
const MOST_REDIRECTIONS: usize = 5;

#[derive(Debug)]
pub(super) struct Client {
    connections: Connections,
    map: Map,
    latest: AtomicU64,
}

/// Which server has which keys.
#[derive(Debug)]
enum Map {
    Single(Host),
}

/// What a dialect needs of every connection.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) scripts: Vec<&'static Script>,
    /// Whether each connection listens on a channel of its own.
    pub(super) listens: bool,
}

impl Client {
    pub(super) fn new(settings: &Settings, needs: Needs) -> Result<Self> {
        let hello = Hello {
            login: settings.login.clone(),
            database: settings.database,
            tls: settings.tls.clone(),
            scripts: needs.scripts,
            listens: needs.listens,
            peer: Peer::Primary { evicting_allowed: settings.evicting_allowed },
        };
        let connections = Connections::new(hello, channel_name()?);
        let map = Map::Single(settings.hosts[0].clone());
        Ok(Self { connections, map, latest: AtomicU64::new(0) })
    }

    /// The connection for keys of this slot. Nothing is sent yet.
    pub(super) async fn reach(&self, slot: Slot, now: Moment) -> Result<Arc<Connection>> {
        let _ = slot;
        self.latest.store(now.as_nanos(), Ordering::Relaxed);
        match &self.map {
            Map::Single(host) => self.connections.get(host, now),
        }
    }

    /// The latest moment we were told, for calls that are told none.
    pub(super) fn latest(&self) -> Moment {
        Moment::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    /// Whether one script may touch keys of several slots.
    pub(super) fn mixes_slots(&self) -> bool {
        match &self.map {
            Map::Single(_) => true,
        }
    }

    /// Sends a call and follows where the servers point. `at` is always the connection that was
    /// asked last: its answer may still come when this future is dropped.
    ///
    /// Errors in the replies are the caller's to read.
    pub(super) async fn call(
        &self,
        at: &mut Arc<Connection>,
        slot: Slot,
        call: &Call,
        now: Moment,
    ) -> Result<Vec<Value>> {
        for _ in 0..MOST_REDIRECTIONS {
            let replies = at.send(call, now, Haste::of_caller()).await?;
            let Some(error) = first_error(&replies) else { return Ok(replies) };
            match code(error) {
                "NOSCRIPT" => self.load_scripts(at, now).await?,
                code if is_out_of_office(code) => {
                    let error = refusal(error);
                    // It may be the wrong one by now: look again next time.
                    at.retire();
                    return Err(error);
                }
                _ => return Ok(replies),
            }
        }
        let _ = slot;
        Err(Error::new(ErrorKind::Unreachable, "the servers send us from one to the other"))
    }

    async fn load_scripts(&self, at: &Connection, now: Moment) -> Result<()> {
        let mut call = Call::default();
        for script in &self.connections.hello().scripts {
            call.add(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]);
        }
        super::refusal::no_error(at.send(&call, now, Haste::Now).await?).map(drop)
    }

    /// Makes sure that a server answers, and is one to trust.
    pub(super) async fn check(&self, now: Moment) -> Result<()> {
        let mut at = self.reach(Slot(0), now).await?;
        let replies = self.call(&mut at, Slot(0), &Call::of(&[b"PING"]), now).await?;
        super::refusal::no_error(replies).map(drop)
    }

    /// A connection to every server that has keys.
    pub(super) async fn reach_all(&self, now: Moment) -> Result<Vec<Arc<Connection>>> {
        Ok(vec![self.reach(Slot(0), now).await?])
    }
}

/// What our channels begin with; nobody can guess it.
fn channel_name() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|source| {
        Error::new(ErrorKind::Other, "the system gave no random numbers").because(source)
    })?;
    let mut name = String::from("lk:");
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name)
}
