//! A primary, two replicas, and three sentinels that watch over them.

use std::{fs, io};

use super::{
    Reply, Server,
    server::{Ports, SYNC_BY_FILE, data_folder, usual_args},
};
use crate::{Folder, wait_until};

/// The name under which the sentinels know the primary.
const NAME: &str = "locks";
const N_SERVERS: usize = 3;
const N_SENTINELS: usize = 3;

/// Servers of which one is primary, and sentinels that make another one primary when it is gone.
/// Servers are known by their number; in the beginning the first one is primary.
#[derive(Debug)]
pub struct Sentinels {
    /// The servers.
    pub servers: Vec<Server>,
    /// The sentinels, which are servers of a kind.
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts all; every sentinel knows everybody when this returns.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start() -> io::Result<Self> {
        Self::start_all(None, None)
    }

    /// Starts all with one password for the servers and another one for the sentinels.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with_passwords(servers: &str, sentinels: &str) -> io::Result<Self> {
        Self::start_all(Some(servers), Some(sentinels))
    }

    fn start_all(server_password: Option<&str>, password: Option<&str>) -> io::Result<Self> {
        let primary = start_server(None, server_password)?;
        let port = primary.port();
        let mut servers = vec![primary];
        for _ in 1..N_SERVERS {
            servers.push(start_server(Some(port), server_password)?);
        }
        let mut all = Self { servers, sentinels: Vec::new() };
        // The sentinels learn from the primary who its replicas are, and ask seldom.
        wait_until("two replicas follow a primary", || all.is_followed(0))?;
        for _ in 0..N_SENTINELS {
            all.sentinels.push(start_sentinel(port, server_password, password)?);
        }
        wait_until("every sentinel knows everybody", || all.is_settled())?;
        Ok(all)
    }

    /// The URL with all sentinels.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(Server::address).collect();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// The server that is primary, when all running sentinels agree on it.
    ///
    /// # Errors
    /// If they do not agree in time.
    pub fn primary(&self) -> io::Result<&Server> {
        Ok(&self.servers[self.primary_number()?])
    }

    /// The number of the server that is primary, as [`Sentinels::primary`].
    ///
    /// # Errors
    /// If the sentinels do not agree in time.
    pub fn primary_number(&self) -> io::Result<usize> {
        self.wait_for_primary(|_| true)
    }

    /// Has another server made primary, and waits until all is settled: all running sentinels and
    /// servers follow the new one. Gives its number.
    ///
    /// # Errors
    /// What the system says; that it does not happen in time.
    pub fn fail_over(&self) -> io::Result<usize> {
        let old = self.primary_number()?;
        let sentinel = self.running_sentinels().next().ok_or(io::ErrorKind::NotConnected)?;
        wait_until("a sentinel agrees to a failover", || {
            sentinel.command(&["SENTINEL", "FAILOVER", NAME])?.not_an_error().map(|_| true)
        })?;
        let new = self.wait_for_primary(|number| number != old)?;
        wait_until("all follow the new primary", || self.is_followed(new))?;
        Ok(new)
    }

    /// Kills the primary and waits until another server is primary and all that run follow it.
    /// Gives the number of the one that was killed; when restarted, it soon is a replica.
    ///
    /// # Errors
    /// What the system says; that it does not happen in time.
    pub fn kill_primary(&mut self) -> io::Result<usize> {
        let killed = self.primary_number()?;
        self.servers[killed].kill()?;
        let new = self.wait_for_primary(|number| number != killed)?;
        wait_until("all follow the new primary", || self.is_followed(new))?;
        Ok(killed)
    }

    /// Has another server made primary while the old one lives on as a primary, and goes on taking what it is
    /// asked for: as one does that the sentinels cannot reach. Gives the numbers of the old and the new one.
    ///
    /// # Errors
    /// What the system says; that it does not happen in time.
    pub fn depose(&self) -> io::Result<(usize, usize)> {
        let old = self.primary_number()?;
        self.keep_in_office(old)?;
        let sentinel = self.running_sentinels().next().ok_or(io::ErrorKind::NotConnected)?;
        wait_until("a sentinel agrees to a failover", || {
            sentinel.command(&["SENTINEL", "FAILOVER", NAME])?.not_an_error().map(|_| true)
        })?;
        Ok((old, self.another_than(old)?))
    }

    /// Has a server refuse to become a replica, for ever.
    ///
    /// # Errors
    /// What the system says, or the server's refusal.
    pub fn keep_in_office(&self, number: usize) -> io::Result<()> {
        let words = ["ACL", "SETUSER", "default", "-slaveof", "-replicaof"];
        self.servers[number].command(&words)?.not_an_error().map(drop)
    }

    /// Lets a server that was kept in office become a replica, and waits until all follow the primary.
    ///
    /// # Errors
    /// What the system says; that it does not happen in time.
    pub fn put_right(&self, number: usize) -> io::Result<()> {
        let words = ["ACL", "SETUSER", "default", "+slaveof", "+replicaof"];
        self.servers[number].command(&words)?.not_an_error()?;
        let primary = self.primary_number()?;
        wait_until("all follow the primary", || self.is_followed(primary))
    }

    /// Waits until the sentinels agree on another primary than this server. Gives its number.
    ///
    /// # Errors
    /// If they do not agree in time.
    pub fn another_than(&self, old: usize) -> io::Result<usize> {
        self.wait_for_primary(|number| number != old)
    }

    fn wait_for_primary(&self, is_right: impl Fn(usize) -> bool) -> io::Result<usize> {
        let mut found = None;
        wait_until("the sentinels agree on a primary", || {
            let numbers: io::Result<Vec<_>> =
                self.running_sentinels().map(|sentinel| self.named_by(sentinel)).collect();
            let mut numbers = numbers?;
            numbers.dedup();
            found =
                if let [number] = numbers[..] { number.filter(|it| is_right(*it)) } else { None };
            let Some(number) = found else { return Ok(false) };
            Ok(self.servers[number].info("role")? == "master")
        })?;
        found.ok_or(io::ErrorKind::NotFound.into())
    }

    /// The number of the server that a sentinel takes for the primary.
    fn named_by(&self, sentinel: &Server) -> io::Result<Option<usize>> {
        let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let port = address.not_an_error()?.list().get(1).and_then(Reply::int);
        Ok(self.servers.iter().position(|server| Some(i64::from(server.port())) == port))
    }

    /// Whether every other server that runs is a replica of this one.
    fn is_followed(&self, primary: usize) -> io::Result<bool> {
        let port = self.servers[primary].port().to_string();
        for (number, server) in self.servers.iter().enumerate() {
            let is_replica = number != primary && server.is_running();
            if is_replica
                && (server.info("role")? != "slave"
                    || server.info("master_port")? != port
                    || server.info("master_link_status")? != "up")
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether every sentinel knows the primary, two replicas that are well, and two sentinels.
    fn is_settled(&self) -> io::Result<bool> {
        for sentinel in &self.sentinels {
            let primary = sentinel.command(&["SENTINEL", "MASTER", NAME])?.not_an_error()?;
            let replicas = sentinel.command(&["SENTINEL", "REPLICAS", NAME])?.not_an_error()?;
            let n_well = replicas.list().iter().filter(|replica| {
                field(replica, "flags") == "slave" && field(replica, "master-link-status") == "ok"
            });
            if field(&primary, "flags") != "master"
                || field(&primary, "num-other-sentinels") != "2"
                || n_well.count() != N_SERVERS - 1
            {
                return Ok(false);
            }
            // Whether enough of them are well for a failover.
            sentinel.command(&["SENTINEL", "CKQUORUM", NAME])?.not_an_error()?;
        }
        Ok(true)
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &Server> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_running())
    }
}

