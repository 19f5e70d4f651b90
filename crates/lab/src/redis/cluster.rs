//! A cluster of three primaries and three replicas.

use std::io;

use super::{
    Reply, Server,
    map::{Member, seen_by},
    server::{SYNC_BY_FILE, usual_args},
};
use crate::{Folder, wait_until};

const N_PRIMARIES: usize = 3;
const N_SLOTS: usize = 16384;

/// A cluster. Nodes are known by their number; in the beginning the first three are primaries, and
/// node `n + 3` is the replica of node `n`.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes, in the order in which they were started.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts it; all slots are served when this returns, and all replicas follow.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start() -> io::Result<Self> {
        let nodes: io::Result<_> = (0..2 * N_PRIMARIES).map(|_| start_node()).collect();
        let cluster = Self { nodes: nodes? };
        cluster.divide_slots()?;
        cluster.introduce()?;
        let ids = cluster.ids()?;
        for (replica, id) in cluster.nodes[N_PRIMARIES..].iter().zip(&ids) {
            run(replica, &["CLUSTER", "REPLICATE", id])?;
        }
        wait_until("every node of a cluster is content", || cluster.is_complete())?;
        Ok(cluster)
    }

    /// The URL with the first three nodes.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes[..N_PRIMARIES].iter().map(Server::address).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// What the system says; a node must be running.
    pub fn slot_of(&self, key: &str) -> io::Result<u16> {
        let node = self.running().next().ok_or(io::ErrorKind::NotConnected)?;
        let slot = node.command(&["CLUSTER", "KEYSLOT", key])?.not_an_error()?.int();
        slot.and_then(|slot| slot.try_into().ok()).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// The number of the node that is primary for a slot, when all running nodes agree on it.
    ///
    /// # Errors
    /// If they do not agree in time.
    pub fn node_of(&self, slot: u16) -> io::Result<usize> {
        self.wait_for_node_of(slot, |_| true)
    }

    /// The numbers of all primaries that run, as one of them sees it.
    ///
    /// # Errors
    /// What the system says; a node must be running.
    pub fn primaries(&self) -> io::Result<Vec<usize>> {
        let node = self.running().next().ok_or(io::ErrorKind::NotConnected)?;
        let primaries = seen_by(node)?.into_iter().filter(|member| member.is_primary);
        Ok(primaries.filter_map(|member| self.number_of(&member)).collect())
    }

    /// Kills the primary of a slot and waits until its replica has taken its place. Gives the
    /// number of the one that was killed; when restarted, it is a replica.
    ///
    /// # Errors
    /// What the system says; that nobody takes its place in time.
    pub fn kill_primary_of(&mut self, slot: u16) -> io::Result<usize> {
        let killed = self.node_of(slot)?;
        self.nodes[killed].kill()?;
        self.wait_for_node_of(slot, |node| node != killed)?;
        Ok(killed)
    }

    /// Moves a slot with its keys to another primary.
    ///
    /// # Errors
    /// What the system says, or a node's refusal.
    pub fn move_slot(&self, slot: u16, to: usize) -> io::Result<()> {
        self.begin_move(slot, to)?;
        self.finish_move(slot, to)
    }

    /// Begins to move a slot: what is there stays, and for what is not there the node sends its
    /// clients on (`ASK`).
    ///
    /// # Errors
    /// What the system says, or a node's refusal.
    pub fn begin_move(&self, slot: u16, to: usize) -> io::Result<()> {
        let (from, ids, slot) = (self.node_of(slot)?, self.ids()?, slot.to_string());
        run(&self.nodes[to], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[from]])?;
        run(&self.nodes[from], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[to]])?;
        Ok(())
    }

    /// Moves the keys of a slot and ends its move; all running nodes know when this returns.
    ///
    /// # Errors
    /// What the system says, or a node's refusal.
    pub fn finish_move(&self, slot: u16, to: usize) -> io::Result<()> {
        let (from, ids, slot_text) = (self.node_of(slot)?, self.ids()?, slot.to_string());
        self.move_keys(&slot_text, from, to)?;
        // The new owner first: a slot must not be without one.
        for node in [to, from] {
            run(&self.nodes[node], &["CLUSTER", "SETSLOT", &slot_text, "NODE", &ids[to]])?;
        }
        self.wait_for_node_of(slot, |node| node == to).map(drop)
    }

    fn move_keys(&self, slot: &str, from: usize, to: usize) -> io::Result<()> {
        let port = self.nodes[to].port().to_string();
        loop {
            let keys = run(&self.nodes[from], &["CLUSTER", "GETKEYSINSLOT", slot, "100"])?;
            if keys.list().is_empty() {
                return Ok(());
            }
            let mut words: Vec<&[u8]> =
                vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"10000", b"KEYS"];
            words.extend(keys.list().iter().map(Reply::bytes));
            self.nodes[from].command(&words)?.not_an_error()?;
        }
    }

    fn divide_slots(&self) -> io::Result<()> {
        for (number, node) in self.nodes.iter().enumerate() {
            // Different from the beginning, so that nobody has to settle it.
            run(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
        }
        for (number, node) in self.nodes[..N_PRIMARIES].iter().enumerate() {
            let first = number * N_SLOTS / N_PRIMARIES;
            let last = (number + 1) * N_SLOTS / N_PRIMARIES - 1;
            run(node, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
        Ok(())
    }

    /// Every node to every other: by hearsay it would take seconds.
    fn introduce(&self) -> io::Result<()> {
        for (number, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[number + 1..] {
                let (port, second) = (other.port().to_string(), other.second_port().to_string());
                run(node, &["CLUSTER", "MEET", "127.0.0.1", &port, &second])?;
            }
        }
        wait_until("all nodes of a cluster know each other", || {
            self.all(|node| Ok(seen_by(node)?.len() == self.nodes.len()))
        })
    }

    fn is_complete(&self) -> io::Result<bool> {
        self.all(|node| {
            let info = run(node, &["CLUSTER", "INFO"])?.text();
            let members = seen_by(node)?;
            let n_primaries = members.iter().filter(|member| member.is_primary).count();
            let is_up = node.info("role")? == "master" || node.info("master_link_status")? == "up";
            Ok(info.contains("cluster_state:ok")
                && info.contains(&format!("cluster_slots_ok:{N_SLOTS}"))
                && (members.len(), n_primaries) == (self.nodes.len(), N_PRIMARIES)
                && is_up)
        })
    }

    fn wait_for_node_of(&self, slot: u16, is_right: impl Fn(usize) -> bool) -> io::Result<usize> {
        let mut found = None;
        wait_until("the nodes of a cluster agree on a slot", || {
            let mut owners = Vec::new();
            for node in self.running() {
                if !run(node, &["CLUSTER", "INFO"])?.text().contains("cluster_state:ok") {
                    return Ok(false);
                }
                let members = seen_by(node)?;
                let owner = members.iter().find(|member| member.has(slot));
                owners.push(owner.and_then(|member| self.number_of(member)));
            }
            owners.dedup();
            found = if let [owner] = owners[..] { owner.filter(|it| is_right(*it)) } else { None };
            Ok(found.is_some())
        })?;
        found.ok_or(io::ErrorKind::NotFound.into())
    }

    fn all(&self, is_so: impl Fn(&Server) -> io::Result<bool>) -> io::Result<bool> {
        self.nodes.iter().try_fold(true, |all, node| Ok(all && is_so(node)?))
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    fn number_of(&self, member: &Member) -> Option<usize> {
        self.nodes.iter().position(|node| node.port() == member.port)
    }

    /// The names under which the nodes know each other, by their numbers; empty for one that does
    /// not run.
    fn ids(&self) -> io::Result<Vec<String>> {
        let id = |node: &Server| match node.is_running() {
            true => run(node, &["CLUSTER", "MYID"]).map(|reply| reply.text()),
            false => Ok(String::new()),
        };
        self.nodes.iter().map(id).collect()
    }
}

fn start_node() -> io::Result<Server> {
    Server::launch(Folder::new()?, &[], |folder, ports| {
        let bus = ports.second.to_string();
        let more = [
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &bus],
            ["--cluster-node-timeout", "1000"],
            // A replica takes over however old its data: a test that waits for it must end.
            ["--cluster-replica-validity-factor", "0"],
            SYNC_BY_FILE,
        ];
        let mut args = usual_args(folder, ports);
        args.extend(more.concat().into_iter().map(str::to_owned));
        Ok(args)
    })
}

fn run(node: &Server, words: &[&str]) -> io::Result<Reply> {
    node.command(words)?.not_an_error()
}
