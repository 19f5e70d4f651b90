//! One connection for each server and runtime that uses it.
//!
//! A hop between threads costs a third of the speed, so callers are served on their own runtime. A
//! caller that has none, or that blocks the thread it is on, is served by [`OwnRuntime`].

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use tokio::runtime::{Handle, Id};

use super::own_runtime::OwnRuntime;
use crate::{
    engine::{
        Moment,
        error::{Error, Result},
        poller,
    },
    tools::{fork::Origin, url::Host},
};

/// A connection that many callers share.
pub(crate) trait Link: fmt::Debug + Send + Sync + 'static {
    /// Whether new calls may go here.
    fn is_fit(&self, now: Moment) -> bool;

    /// Whether the connection is gone.
    fn has_ended(&self) -> bool;

    /// Gives the connection no new calls; it ends when all that was sent is answered.
    fn retire(&self);
}

/// The connections of one client.
#[derive(Debug)]
pub(crate) struct PerRuntime<L: Link> {
    list: Arc<RwLock<List<L>>>,
    own_runtime: Arc<OwnRuntime>,
    origin: Origin,
}

#[derive(Debug)]
struct List<L> {
    entries: Vec<Entry<L>>,
    /// The only server that may be asked, if there is only one.
    only: Option<Host>,
    /// Which runtimes can do I/O, of those that were asked.
    runtimes: HashMap<Id, bool>,
}

#[derive(Debug)]
struct Entry<L> {
    /// `None` for the runtime of our own.
    runtime: Option<Id>,
    host: Host,
    link: Arc<L>,
}

/// The same connections, in the hands of the task that hears which server is to be asked.
#[derive(Debug)]
pub(crate) struct Switchboard<L>(Arc<RwLock<List<L>>>);

impl<L> Switchboard<L> {
    /// From now on, only this server is asked. Gives the connections to others, which the caller must
    /// end with no mutex in hands: what those servers still answer must not count.
    pub(crate) fn turn_to(&self, host: &Host) -> Vec<Arc<L>> {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        list.only = Some(host.clone());
        let others = list.entries.extract_if(.., |entry| entry.host != *host);
        others.map(|entry| entry.link).collect()
    }
}

/// Whether there is a connection.
#[derive(Debug)]
pub(crate) enum Known<L> {
    Fit(Arc<L>),
    /// There was one: it broke, or is stalled, or the server sent us away.
    Unfit,
    Nothing,
}

impl<L: Link> PerRuntime<L> {
    pub(crate) fn new(own_runtime: Arc<OwnRuntime>) -> Self {
        let list = List { entries: Vec::new(), only: None, runtimes: HashMap::new() };
        Self { list: Arc::new(RwLock::new(list)), own_runtime, origin: Origin::here() }
    }

    pub(crate) fn switchboard(&self) -> Switchboard<L> {
        Switchboard(Arc::clone(&self.list))
    }

    /// What the caller has for this server.
    pub(crate) fn known(&self, host: &Host, now: Moment) -> Known<L> {
        let id = runtime().as_ref().map(Handle::id);
        let list = self.read();
        // A caller that was found to be on a runtime without I/O is served by our own.
        let will_not_do = |id: Id| list.runtimes.get(&id) == Some(&false);
        let found = list.find(id, host);
        match found.or_else(|| id.filter(|id| will_not_do(*id)).and(list.find(None, host))) {
            None => Known::Nothing,
            Some(known) if known.is_fit(now) => Known::Fit(Arc::clone(known)),
            Some(_) => Known::Unfit,
        }
    }

    /// The connection to this server for the caller. If there is none that will do, `open` opens one on
    /// the runtime it is given.
    pub(crate) fn get(
        &self,
        host: &Host,
        now: Moment,
        open: impl FnOnce(&Handle) -> Arc<L>,
    ) -> Result<Arc<L>> {
        let runtime = runtime();
        let id = runtime.as_ref().map(Handle::id);
        if let Some(link) = self.read().find(id, host).filter(|known| known.is_fit(now)) {
            return Ok(Arc::clone(link));
        }
        let mut list = self.write();
        if list.only.as_ref().is_some_and(|only| only != host) {
            return Err(Error::unreachable(
                format!("{host} is not the primary any more"),
                "replaced",
            ));
        }
        if let Some(link) = list.get(id, host, now) {
            return Ok(link);
        }
        let runtime = match runtime {
            Some(runtime) if list.can_do_io(runtime.id()) => runtime,
            // The caller's runtime will not do, which may have been known before.
            _ => match list.get(None, host, now) {
                Some(link) => return Ok(link),
                None => self.own_runtime.handle()?,
            },
        };
        let link = open(&runtime);
        let runtime = id.filter(|id| *id == runtime.id());
        list.entries.push(Entry { runtime, host: host.clone(), link: Arc::clone(&link) });
        Ok(link)
    }

    /// Opens a connection for one caller alone, on the runtime that serves it.
    pub(crate) fn open_apart(&self, open: impl FnOnce(&Handle) -> Arc<L>) -> Result<Arc<L>> {
        let able = runtime().filter(|runtime| self.write().can_do_io(runtime.id()));
        Ok(open(&able.map_or_else(|| self.own_runtime.handle(), Ok)?))
    }

    fn read(&self) -> RwLockReadGuard<'_, List<L>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, List<L>> {
        self.list.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Link> List<L> {
    fn find(&self, runtime: Option<Id>, host: &Host) -> Option<&Arc<L>> {
        let is_it = |entry: &&Entry<L>| entry.runtime == runtime && entry.host == *host;
        self.entries.iter().find(is_it).map(|entry| &entry.link)
    }

    fn get(&mut self, runtime: Option<Id>, host: &Host, now: Moment) -> Option<Arc<L>> {
        let is_it = |entry: &Entry<L>| entry.runtime == runtime && entry.host == *host;
        let at = self.entries.iter().position(is_it)?;
        if self.entries[at].link.is_fit(now) {
            return Some(Arc::clone(&self.entries[at].link));
        }
        self.entries.swap_remove(at).link.retire();
        self.entries.retain(|entry| !entry.link.has_ended());
        None
    }

    fn can_do_io(&mut self, runtime: Id) -> bool {
        *self.runtimes.entry(runtime).or_insert_with(can_do_io)
    }
}

/// The runtime of the caller, unless the caller blocks it.
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

impl<L: Link> Drop for PerRuntime<L> {
    fn drop(&mut self) {
        // In a forked child the connections are the parent's.
        if self.origin.is_here() {
            self.read().entries.iter().for_each(|entry| entry.link.retire());
        }
    }
}

#[cfg(test)]
mod tests;