fn start_server(follows: Option<u16>, password: Option<&str>) -> io::Result<Server> {
    let login: Vec<_> = password.into_iter().collect();
    Server::launch(Folder::new()?, &login, |folder, ports| {
        let mut more = vec![SYNC_BY_FILE, ["--repl-ping-replica-period", "1"]];
        if let Some(password) = password {
            more.extend([["--requirepass", password], ["--masterauth", password]]);
        }
        let primary = follows.map(|port| format!("127.0.0.1 {port}"));
        if let Some(primary) = &primary {
            more.push(["--replicaof", primary]);
        }
        let mut args = usual_args(folder, ports);
        args.extend(more.concat().into_iter().map(str::to_owned));
        Ok(args)
    })
}

fn start_sentinel(
    primary: u16,
    server_password: Option<&str>,
    password: Option<&str>,
) -> io::Result<Server> {
    let login: Vec<_> = password.into_iter().collect();
    let sentinel = Server::launch(Folder::new()?, &login, |folder, ports| {
        let mut settings = sentinel_settings(folder, ports, primary);
        if let Some(password) = server_password {
            settings += &format!("sentinel auth-pass {NAME} {password}\n");
        }
        if let Some(password) = password {
            settings += &format!("requirepass {password}\n");
        }
        let path = folder.join("sentinel.conf");
        fs::write(&path, settings)?;
        Ok(vec![path.display().to_string(), "--sentinel".to_owned()])
    })?;
    hurry(&sentinel)?;
    Ok(sentinel)
}

fn sentinel_settings(folder: &Folder, ports: Ports, primary: u16) -> String {
    format!(
        "port {port}\n\
         bind 127.0.0.1\n\
         dir {data}\n\
         sentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {NAME} 1000\n\
         sentinel failover-timeout {NAME} 3000\n\
         sentinel parallel-syncs {NAME} 1\n",
        port = ports.main,
        data = data_folder(folder).display(),
    )
}

/// Has it ask and tell more often than every few seconds, and not lose its trust in the clock, for
/// half a minute, because the machine was busy for two seconds.
fn hurry(sentinel: &Server) -> io::Result<()> {
    let settings = [
        ["info-period", "500"],
        ["publish-period", "200"],
        ["tilt-trigger", "20000"],
        ["tilt-period", "1000"],
    ];
    let words = [&["SENTINEL", "DEBUG"], settings.concat().as_slice()].concat();
    sentinel.command(&words)?.not_an_error().map(drop)
}

/// A field of an answer that is a list of names and values.
fn field(reply: &Reply, name: &str) -> String {
    let mut pairs = reply.list().chunks_exact(2);
    let pair = pairs.find(|pair| pair[0].bytes() == name.as_bytes());
    pair.map_or_else(String::new, |pair| pair[1].text())
}
