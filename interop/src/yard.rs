//! The place of the checks with one client: its servers, its workers, our locks.

use std::{cell::Cell, path::Path, process::Command};

use lab::{
    Process,
    memcached::Memcached,
    redis::{Cluster, Five, Server},
    wait_until,
};
use lockkeeper::blocking::Locks;

use crate::{
    Result,
    client::{Client, Sharing},
    worker::Worker,
};

pub(crate) struct Yard<'a> {
    pub(crate) client: &'a Client,
    servers: Servers,
    /// Where the worker is installed.
    folder: &'a Path,
    n_keys: Cell<usize>,
}

enum Servers {
    One(Server),
    Cluster(Cluster),
    Five(Box<Five>),
    Memcached(Memcached),
}

impl<'a> Yard<'a> {
    pub(crate) fn open(client: &'a Client, folder: &'a Path) -> Result<Self> {
        let servers = match client.sharing {
            Sharing::Plain { .. } | Sharing::Redisson | Sharing::RedissonFair => {
                Servers::One(Server::start()?)
            }
            Sharing::RedissonInCluster => Servers::Cluster(Cluster::start()?),
            Sharing::Redlock => Servers::Five(Box::new(Five::start()?)),
            Sharing::Memcached { .. } => Servers::Memcached(Memcached::start()?),
        };
        Ok(Self { client, servers, folder, n_keys: Cell::new(0) })
    }

    /// A key that was never used.
    pub(crate) fn key(&self) -> String {
        self.n_keys.set(self.n_keys.get() + 1);
        format!("shared-{}", self.n_keys.get())
    }

    pub(crate) fn url(&self) -> String {
        let url = match &self.servers {
            Servers::One(server) => server.url(),
            Servers::Cluster(cluster) => cluster.url(),
            Servers::Five(five) => five.url(),
            Servers::Memcached(server) => server.url(),
        };
        match self.client.sharing {
            Sharing::Plain { prefix: "" } => format!("{url}?dialect=plain"),
            Sharing::Plain { prefix } => format!("{url}?dialect=plain&prefix={prefix}"),
            Sharing::Redisson | Sharing::RedissonFair | Sharing::RedissonInCluster => {
                format!("{url}?dialect=redisson")
            }
            Sharing::Redlock => url,
            Sharing::Memcached { parameters, .. } => url + parameters,
        }
    }

    /// Locks of ours that know nothing of the others of this process.
    pub(crate) fn locks(&self) -> Result<Locks> {
        Ok(Locks::connect(&self.url())?)
    }

    /// Another process of ours, which holds a lock and can be killed.
    pub(crate) fn holder(&self, key: &str, ttl_ms: u64) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["hold", &self.url(), key, &ttl_ms.to_string()]);
        let mut holder = Process::start(command)?;
        match holder.hear(crate::worker::PATIENCE)?.as_str() {
            "held" => Ok(holder),
            other => Err(format!("our holder said {other:?}").into()),
        }
    }

    /// A process of theirs.
    pub(crate) fn worker(&self) -> Result<Worker> {
        let addresses: Vec<_> = match &self.servers {
            Servers::Memcached(server) => vec![server.address()],
            _ => self.all().map(Server::address).collect(),
        };
        Worker::start(self.client, self.folder, addresses.into_iter())
    }

    /// How many milliseconds of its lease a lock has left, as its servers say; nothing if it is free.
    pub(crate) fn left_ms(&self, key: &str) -> Result<Option<i64>> {
        let lock = self.lock(key);
        if let Servers::Memcached(server) = &self.servers {
            // `HD t5` says that five seconds are left, more or less.
            let left = server.command(format!("mg {lock} t\r\n"))?;
            return Ok(left.trim().strip_prefix("HD t").map(str::parse::<i64>).transpose()?)
                .map(|left| left.map(|seconds| seconds * 1000));
        }
        let mut left = None;
        for server in self.homes(&lock)? {
            let pttl = server.command(&["PTTL", &lock])?.not_an_error()?.int();
            left = left.max(pttl.filter(|pttl| *pttl >= 0));
        }
        Ok(left)
    }

    /// Takes a lock from whoever holds it, without a word.
    pub(crate) fn take_away(&self, key: &str) -> Result<()> {
        let lock = self.lock(key);
        if let Servers::Memcached(server) = &self.servers {
            server.command(format!("md {lock}\r\n"))?;
        }
        for server in self.homes(&lock)? {
            server.command(&["DEL", &lock])?.not_an_error()?;
        }
        Ok(())
    }

    pub(crate) fn wait_until_free(&self, key: &str) -> Result<()> {
        let is_free = || Ok(self.left_ms(key).map_err(std::io::Error::other)?.is_none());
        Ok(wait_until("a lease runs out", is_free)?)
    }

    /// Waits until the lease lasts longer than it did a moment ago, and says how short it became.
    pub(crate) fn wait_for_renewal(&self, key: &str) -> Result<i64> {
        let mut least = i64::MAX;
        wait_until("a lease is renewed", || {
            let left = self.left_ms(key).map_err(std::io::Error::other)?;
            let left = left.ok_or_else(|| std::io::Error::other("the lease has run out"))?;
            let is_renewed = left > least;
            least = least.min(left);
            Ok(is_renewed)
        })?;
        Ok(least)
    }

    /// Waits until somebody listens for the release of a lock of Redisson's kind.
    pub(crate) fn wait_for_listener(&self, key: &str) -> Result<()> {
        // Who waits for a fair lock listens on a channel of its own, whose name is longer.
        let channels = format!("redisson_lock__channel:{{{key}}}*");
        let is_heard = |kind: &str| {
            self.all().try_fold(false, |is_heard, server| {
                let reply = server.command(&["PUBSUB", kind, &channels])?.not_an_error()?;
                std::io::Result::Ok(is_heard || !reply.list().is_empty())
            })
        };
        Ok(wait_until("somebody listens", || {
            Ok(is_heard("CHANNELS")? || is_heard("SHARDCHANNELS")?)
        })?)
    }

    /// What a lock is called at the servers.
    fn lock(&self, key: &str) -> String {
        match self.client.sharing {
            Sharing::Plain { prefix } | Sharing::Memcached { prefix, .. } => {
                format!("{prefix}{key}")
            }
            _ => key.to_owned(),
        }
    }

    /// The servers that have a say about a lock.
    fn homes(&self, lock: &str) -> Result<Vec<&Server>> {
        match &self.servers {
            Servers::Cluster(cluster) => {
                let home = cluster.node_of(cluster.slot_of(lock)?)?;
                Ok(vec![&cluster.nodes[home]])
            }
            Servers::One(_) | Servers::Five(_) | Servers::Memcached(_) => Ok(self.all().collect()),
        }
    }

    /// The Redis servers.
    fn all(&self) -> impl Iterator<Item = &Server> {
        match &self.servers {
            Servers::One(server) => std::slice::from_ref(server),
            Servers::Cluster(cluster) => &cluster.nodes[..],
            Servers::Five(five) => &five.servers[..],
            Servers::Memcached(_) => &[],
        }
        .iter()
    }
}
