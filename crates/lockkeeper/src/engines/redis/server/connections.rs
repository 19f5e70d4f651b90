//! The connections of one client: one for each server and runtime that uses it.
//!
//! A hop between threads costs a third of the speed, so callers are served on their own runtime.
//! Who has none, or blocks the thread it is on, is served at [`OwnRuntime`].

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::runtime::{Handle, Id};

use super::handshake::Hello;
use crate::{
    engine::{
        Moment,
        error::{Error, Result},
        poller,
    },
    engines::{
        net::own_runtime::OwnRuntime,
        redis::wire::{
            connection::{Connection, Use},
            driver,
        },
    },
    tools::{fork::Origin, url::Host},
};

#[derive(Debug)]
pub(crate) struct Connections {
    hello: Arc<Hello>,
    /// What the channels of our connections begin with: nobody else's do.
    name: String,
    purpose: Use,
    n_opened: AtomicU64,
    list: Arc<RwLock<List>>,
    own_runtime: Arc<OwnRuntime>,
    origin: Origin,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    /// The only server that may be asked, if there is only one.
    only: Option<Host>,
    /// Which runtimes can do I/O, of those that were asked.
    runtimes: HashMap<Id, bool>,
}

#[derive(Debug)]
struct Entry {
    runtime: Option<Id>,
    host: Host,
    connection: Arc<Connection>,
}

/// The same connections, in the hands of the one who hears which server is to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Switchboard(Arc<RwLock<List>>);

impl Switchboard {
    /// From now on, only this server is asked. Gives the connections to others, which are to be
    /// [ended](Connection::end) with no mutex in hands: what they still answer must not count.
    pub(crate) fn turn_to(&self, host: &Host) -> Vec<Arc<Connection>> {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        list.only = Some(host.clone());
        let others = list.entries.extract_if(.., |entry| entry.host != *host);
        others.map(|entry| entry.connection).collect()
    }
}

/// Whether there is a connection.
#[derive(Debug)]
pub(crate) enum Known {
    Fit(Arc<Connection>),
    /// There was one: it broke, or is stalled, or the server sent us away.
    Unfit,
    Nothing,
}

impl Connections {
    pub(crate) fn new(
        hello: Hello,
        name: String,
        purpose: Use,
        own_runtime: Arc<OwnRuntime>,
    ) -> Self {
        Self {
            hello: Arc::new(hello),
            name,
            purpose,
            n_opened: AtomicU64::new(0),
            list: Arc::default(),
            own_runtime,
            origin: Origin::here(),
        }
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    pub(crate) fn switchboard(&self) -> Switchboard {
        Switchboard(Arc::clone(&self.list))
    }

    /// What whoever asks has for this server.
    pub(crate) fn known(&self, host: &Host, now: Moment) -> Known {
        let id = runtime().as_ref().map(Handle::id);
        let list = self.read();
        // Who was found to be on a runtime that will not do is served there.
        let will_not_do = |id: Id| list.runtimes.get(&id) == Some(&false);
        let found = list.find(id, host);
        match found.or_else(|| id.filter(|id| will_not_do(*id)).and(list.find(None, host))) {
            None => Known::Nothing,
            Some(known) if known.is_fit(now) => Known::Fit(Arc::clone(known)),
            Some(_) => Known::Unfit,
        }
    }

    /// The connection to this server for whoever asks; opened if there is none that will do.
    pub(crate) fn get(&self, host: &Host, now: Moment) -> Result<Arc<Connection>> {
        let runtime = runtime();
        let id = runtime.as_ref().map(Handle::id);
        if let Some(connection) = self.read().find(id, host).filter(|known| known.is_fit(now)) {
            return Ok(Arc::clone(connection));
        }
        let mut list = self.write();
        if list.only.as_ref().is_some_and(|only| only != host) {
            return Err(Error::unreachable(
                format!("{host} is not the primary any more"),
                "replaced",
            ));
        }
        if let Some(connection) = list.get(id, host, now) {
            return Ok(connection);
        }
        let runtime = match runtime {
            Some(runtime) if list.can_do_io(runtime.id()) => runtime,
            // The caller's runtime will not do, which may have been known before.
            _ => match list.get(None, host, now) {
                Some(connection) => return Ok(connection),
                None => self.own_runtime.handle()?,
            },
        };
        let connection = self.open(host, &runtime);
        let runtime = id.filter(|id| *id == runtime.id());
        let entry = Entry { runtime, host: host.clone(), connection: Arc::clone(&connection) };
        list.entries.push(entry);
        Ok(connection)
    }

    fn read(&self) -> RwLockReadGuard<'_, List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, List> {
        self.list.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, host: &Host, runtime: &Handle) -> Arc<Connection> {
        let number = self.n_opened.fetch_add(1, Ordering::Relaxed);
        // Always as long: scripts know where it ends.
        let channel = format!("{}:{:08x}", self.name, number & 0xffff_ffff);
        let connection = Arc::new(Connection::new(host.clone(), channel, self.purpose));
        let (hello, host) = (Arc::clone(&self.hello), host.clone());
        let driven = Arc::clone(&connection);
        runtime.spawn(async move {
            let channel = driven.channel.clone();
            driver::drive(driven, hello.open(&host, &channel)).await;
        });
        connection
    }
}

impl List {
    fn find(&self, runtime: Option<Id>, host: &Host) -> Option<&Arc<Connection>> {
        let is_it = |entry: &&Entry| entry.runtime == runtime && entry.host == *host;
        self.entries.iter().find(is_it).map(|entry| &entry.connection)
    }

    fn get(&mut self, runtime: Option<Id>, host: &Host, now: Moment) -> Option<Arc<Connection>> {
        let is_it = |entry: &Entry| entry.runtime == runtime && entry.host == *host;
        let at = self.entries.iter().position(is_it)?;
        if self.entries[at].connection.is_fit(now) {
            return Some(Arc::clone(&self.entries[at].connection));
        }
        self.entries.swap_remove(at).connection.retire();
        self.entries.retain(|entry| !entry.connection.has_ended());
        None
    }

    fn can_do_io(&mut self, runtime: Id) -> bool {
        *self.runtimes.entry(runtime).or_insert_with(can_do_io)
    }
}

/// The runtime of the caller, unless that stands still.
fn runtime() -> Option<Handle> {
    if poller().is_blocked { None } else { Handle::try_current().ok() }
}

/// There is no other way to ask a runtime whether its I/O is enabled.
fn can_do_io() -> bool {
    let open = || {
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0))?;
        socket.set_nonblocking(true)?;
        tokio::net::UdpSocket::from_std(socket)
    };
    catch_unwind(AssertUnwindSafe(open)).is_ok_and(|socket| socket.is_ok())
}

impl Drop for Connections {
    fn drop(&mut self) {
        // In a forked child the connections are the parent's.
        if self.origin.is_here() {
            self.read().entries.iter().for_each(|entry| entry.connection.retire());
        }
    }
}
