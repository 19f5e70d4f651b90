//! The connections of one client: one for each pair of server and runtime.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::runtime::Handle;

use super::handshake::Hello;
use crate::{
    engine::{Moment, error::Result},
    engines::{
        net::{
            own_runtime::OwnRuntime,
            per_runtime::{self, Link, PerRuntime},
        },
        redis::wire::{
            connection::{Connection, Use},
            driver,
        },
    },
    tools::url::Host,
};

#[derive(Debug)]
pub(crate) struct Connections {
    hello: Arc<Hello>,
    /// The prefix of our channels, which no other client has.
    name: String,
    purpose: Use,
    n_opened: AtomicU64,
    links: PerRuntime<Connection>,
}

pub(crate) type Switchboard = per_runtime::Switchboard<Connection>;
pub(crate) type Known = per_runtime::Known<Connection>;

impl Link for Connection {
    fn is_fit(&self, now: Moment) -> bool {
        self.is_fit(now)
    }

    fn has_ended(&self) -> bool {
        self.has_ended()
    }

    fn retire(&self) {
        self.retire();
    }
}

impl Connections {
    pub(crate) fn new(
        hello: Hello,
        name: String,
        purpose: Use,
        own_runtime: Arc<OwnRuntime>,
    ) -> Self {
        let (hello, n_opened) = (Arc::new(hello), AtomicU64::new(0));
        Self { hello, name, purpose, n_opened, links: PerRuntime::new(own_runtime) }
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    pub(crate) fn switchboard(&self) -> Switchboard {
        self.links.switchboard()
    }

    /// What the runtime of the caller has for this server.
    pub(crate) fn known(&self, host: &Host, now: Moment) -> Known {
        self.links.known(host, now)
    }

    /// The connection of the caller's runtime to this server, opened if there is none that is fit.
    pub(crate) fn get(&self, host: &Host, now: Moment) -> Result<Arc<Connection>> {
        self.links.get(host, now, |runtime| self.open(host, runtime))
    }

    fn open(&self, host: &Host, runtime: &Handle) -> Arc<Connection> {
        let number = self.n_opened.fetch_add(1, Ordering::Relaxed);
        // The length never changes: the scripts rely on it.
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
