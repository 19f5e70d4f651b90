//! What the proxy has been told, and what it knows of its connections.

use std::{
    collections::{HashMap, VecDeque},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Counts, Then, Way,
    talk::{Loss, Talk, contains},
};

/// The state, shared by all threads of a proxy.
#[derive(Debug)]
pub(super) struct Shared {
    /// The port of the server.
    pub(super) server: u16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) is_over: bool,
    pub(super) is_refusing: bool,
    pub(super) is_listening: bool,
    listener: Option<TcpStream>,
    pub(super) is_black_hole: bool,
    pub(super) is_dripping: bool,
    pub(super) losses: Vec<Loss>,
    up: OneWay,
    down: OneWay,
    connections: HashMap<usize, Connection>,
    n_connections: usize,
    /// The last chunks from clients.
    recent: VecDeque<Vec<u8>>,
}

/// What has been told for one direction.
#[derive(Debug, Default)]
pub(super) struct OneWay {
    pub(super) is_held: bool,
    pub(super) delay: Duration,
    pub(super) cut: Option<Cut>,
    n_bytes: usize,
    n_chunks: usize,
}

/// Where in the next chunk a connection is cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    Half,
    After(usize),
}

#[derive(Debug)]
struct Connection {
    streams: [TcpStream; 2],
    talk: Talk,
    /// Bytes are missing, so nothing may follow them.
    is_silent: bool,
    is_cut: bool,
}

/// What to do with a chunk.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) passed: Vec<u8>,
    pub(super) is_dripping: bool,
    pub(super) is_cut_then: bool,
}

impl Shared {
    pub(super) fn new(server: u16) -> Self {
        Self { server, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let answer = change(&mut self.lock());
        self.changed.notify_all();
        answer
    }

    pub(super) fn wait_while(&self, is_so: impl Fn(&State) -> bool) {
        let state = self.changed.wait_while(self.lock(), |state| is_so(state));
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    /// Says what to do with a chunk when its time has come; nothing if its connection is cut. An
    /// empty chunk is the end.
    pub(super) fn judge(&self, id: usize, way: Way, chunk: &[u8]) -> Option<Verdict> {
        let mut state = self.lock();
        state.count(way, chunk);
        let due = Instant::now() + state.way(way).delay;
        loop {
            if state.connections.get(&id)?.is_cut {
                return None;
            }
            let left = due.saturating_duration_since(Instant::now());
            // In a black hole, nobody hears that the other side is gone either.
            let is_end_unheard = state.is_black_hole && chunk.is_empty();
            if state.way(way).is_held || is_end_unheard {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if !left.is_zero() {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                return state.verdict(id, way, chunk);
            }
        }
    }
}

impl State {
    pub(super) fn way(&mut self, way: Way) -> &mut OneWay {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }

    /// Takes note of the socket on which the proxy listens.
    pub(super) fn listens(&mut self, listener: TcpListener) {
        // As a stream, it can be shut down.
        self.listener = Some(TcpStream::from(OwnedFd::from(listener)));
        self.is_listening = true;
        if self.is_refusing {
            self.refuse();
        }
    }

    /// Ends the listening. Closing the socket would not do: a process that is being started by
    /// another thread has it, too, for a moment.
    pub(super) fn refuse(&mut self) {
        self.is_refusing = true;
        if let Some(listener) = self.listener.take() {
            shut_down(&listener);
        }
    }

    pub(super) fn heal(&mut self) {
        (self.is_black_hole, self.is_dripping) = (false, false);
        self.losses.clear();
        for way in [&mut self.up, &mut self.down] {
            (way.is_held, way.delay, way.cut) = (false, Duration::ZERO, None);
        }
    }

    /// A new connection's number.
    pub(super) fn add(&mut self, streams: [TcpStream; 2]) -> usize {
        self.n_connections += 1;
        let talk = Talk::default();
        let connection = Connection { streams, talk, is_silent: false, is_cut: false };
        self.connections.insert(self.n_connections, connection);
        self.n_connections
    }

    pub(super) fn remove(&mut self, id: usize) {
        self.connections.remove(&id);
    }

    pub(super) fn cut(&mut self, id: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.cut();
        }
    }

    pub(super) fn cut_all(&mut self) {
        self.connections.values_mut().for_each(Connection::cut);
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            connections: self.n_connections,
            open: self.connections.len(),
            bytes_up: self.up.n_bytes,
            bytes_down: self.down.n_bytes,
            chunks_up: self.up.n_chunks,
            chunks_down: self.down.n_chunks,
        }
    }

    pub(super) fn recent_chunk(&self, needle: &[u8]) -> Option<Vec<u8>> {
        self.recent.iter().rfind(|chunk| contains(chunk, needle)).cloned()
    }

    fn count(&mut self, way: Way, chunk: &[u8]) {
        const N_RECENT: usize = 256;
        if chunk.is_empty() {
            return;
        }
        let counts = self.way(way);
        counts.n_bytes += chunk.len();
        counts.n_chunks += 1;
        if way == Way::Up {
            self.recent.push_back(chunk.to_vec());
            let n_old = self.recent.len().saturating_sub(N_RECENT);
            self.recent.drain(..n_old);
        }
    }

    fn verdict(&mut self, id: usize, way: Way, chunk: &[u8]) -> Option<Verdict> {
        let connection = self.connections.get_mut(&id)?;
        connection.is_silent |= self.is_black_hole;
        let mut verdict =
            Verdict { passed: Vec::new(), is_dripping: self.is_dripping, is_cut_then: false };
        if connection.is_silent {
            return Some(verdict);
        }
        match way {
            Way::Up => {
                connection.talk.up(chunk, &mut self.losses);
                verdict.passed.extend_from_slice(chunk);
            }
            Way::Down => {
                let (passed, then) = connection.talk.down(chunk);
                verdict.passed = passed;
                verdict.is_cut_then = then == Some(Then::Cut);
                connection.is_silent = then.is_some();
            }
        }
        if !chunk.is_empty()
            && let Some(cut) = self.way(way).cut.take()
        {
            verdict.passed.truncate(match cut {
                Cut::Half => verdict.passed.len() / 2,
                Cut::After(n_bytes) => n_bytes,
            });
            verdict.is_cut_then = true;
        }
        Some(verdict)
    }
}

impl Connection {
    fn cut(&mut self) {
        self.is_cut = true;
        for stream in &self.streams {
            shut_down(stream);
        }
    }
}

fn shut_down(stream: &TcpStream) {
    // Fails only if the other side did it first.
    let _ = stream.shutdown(Shutdown::Both);
}
