//! A network that can be told to fail: stands between a client and a server on this machine.
//!
//! It never does what TCP cannot do. Where bytes are lost, the connection stays silent from then on
//! or is cut: nothing later comes through as if nothing had been missing.

mod frames;
mod state;
mod talk;
mod wire;

use std::{io, sync::Arc, thread::JoinHandle, time::Duration};

use self::{
    frames::Frames,
    state::{Cut, Shared, State},
    talk::Loss,
};
use crate::redis::{Client, Reply};

/// The direction in which bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

/// What becomes of a connection that has lost a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It stays open, and nothing comes through any more.
    Silence,
    /// It is cut.
    Cut,
}

/// What has come to the proxy, passed on or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections since the beginning.
    pub connections: usize,
    /// Connections that are open now.
    pub open: usize,
    /// Bytes from clients.
    pub bytes_up: usize,
    /// Bytes from the server.
    pub bytes_down: usize,
    /// Reads that brought bytes from clients.
    pub chunks_up: usize,
    /// Reads that brought bytes from the server.
    pub chunks_down: usize,
}

/// A proxy in front of one port; gone with all its connections when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Puts one in front of a port. It passes everything on until it is told otherwise.
    ///
    /// # Errors
    /// What the system says.
    pub fn to(server: u16) -> io::Result<Self> {
        let listener = wire::listen()?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::new(server));
        shared.lock().listens(listener.try_clone()?);
        let listening = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("lab-proxy".into()).spawn(move || {
                wire::accept(&shared, listener, port);
            })?
        };
        Ok(Self { port, shared, listening: Some(listening) })
    }

    /// Where it is spoken to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What has come so far.
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts()
    }

    /// Passes everything on again, and takes new connections. A connection that has lost bytes
    /// stays silent.
    pub fn heal(&self) {
        self.shared.change(State::heal);
        self.accept_again();
    }

    /// Keeps every chunk at least this long before it is passed on.
    pub fn delay(&self, way: Way, pause: Duration) {
        self.shared.change(|state| state.way(way).delay = pause);
    }

    /// Keeps everything that goes this way until [`Proxy::heal`], which lets it through.
    pub fn hold(&self, way: Way) {
        self.shared.change(|state| state.way(way).is_held = true);
    }

    /// Swallows everything, both ways, until [`Proxy::heal`]; connections stay open, new ones come
    /// about, and nothing answers.
    pub fn black_hole(&self) {
        self.shared.change(|state| state.is_black_hole = true);
    }

    /// Passes single bytes on, each in a write of its own.
    pub fn drip(&self) {
        self.shared.change(|state| state.is_dripping = true);
    }

    /// Cuts all connections now. New ones are taken; one over which nothing has come yet may be
    /// among them.
    pub fn cut(&self) {
        self.shared.change(State::cut_all);
    }

    /// Passes half of the next chunk that goes this way, then cuts its connection.
    pub fn cut_mid_frame(&self, way: Way) {
        self.shared.change(|state| state.way(way).cut = Some(Cut::Half));
    }

    /// Passes this many bytes of the next chunk that goes this way, then cuts its connection.
    pub fn cut_after(&self, way: Way, n_bytes: usize) {
        self.shared.change(|state| state.way(way).cut = Some(Cut::After(n_bytes)));
    }

    /// Refuses new connections from the moment this returns. Those that are open stay.
    pub fn refuse(&self) {
        self.shared.change(State::refuse);
        self.shared.wait_while(|state| state.is_listening);
    }

    /// Takes new connections again.
    pub fn accept_again(&self) {
        self.shared.change(|state| state.is_refusing = false);
        self.shared.wait_while(|state| !state.is_listening);
    }

    /// The next `n_replies` requests that contain the needle, in capitals or not, reach the server
    /// and are run, and their replies are lost. An empty needle is in every request.
    pub fn lose_replies(&self, n_replies: usize, needle: impl AsRef<[u8]>, then: Then) {
        let needle = needle.as_ref();
        let losses = (0..n_replies).map(|_| Loss { needle: needle.to_vec(), then });
        self.shared.change(|state| state.losses.extend(losses));
    }

    /// Whether all replies that were to be lost have met their request.
    pub fn has_lost_replies(&self) -> bool {
        self.shared.lock().losses.is_empty()
    }

    /// Sends the last chunk from a client that contains the needle to the server once more, on a
    /// new connection, and takes the replies.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there was no such chunk, else what the system says.
    pub fn replay(&self, needle: impl AsRef<[u8]>) -> io::Result<Vec<Reply>> {
        let chunk = self.shared.lock().recent_chunk(needle.as_ref());
        let chunk = chunk.ok_or(io::ErrorKind::NotFound)?;
        let mut client = Client::connect(self.shared.server)?;
        client.write_all(&chunk)?;
        let mut requests = Frames::default();
        requests.add(&chunk);
        std::iter::from_fn(|| requests.next()).map(|_| client.receive()).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.is_over = true;
            state.refuse();
        });
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        self.shared.change(State::cut_all);
        self.shared.wait_while(|state| state.counts().open > 0);
    }
}
