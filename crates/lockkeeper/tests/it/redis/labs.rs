//! What the conformance suite can do to a Redis.

use async_trait::async_trait;
use lab::{
    proxy::Proxy,
    redis::{Cluster, Five, Reply, Sentinels, Server},
};
use lockkeeper::{
    Key, Result,
    conformance::{self, Ability, Lab, Neighbour},
    engine::Engine,
};

use crate::neighbour::Process;

/// One server behind a proxy that can be cut.
pub(crate) struct Single {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    /// What stands after the `?` of its URL.
    pub(crate) parameters: &'static str,
}

impl Single {
    pub(crate) fn start(parameters: &'static str) -> Self {
        let server = Server::start().unwrap();
        let proxy = Proxy::to(server.port()).unwrap();
        Self { server, proxy, parameters }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}?{}", self.proxy.address(), self.parameters)
    }
}

#[async_trait]
impl Lab for Single {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        delete_all_of(key, |words| self.server.command(words).unwrap());
        Ability::Yes(())
    }

    async fn cut_off(&self) -> Ability {
        self.proxy.refuse();
        self.proxy.cut();
        Ability::Yes(())
    }

    async fn heal(&self) {
        self.proxy.accept_again();
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::Yes(Box::new(Process::start(&self.url())))
    }
}

/// A cluster. It is cut off by having its nodes keep all writes waiting.
pub(crate) struct Clustered(Cluster);

/// Longer than any rule keeps us cut off, in milliseconds.
const PAUSE: &str = "60000";

impl Clustered {
    pub(crate) fn start() -> Self {
        Self(Cluster::start().unwrap())
    }
}

#[async_trait]
impl Lab for Clustered {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.0.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        for number in self.0.primaries().unwrap() {
            delete_all_of(key, |words| self.0.nodes[number].command(words).unwrap());
        }
        Ability::Yes(())
    }

    async fn cut_off(&self) -> Ability {
        for node in &self.0.nodes {
            node.command(&["CLIENT", "PAUSE", PAUSE, "WRITE"]).unwrap();
        }
        Ability::Yes(())
    }

    async fn heal(&self) {
        for node in &self.0.nodes {
            node.command(&["CLIENT", "UNPAUSE"]).unwrap();
        }
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::Yes(Box::new(Process::start(&self.0.url())))
    }
}

/// A primary with replicas and sentinels. It cannot be cut off: sentinels would be, too, and replace
/// the primary.
pub(crate) struct Guarded(Sentinels);

impl Guarded {
    pub(crate) fn start() -> Self {
        Self(Sentinels::start().unwrap())
    }
}

#[async_trait]
impl Lab for Guarded {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.0.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        let primary = self.0.primary().unwrap();
        delete_all_of(key, |words| primary.command(words).unwrap());
        Ability::Yes(())
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::Yes(Box::new(Process::start(&self.0.url())))
    }
}

/// Five servers, each behind a proxy.
pub(crate) struct Redlock {
    pub(crate) five: Five,
    pub(crate) proxies: Vec<Proxy>,
}

impl Redlock {
    pub(crate) fn start() -> Self {
        let five = Five::start().unwrap();
        let proxies = five.servers.iter().map(|server| Proxy::to(server.port()).unwrap()).collect();
        Self { five, proxies }
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<_> = self.proxies.iter().map(Proxy::address).collect();
        format!("redlock://{}", addresses.join(","))
    }
}

#[async_trait]
impl Lab for Redlock {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        for server in &self.five.servers {
            delete_all_of(key, |words| server.command(words).unwrap());
        }
        Ability::Yes(())
    }

    async fn cut_off(&self) -> Ability {
        self.proxies.iter().for_each(Proxy::refuse);
        self.proxies.iter().for_each(Proxy::cut);
        Ability::Yes(())
    }

    async fn heal(&self) {
        self.proxies.iter().for_each(Proxy::accept_again);
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::Yes(Box::new(Process::start(&self.url())))
    }
}

/// Deletes everything that a server has for a key, whatever the dialect calls it.
pub(crate) fn delete_all_of(key: &Key, command: impl Fn(&[&str]) -> Reply) {
    let found = command(&["KEYS", &format!("*{}*", key.as_str())]);
    for name in found.list() {
        command(&["DEL", &name.text()]);
    }
}
