//! The threads of a proxy: one listens, and two carry bytes for each connection.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    Way,
    state::{Shared, Verdict},
};
use crate::free_port;

/// Before something that did not work is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Listens where nobody else does, also not when the proxy has refused connections for a while.
pub(super) fn listen() -> io::Result<TcpListener> {
    const N_TRIES: usize = 5;
    let mut listener = bind(free_port()?);
    for _ in 1..N_TRIES {
        if listener.is_ok() {
            break;
        }
        listener = bind(free_port()?);
    }
    listener
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// Should somebody have taken the port meanwhile, it waits until it is free.
fn bind_again(shared: &Shared, port: u16) -> Option<TcpListener> {
    while !shared.lock().is_over {
        let bound = bind(port).and_then(|listener| Ok((listener.try_clone()?, listener)));
        if let Ok((switch, listener)) = bound {
            shared.change(|state| state.listens(switch));
            return Some(listener);
        }
        thread::sleep(PAUSE);
    }
    None
}

/// Takes connections until the proxy is over.
pub(super) fn accept(shared: &Arc<Shared>, mut listener: TcpListener, port: u16) {
    loop {
        let stream = listener.accept();
        let is_refusing = shared.lock().is_refusing;
        match stream {
            // Without a server the client finds its connection closed.
            Ok((stream, _)) if !is_refusing => drop(carry(shared, stream)),
            _ if !is_refusing => thread::sleep(PAUSE),
            _ => {
                drop((stream, listener));
                shared.change(|state| state.is_listening = false);
                shared.wait_while(|state| state.is_refusing && !state.is_over);
                let Some(again) = bind_again(shared, port) else { return };
                listener = again;
            }
        }
    }
}

fn carry(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let streams = [client.try_clone()?, server.try_clone()?];
    let (client_too, server_too) = (client.try_clone()?, server.try_clone()?);
    let id = shared.change(|state| state.add(streams));
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        thread::scope(|scope| {
            scope.spawn(|| pump(&shared, id, Way::Down, server, client_too));
            pump(&shared, id, Way::Up, client, server_too);
        });
        shared.change(|state| state.remove(id));
    });
    Ok(())
}

/// Carries bytes one way until there are no more.
fn pump(shared: &Shared, id: usize, way: Way, mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        // A broken connection is an end like any other.
        let n_bytes = from.read(&mut bytes).unwrap_or(0);
        let Some(verdict) = shared.judge(id, way, &bytes[..n_bytes]) else { return };
        let written = write(&mut to, &verdict);
        if verdict.is_cut_then {
            shared.change(|state| state.cut(id));
        }
        if n_bytes == 0 || written.is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}

fn write(to: &mut TcpStream, verdict: &Verdict) -> io::Result<()> {
    if !verdict.is_dripping {
        return to.write_all(&verdict.passed);
    }
    verdict.passed.iter().try_for_each(|byte| to.write_all(&[*byte]))
}
