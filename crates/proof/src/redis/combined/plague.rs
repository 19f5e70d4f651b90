//! What is done to the servers meanwhile.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use lab::redis::{Cluster, Five, Reply, Sentinels, Server};

use super::{
    TTL,
    mode::{Mode, Servers},
    tally::Tally,
};

/// Haunts the servers until it is over, then leaves them well.
pub(crate) struct Plague<'a> {
    random: fastrand::Rng,
    is_over: &'a AtomicBool,
    /// Whether clocks are set while the server is in use.
    clocks_jump: bool,
    pub(crate) tally: Tally,
    /// What went wrong with the servers themselves.
    pub(crate) complaints: Vec<String>,
}

impl<'a> Plague<'a> {
    pub(crate) fn new(mode: Mode, random: fastrand::Rng, is_over: &'a AtomicBool) -> Self {
        let clocks_jump = mode == Mode::RedlockJumps;
        Self { random, is_over, clocks_jump, tally: Tally::default(), complaints: Vec::new() }
    }

    /// # Errors
    /// What the system says when the servers are made well again; complaints are kept meanwhile.
    pub(crate) fn haunt(&mut self, servers: &mut Servers) -> io::Result<()> {
        // Everybody is there first.
        self.pause(0.5, 1.5);
        while !self.is_over.load(Ordering::SeqCst) {
            let done = match servers {
                Servers::One(server) => self.haunt_one(server),
                Servers::Five(five) => self.haunt_five(five),
                Servers::Sentinels(all) => self.haunt_sentinels(all),
                Servers::Cluster(cluster) => self.haunt_cluster(cluster),
            };
            // The next fault finds all of them well again; only the processes never get a rest.
            if let Err(error) = done.and_then(|()| heal(servers)) {
                self.complaints.push(error.to_string());
            }
            self.pause(1.0, 3.0);
        }
        heal(servers)
    }

    /// Between so many seconds, unless it is over before.
    fn pause(&mut self, least: f64, most: f64) {
        let length = Duration::from_secs_f64(least + self.random.f64() * (most - least));
        let until = Instant::now() + length;
        while Instant::now() < until && !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// However soon it is over: it would be another fault otherwise.
    fn pause_to_the_end(&mut self, least: f64, most: f64) {
        thread::sleep(Duration::from_secs_f64(least + self.random.f64() * (most - least)));
    }

    fn haunt_one(&mut self, server: &Server) -> io::Result<()> {
        server.stop()?;
        self.tally.count("server pauses");
        self.pause_to_the_end(0.1, 1.6);
        server.go_on()
    }

    /// Two of the five, each in a way of its own; then nobody for longer than a ttl.
    fn haunt_five(&mut self, five: &mut Five) -> io::Result<()> {
        let first = self.random.usize(..5);
        let second = (first + self.random.usize(1..5)) % 5;
        let [one, two] = [self.random.u8(..3), self.random.u8(..3)];
        let victims = [(first, one), (second, two)];
        let ahead = Duration::from_secs_f64(self.random.f64() * 20.0);
        for (number, way) in victims {
            match way {
                0 => five.servers[number].kill()?,
                // One whose clock is set stays out for a ttl, as one that has forgotten.
                _ if way == 1 || !self.clocks_jump => five.servers[number].stop()?,
                _ => five.servers[number].set_clock_ahead(ahead)?,
            }
        }
        self.pause_to_the_end(TTL.as_secs_f64() * 1.05, 3.0);
        for (number, way) in victims {
            let server = &mut five.servers[number];
            match way {
                0 => server.restart_empty()?,
                1 => server.go_on()?,
                _ => {
                    server.set_clock_ahead(ahead)?;
                    server.go_on()?;
                }
            }
            self.tally.count(match way {
                0 => "servers killed and back empty",
                1 => "server pauses",
                _ => "clocks ahead",
            });
        }
        self.pause_to_the_end(TTL.as_secs_f64(), 2.0);
        Ok(())
    }

    fn haunt_sentinels(&mut self, all: &mut Sentinels) -> io::Result<()> {
        match self.random.u8(..3) {
            0 => {
                let killed = all.kill_primary()?;
                self.tally.count("failovers by kill");
                self.pause_to_the_end(0.0, 1.0);
                all.servers[killed].restart()?;
            }
            1 => {
                let primary = all.primary_number()?;
                all.servers[primary].stop()?;
                self.pause_to_the_end(1.2, 6.0);
                all.servers[primary].go_on()?;
                let follows = all.primary_number()? != primary;
                self.tally.count(if follows { "failovers by pause" } else { "server pauses" });
            }
            _ => {
                all.fail_over()?;
                self.tally.count("planned failovers");
            }
        }
        Ok(())
    }

    fn haunt_cluster(&mut self, cluster: &mut Cluster) -> io::Result<()> {
        let slot = self.slot_in_use(cluster)?;
        let primary = cluster.node_of(slot)?;
        match self.random.u8(..6) {
            0..3 => self.move_slot(cluster, slot, primary)?,
            3 => {
                let killed = cluster.kill_primary_of(slot)?;
                self.tally.count("failovers by kill");
                self.pause_to_the_end(0.0, 1.0);
                cluster.nodes[killed].restart()?;
            }
            4 => {
                cluster.nodes[primary].stop()?;
                self.pause_to_the_end(0.5, 5.0);
                cluster.nodes[primary].go_on()?;
                let follows = cluster.node_of(slot)? != primary;
                self.tally.count(if follows { "failovers by pause" } else { "server pauses" });
            }
            _ => {
                let replica = partner(primary);
                cluster.nodes[replica].command(&["CLUSTER", "FAILOVER"])?.not_an_error()?;
                self.tally.count("planned failovers");
                cluster.node_of(slot)?;
            }
        }
        // The only replica of each must be there before its primary may go.
        is_followed(cluster)
    }

    /// While it is used, and with a while in which both nodes have a part of it.
    fn move_slot(&mut self, cluster: &Cluster, slot: u16, from: usize) -> io::Result<()> {
        let mut others = cluster.primaries()?;
        others.retain(|node| *node != from);
        let to = others[self.random.usize(..others.len())];
        until_told(|| cluster.begin_move(slot, to))?;
        self.pause_to_the_end(0.0, 1.0);
        let first = until_told(|| migrate(cluster, slot, from, to, Some(1)));
        self.pause_to_the_end(0.0, 1.0);
        // Cut after it was done, it must not be done again: the keys would go where they are.
        let finish = || match cluster.node_of(slot)? == to {
            true => Ok(()),
            false => cluster.finish_move(slot, to),
        };
        let moved = first.and_then(|_| until_told(finish));
        self.tally.count("slot moves");
        if let Err(error) = moved {
            self.tally.count("slot moves that stood still");
            self.complaints.push(format!("the move of slot {slot} stood still: {error}"));
            until_told(|| force_move(cluster, slot, from, to))?;
        }
        Ok(())
    }

    /// The slot of some key that is there now.
    fn slot_in_use(&mut self, cluster: &Cluster) -> io::Result<u16> {
        let mut found = None;
        lab::wait_until("a key is at a node of the cluster", || {
            let primaries = cluster.primaries()?;
            let node = &cluster.nodes[primaries[self.random.usize(..primaries.len())]];
            let names = node.command(&["KEYS", "*"])?.not_an_error()?;
            found = names.list().first().map(Reply::text);
            Ok(found.is_some())
        })?;
        cluster.slot_of(&found.unwrap_or_default())
    }
}

/// Node `n` and node `n + 3` take each other's place.
fn partner(node: usize) -> usize {
    (node + 3) % 6
}

/// Again if our own connection was cut, as others are: only what a server says is an answer.
fn until_told<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const N_TRIES: usize = 20;
    for _ in 1..N_TRIES {
        match ask() {
            Err(error) if was_cut(&error) => thread::sleep(Duration::from_millis(20)),
            answer => return answer,
        }
    }
    ask()
}

