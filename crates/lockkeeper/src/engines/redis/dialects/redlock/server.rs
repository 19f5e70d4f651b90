//! One of the servers, and whether it is worth asking.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::told::Told;
use crate::{
    engine::{
        Moment,
        error::{Error, Result},
    },
    engines::redis::{
        server::{
            behind::Behind,
            client::{Client, Needs},
            settings::Settings,
        },
        wire::{
            call::Call,
            connection::{Connection, Haste},
            refusal::no_error,
            resp::Value,
            slot::Slot,
        },
    },
    tools::sync::locked,
};

/// After so long without a connection that opens, nobody waits for the server any more.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// For so long after it refused a connection, a server is not asked again.
const REST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Server {
    client: Client,
    pub(super) name: String,
    trouble: Mutex<Trouble>,
    pub(super) told: Told,
}

#[derive(Debug, Default)]
struct Trouble {
    /// The connection that was used last, and since when there was none that opened.
    last: Option<Arc<Connection>>,
    since: Option<Moment>,
    refused: Option<(Moment, Error)>,
}

impl Server {
    pub(super) fn new(settings: &Settings, needs: Needs) -> Result<Self> {
        let hosts: Vec<_> = settings.hosts.iter().map(ToString::to_string).collect();
        let client = Client::new(settings, needs)?;
        Ok(Self { client, name: hosts.join(","), trouble: Mutex::default(), told: Told::default() })
    }

    /// The connection for a call whose answer somebody waits for: an error at once if none can be
    /// expected. This is what keeps a silent server from holding others up.
    pub(super) async fn reach(&self, slot: Slot, now: Moment) -> Result<Arc<Connection>> {
        if let Some((at, error)) = &locked(&self.trouble).refused
            && now.since(*at) < REST
        {
            return Err(error.echo());
        }
        let at = self.client.reach(slot, now).await?;
        if self.is_silent(&at, now) {
            // Something must be on its way, or the connection would be waited for for ever.
            drop(at.send(&Call::of(&[b"PING"]), now, Haste::Later));
            return Err(Error::unreachable(
                "the server does not answer",
                "no connection for a while",
            ));
        }
        Ok(at)
    }

    /// The connection for keys of this slot, if there is one that will do.
    pub(super) fn at_hand(&self, slot: Slot, now: Moment) -> Option<Arc<Connection>> {
        self.client.at_hand(slot, now)
    }

    /// The connection for a call that must be sent in any case.
    pub(super) async fn reach_anyhow(&self, slot: Slot, now: Moment) -> Result<Arc<Connection>> {
        self.client.reach(slot, now).await
    }

    fn is_silent(&self, at: &Arc<Connection>, now: Moment) -> bool {
        let mut trouble = locked(&self.trouble);
        let is_known = trouble.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, at));
        let has_opened = at.has_opened();
        if has_opened && is_known {
            return false;
        }
        let since = match &trouble.last {
            Some(last) if !last.has_opened() => trouble.since.unwrap_or(now),
            _ => now,
        };
        let before = trouble.last.replace(Arc::clone(at));
        trouble.since = Some(since);
        drop(trouble);
        drop(before);
        !has_opened && now.since(since) >= SILENT_AFTER
    }

    /// Sends a call; an error that the server answers is an error.
    pub(super) async fn call(
        &self,
        at: &mut Arc<Connection>,
        slot: Slot,
        call: &Call,
        now: Moment,
    ) -> Result<Vec<Value>> {
        let answer = self.client.call(at, slot, call, now).await;
        if let Err(error) = &answer
            && !at.has_opened()
        {
            locked(&self.trouble).refused = Some((now, error.echo()));
        }
        no_error(answer?)
    }

    /// Sends a call behind one that was not answered; nobody waits for it.
    pub(super) fn send_behind(&self, at: &Connection, call: &Call, now: Moment) {
        self.client.send_behind(at, call, now);
    }

    /// The same behind several.
    pub(super) fn behind<'a>(
        &'a self,
        release: &'a Call,
        attempted_at: Vec<Arc<Connection>>,
        now: Moment,
    ) -> Behind<'a> {
        Behind { client: &self.client, release, attempted_at, now }
    }

    /// Whether it is one server and no other: where one may take the place of another, its counters are lifted
    /// with every grant.
    pub(super) fn is_single(&self) -> bool {
        self.client.is_single()
    }

    pub(super) fn is_cluster(&self) -> bool {
        !self.client.mixes_slots()
    }

    /// Makes sure that it answers; then goes on asking for a while, so that the others get some time.
    pub(super) async fn check(&self, now: Moment) -> Result<bool> {
        const N_TIMES: usize = 30;
        for _ in 0..N_TIMES {
            self.client.check(now).await?;
        }
        Ok(true)
    }
}
