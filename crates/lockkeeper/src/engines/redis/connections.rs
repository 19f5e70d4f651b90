//! The connections of one client: one for each server and runtime that uses it.
//!
//! A hop between threads costs a third of the speed, so callers are served on their own runtime.
//! Who has none, or blocks the thread it is on, is served at [`Home`].

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::runtime::{Handle, Id};

use super::{connection::Connection, driver, handshake::Hello, home::Home};
use crate::{
    engine::Moment,
    error::Result,
    fork::Origin,
    sync::{self, locked},
    url::Host,
};

#[derive(Debug)]
pub(super) struct Connections {
    hello: Arc<Hello>,
    /// What the channels of our connections begin with: nobody else's do.
    name: String,
    n_opened: AtomicU64,
    list: Mutex<Vec<Entry>>,
    /// Which runtimes can do I/O, of those that were asked.
    runtimes: Mutex<HashMap<Id, bool>>,
    home: Home,
    origin: Origin,
}

#[derive(Debug)]
struct Entry {
    runtime: Option<Id>,
    host: Host,
    connection: Arc<Connection>,
}

impl Connections {
    pub(super) fn new(hello: Hello, name: String) -> Self {
        Self {
            hello: Arc::new(hello),
            name,
            n_opened: AtomicU64::new(0),
            list: Mutex::default(),
            runtimes: Mutex::default(),
            home: Home::default(),
            origin: Origin::here(),
        }
    }

    pub(super) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The connection to this server for whoever asks; opened if there is none that will do.
    pub(super) fn get(&self, host: &Host, now: Moment) -> Result<Arc<Connection>> {
        let runtime = self.runtime();
        let id = runtime.as_ref().map(Handle::id);
        let mut list = locked(&self.list);
        let known = list.iter().position(|entry| entry.runtime == id && entry.host == *host);
        if let Some(at) = known {
            if list[at].connection.is_fit(now) {
                return Ok(Arc::clone(&list[at].connection));
            }
            list.swap_remove(at).connection.retire();
        }
        list.retain(|entry| !entry.connection.has_ended());
        let runtime = runtime.map_or_else(|| self.home.handle(), Ok)?;
        let connection = self.open(host, &runtime);
        let entry = Entry { runtime: id, host: host.clone(), connection: Arc::clone(&connection) };
        list.push(entry);
        Ok(connection)
    }

    fn open(&self, host: &Host, runtime: &Handle) -> Arc<Connection> {
        let number = self.n_opened.fetch_add(1, Ordering::Relaxed);
        let channel = format!("{}:{number}", self.name);
        let connection = Arc::new(Connection::new(channel));
        let (hello, host) = (Arc::clone(&self.hello), host.clone());
        let driven = Arc::clone(&connection);
        runtime.spawn(async move {
            let channel = driven.channel.clone();
            driver::drive(driven, hello.open(&host, &channel)).await;
        });
        connection
    }

    /// The runtime of the caller, if it can carry a connection.
    fn runtime(&self) -> Option<Handle> {
        if sync::blocks() {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let mut runtimes = locked(&self.runtimes);
        (*runtimes.entry(runtime.id()).or_insert_with(can_do_io)).then_some(runtime)
    }
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
            locked(&self.list).iter().for_each(|entry| entry.connection.retire());
        }
    }
}