fn was_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// As an administrator would have to: what is at the new node goes.
fn force_move(cluster: &Cluster, slot: u16, from: usize, to: usize) -> io::Result<()> {
    lab::wait_until("the rest of a slot is moved by force", || {
        Ok(migrate(cluster, slot, from, to, None)? == 0)
    })?;
    cluster.finish_move(slot, to)
}

/// Moves so many keys of a slot, or many of them and by force; answers how many there were.
fn migrate(
    cluster: &Cluster,
    slot: u16,
    from: usize,
    to: usize,
    n_keys: Option<usize>,
) -> io::Result<usize> {
    let (slot, port) = (slot.to_string(), cluster.nodes[to].port().to_string());
    let at_most = n_keys.unwrap_or(100).to_string();
    let keys = cluster.nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot, &at_most])?;
    let keys = keys.not_an_error()?;
    let mut words: Vec<&[u8]> =
        vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"10000"];
    if n_keys.is_none() {
        words.push(b"REPLACE");
    }
    words.push(b"KEYS");
    words.extend(keys.list().iter().map(Reply::bytes));
    if !keys.list().is_empty() {
        cluster.nodes[from].command(&words)?.not_an_error()?;
    }
    Ok(keys.list().len())
}

fn is_followed(cluster: &Cluster) -> io::Result<()> {
    lab::wait_until("every node of the cluster follows or is followed", || {
        for node in &cluster.nodes {
            if node.info("role")? != "master" && node.info("master_link_status")? != "up" {
                return Ok(false);
            }
        }
        let n_primaries = cluster
            .nodes
            .iter()
            .filter(|node| node.info("role").is_ok_and(|role| role == "master"));
        Ok(n_primaries.count() == 3)
    })
}

/// Whatever was left undone: all run, with the right time, and know each other.
fn heal(servers: &mut Servers) -> io::Result<()> {
    match servers {
        Servers::One(server) => server.go_on(),
        Servers::Five(five) => {
            for server in &mut five.servers {
                revive(server)?;
                server.set_clock_ahead(Duration::ZERO)?;
            }
            Ok(())
        }
        Servers::Sentinels(all) => {
            all.servers.iter_mut().try_for_each(revive)?;
            // Asked anew each time: a failover may still be on its way.
            lab::wait_until("all servers follow the primary", || {
                let primary = all.primary_number()?;
                let mut others = (0..all.servers.len()).filter(|number| *number != primary);
                others.try_fold(true, |all_do, number| {
                    Ok(all_do && all.servers[number].info("master_link_status")? == "up")
                })
            })
        }
        Servers::Cluster(cluster) => {
            cluster.nodes.iter_mut().try_for_each(revive)?;
            cluster.node_of(0)?;
            is_followed(cluster)
        }
    }
}

fn revive(server: &mut Server) -> io::Result<()> {
    // Fails only if it is gone, which is seen next.
    let _ = server.go_on();
    match server.client() {
        Ok(_) => Ok(()),
        Err(_) => server.restart(),
    }
}
