//! Five servers that know nothing of each other.

use std::io;

use super::Server;

/// Five independent servers, for locks that need a majority of them.
#[derive(Debug)]
pub struct Five {
    /// The servers, in the order of the URL.
    pub servers: [Server; 5],
}

impl Five {
    /// Starts them; all answer when this returns.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start() -> io::Result<Self> {
        Self::start_each(Server::start)
    }

    /// Starts them with wall clocks that can be set ([`Server::set_clock_ahead`]).
    ///
    /// # Errors
    /// As [`Server::start_with_own_clock`].
    pub fn start_with_own_clocks() -> io::Result<Self> {
        Self::start_each(Server::start_with_own_clock)
    }

    fn start_each(start: fn() -> io::Result<Server>) -> io::Result<Self> {
        let servers = [(); 5].map(|()| start());
        let [one, two, three, four, five] = servers;
        Ok(Self { servers: [one?, two?, three?, four?, five?] })
    }

    /// The URL of all five.
    pub fn url(&self) -> String {
        format!("redlock://{}", self.servers.each_ref().map(Server::address).join(","))
    }
}
