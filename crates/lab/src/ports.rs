//! Ports that nobody listens on.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Below the range from which the kernel takes ports for outgoing connections, so that a server
/// finds its port again after a restart.
const FIRST: usize = 10_000;
const N_PORTS: usize = 20_000;

/// A port on the loopback address that nobody listens on right now.
///
/// # Errors
/// If all are taken.
pub fn free_port() -> io::Result<u16> {
    // Every process begins elsewhere and no port is given twice, so that two hardly ever meet.
    static NEXT: OnceLock<AtomicUsize> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicUsize::new(fastrand::usize(..N_PORTS)));
    for _ in 0..N_PORTS {
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % N_PORTS;
        let port = u16::try_from(port).map_err(io::Error::other)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;

    #[test]
    fn a_free_port_can_be_listened_on_and_is_not_given_again() {
        let port = free_port().unwrap();
        let mut listener = None;
        // A test that starts a program meanwhile has copies of our sockets for a moment.
        let listen = || {
            listener = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?);
            Ok(true)
        };
        wait_until("to listen on a free port", listen).unwrap();
        assert_ne!(free_port().unwrap(), port);
        drop(listener);
    }
}
