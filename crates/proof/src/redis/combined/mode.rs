//! The ways to make a lock on Redis that are tortured, each with its servers.

use std::{io, time::Duration};

use lab::redis::{Client, Cluster, Five, Sentinels, Server};

use super::N_KEYS;
use crate::trouble::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Native,
    Plain,
    Redisson,
    /// Servers that have forgotten, or whose clocks are set, stay out for a ttl.
    Redlock,
    /// Clocks are set ahead while their servers are in use.
    RedlockJumps,
    Sentinel,
    Cluster,
}

impl Mode {
    pub(crate) const ALL: [Self; 7] = [
        Self::Native,
        Self::Plain,
        Self::Redisson,
        Self::Redlock,
        Self::RedlockJumps,
        Self::Sentinel,
        Self::Cluster,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Plain => "plain",
            Self::Redisson => "redisson",
            Self::Redlock => "redlock",
            Self::RedlockJumps => "redlock-jumps",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }

    pub(crate) fn has_fence(self) -> bool {
        !matches!(self, Self::Plain | Self::Redisson)
    }

    /// Whether it promises that none of the faults here lets two hold a lock at once.
    pub(crate) fn is_exclusive(self) -> bool {
        !matches!(self, Self::RedlockJumps | Self::Sentinel | Self::Cluster)
    }
}

/// The servers of a mode.
#[derive(Debug)]
pub(crate) enum Servers {
    One(Server),
    Five(Box<Five>),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Servers {
    pub(crate) fn start(mode: Mode) -> Outcome<Self> {
        Ok(match mode {
            Mode::Native | Mode::Plain | Mode::Redisson => Self::One(Server::start()?),
            Mode::Redlock | Mode::RedlockJumps => {
                Self::Five(Box::new(Five::start_with_own_clocks()?))
            }
            Mode::Sentinel => Self::Sentinels(Sentinels::start()?),
            Mode::Cluster => Self::Cluster(Cluster::start()?),
        })
    }

    pub(crate) fn url(&self, mode: Mode) -> String {
        match self {
            Self::One(server) if mode == Mode::Native => server.url(),
            Self::One(server) => format!("{}?dialect={}", server.url(), mode.name()),
            Self::Five(five) => five.url(),
            Self::Sentinels(all) => all.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The servers that have locks, dead or alive.
    pub(crate) fn all(&self) -> &[Server] {
        match self {
            Self::One(server) => std::slice::from_ref(server),
            Self::Five(five) => &five.servers,
            Self::Sentinels(all) => &all.servers,
            Self::Cluster(cluster) => &cluster.nodes,
        }
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.all().iter().map(Server::port).collect()
    }

    /// What is at the servers though nobody is there any more: locks and lines, counters beyond one
    /// for each key, connections. Some of it goes by itself after a while.
    pub(crate) fn leftovers(&self) -> io::Result<Vec<String>> {
        let mut left = Vec::new();
        for server in self.all() {
            let mut client = server.client()?;
            client.be_patient_for(Duration::from_secs(5))?;
            left.extend(keys_left(&mut client)?);
            let clients = client.command(&["CLIENT", "LIST"])?.not_an_error()?.text();
            let strangers = clients.lines().filter(|line| is_stranger(line));
            left.extend(strangers.map(|line| format!("a connection: {line}")));
        }
        Ok(left)
    }
}

/// Counters are for many keys, so they have no key's name in theirs, and they stay.
fn keys_left(client: &mut Client) -> io::Result<Vec<String>> {
    let names = client.command(&["KEYS", "*"])?.not_an_error()?;
    let names: Vec<String> = names.list().iter().map(lab::redis::Reply::text).collect();
    let (mut left, counters): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| name.contains("key-"));
    left.extend(counters.into_iter().skip(N_KEYS as usize));
    Ok(left)
}

/// Neither ours, nor that of another server.
fn is_stranger(line: &str) -> bool {
    let has = |field: &str| line.split(' ').any(|it| it.starts_with(field));
    !(has("cmd=client|list")
        || has("cmd=replconf")
        || has("cmd=psync")
        || has("name=sentinel-")
        || has("flags=S")
        || has("flags=M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_lines_and_connections_are_left_but_counters_are_not() {
        let servers = Servers::start(Mode::Native).unwrap();
        let server = &servers.all()[0];
        for name in ["lk:{01f}n", "lk:{01f}k:key-0", "lk:{01f}l:key-1"] {
            server.command(&["SET", name, "1"]).unwrap();
        }
        let mut left = servers.leftovers().unwrap();
        left.sort();
        assert_eq!(left, ["lk:{01f}k:key-0", "lk:{01f}l:key-1"]);
        let mut other = server.client().unwrap();
        other.command(&["PING"]).unwrap();
        let is_connection = |left: &&String| left.starts_with("a connection");
        assert_eq!(servers.leftovers().unwrap().iter().filter(is_connection).count(), 1);
    }
}
