//! One connection, shared by all tasks of one runtime. Their calls are written together, and every response is given to
//! its caller.

mod state;

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

use tokio::net::tcp::OwnedWriteHalf;

use self::state::{Stage, State};
use super::{
    bucket_set::BucketSet,
    call::Call,
    outbox::{Batch, Caller, Outbox, Release},
    reply::{Answer, Reply},
    resp::Value,
};
use crate::{
    engine::{
        Moment,
        error::{Error, Result},
        poller,
    },
    engines::net::{driving::Driven, listener::Listeners},
    tools::{
        sync::{keep_waker, locked, wake},
        url::Host,
    },
};

/// A connection that has not responded for this long gets no new calls; another connection is opened.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// With this many calls a write does not wait for more: the server works on them while the next calls are made. A
/// smaller number would mean more writes, and a write costs as much as several calls.
const MANY: usize = 32;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) host: Host,
    /// The channel that belongs to this connection only. Claims are told of their grants on it.
    pub(crate) channel: String,
    pub(crate) listeners: Listeners,
    /// The buckets whose fence counters were lifted to the server's time since this connection was opened.
    pub(crate) lifted: BucketSet,
    purpose: Use,
    /// When the oldest pending call was sent, in nanoseconds; [`NONE`] if no call is pending, and [`UNFIT`] if the
    /// connection takes no more calls. Kept outside the mutex, so that reading is cheap.
    oldest: AtomicU64,
    state: Mutex<State>,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Calls, each of which has a response.
    Calls,
    /// Shard channels. A server may end such a subscription by itself, and announces that with the same message as the
    /// response to `SUNSUBSCRIBE`. Responses cannot be told from announcements, so no call here waits for one.
    Shards,
}

const NONE: u64 = u64::MAX - 1;
const UNFIT: u64 = 0;

/// When a call is written: whether a caller waits for the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// At once.
    Now,
    /// With the next call, or when the driver runs.
    Later,
}

impl Haste {
    /// `Later`, if the poller of the current call does not wait for the response.
    pub(crate) fn of_caller() -> Self {
        if poller().waits { Self::Now } else { Self::Later }
    }
}

/// What the driver has to do next.
pub(crate) enum Work {
    Nothing,
    Write,
    /// The connection is finished.
    Done,
}

impl Connection {
    pub(crate) fn new(host: Host, channel: String, purpose: Use) -> Self {
        let state = State::default();
        let (listeners, lifted) = (Listeners::default(), BucketSet::default());
        let oldest = AtomicU64::new(NONE);
        Self { host, channel, listeners, lifted, purpose, oldest, state: Mutex::new(state) }
    }

    /// Sends a call, now or together with others.
    pub(crate) fn send(&self, call: &Call, now: Moment, haste: Haste) -> Reply {
        let reply = Reply(Arc::new(Answer::of(call.n_replies)));
        self.send_for(&reply.0, call, now, haste);
        reply
    }

    /// Sends a call whose response goes into `answer`, which the caller already has. Returns the batch of the call.
    pub(crate) fn send_for(
        &self,
        answer: &Arc<Answer>,
        call: &Call,
        now: Moment,
        haste: Haste,
    ) -> Batch {
        let caller = Caller { answer: Arc::clone(answer), again: call.again.clone() };
        let pack = |out: &mut Vec<u8>| out.extend_from_slice(&call.bytes);
        self.push(caller, haste, |state, caller, _| state.out.add(caller, now, pack))
            .unwrap_or_default()
    }

    /// Sends commands that `pack` writes directly into the outbox, without a buffer in between.
    pub(crate) fn send_packed(
        &self,
        answer: Arc<Answer>,
        now: Moment,
        haste: Haste,
        pack: impl FnOnce(&mut Vec<u8>),
    ) {
        let caller = Caller { answer, again: None };
        self.push(caller, haste, |state, caller, is_alone| {
            if is_alone {
                state.out.add_alone(caller, now, pack, &mut state.pending);
            } else {
                state.out.add(caller, now, pack);
            }
        });
    }

    /// Sends a release, combined with other releases of the same write; see [`Outbox::add_release`].
    pub(crate) fn send_release(
        &self,
        caller: Caller,
        now: Moment,
        haste: Haste,
        release: Release<'_>,
        behind: Option<Batch>,
    ) {
        self.push(caller, haste, |state, caller, is_alone| {
            if is_alone {
                let pack = |out: &mut Vec<u8>| release.push(out);
                state.out.add_alone(caller, now, pack, &mut state.pending);
            } else {
                state.out.add_release(caller, now, release, behind, &mut state.pending);
            }
        });
    }

    /// Sends a call without waiting for a response, on a connection for [shard channels](Use::Shards).
    pub(crate) fn send_unheard(&self, call: &Call) {
        let mut state = locked(&self.state);
        state.out.add_unheard(&call.bytes);
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(wake);
    }

    pub(crate) fn is_for(&self, purpose: Use) -> bool {
        self.purpose == purpose
    }

    fn push<T>(
        &self,
        caller: Caller,
        haste: Haste,
        add: impl FnOnce(&mut State, Caller, bool) -> T,
    ) -> Option<T> {
        let mut state = locked(&self.state);
        if let Stage::Ended(error) = &state.stage {
            let error = error.echo();
            drop(state);
            caller.answer.fail(error);
            return None;
        }
        let (is_quiet, is_first) = (state.is_quiet(), state.is_idle());
        // This call is written at once, and by itself.
        let is_alone = is_quiet && is_first && haste == Haste::Now;
        let added = add(&mut state, caller, is_alone);
        if is_first {
            self.note_oldest(&state);
        }
        let is_enough = state.out.n_calls >= MANY && !state.driver_writes;
        if haste == Haste::Now && (is_quiet || is_enough) {
            state.write_at_once();
        }
        let driver = if state.out.is_empty() { None } else { state.driver.take() };
        drop(state);
        driver.into_iter().for_each(wake);
        Some(added)
    }

    /// Whether the connection may get new calls.
    pub(crate) fn is_fit(&self, now: Moment) -> bool {
        match self.oldest.load(Ordering::Relaxed) {
            UNFIT => false,
            NONE => true,
            oldest => now.since(Moment::from_nanos(oldest)) < STALLED_AFTER,
        }
    }

    /// Updates the moment that [`is_fit`](Self::is_fit) compares with.
    fn note_oldest(&self, state: &State) {
        let oldest = match state.stage {
            Stage::Connecting | Stage::Open => {
                state.oldest().map_or(NONE, |sent_at| sent_at.as_nanos().clamp(1, NONE))
            }
            Stage::Retired | Stage::Ended(_) => UNFIT,
        };
        self.oldest.store(oldest, Ordering::Relaxed);
    }

    pub(crate) fn has_opened(&self) -> bool {
        locked(&self.state).has_opened
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(locked(&self.state).stage, Stage::Ended(_))
    }

    /// Stops new calls. The connection ends when no call is pending.
    pub(crate) fn retire(&self) {
        let mut state = locked(&self.state);
        if let Stage::Connecting | Stage::Open = state.stage {
            state.stage = Stage::Retired;
            self.note_oldest(&state);
        }
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(wake);
    }

    /// What the driver has to do. If nothing, the driver is woken when that changes.
    pub(crate) fn work(&self, driver: &Waker) -> Work {
        let mut state = locked(&self.state);
        state.driver_writes = false;
        if !state.out.is_empty() {
            return Work::Write;
        }
        match state.stage {
            Stage::Retired if state.is_idle() => return Work::Done,
            Stage::Ended(_) => return Work::Done,
            _ => {}
        }
        keep_waker(state, |state| &mut state.driver, driver);
        Work::Nothing
    }

    /// Swaps the bytes that are to be written for `bytes`, an empty buffer.
    pub(crate) fn take_out(&self, bytes: &mut Vec<u8>) {
        let mut state = locked(&self.state);
        state.close_out();
        state.out.swap(bytes);
        state.driver_writes = true;
    }

    /// Locks the state for giving replies to callers.
    pub(crate) fn desk(&self) -> Desk<'_> {
        Desk { connection: self, state: locked(&self.state) }
    }
}

impl Driven for Connection {
    fn is_unwanted(&self, driver: &Waker) -> bool {
        let state = locked(&self.state);
        let is_unwanted = matches!(state.stage, Stage::Retired | Stage::Ended(_));
        keep_waker(state, |state| &mut state.driver, driver);
        is_unwanted
    }

    fn opened(&self, wire: Option<Arc<OwnedWriteHalf>>) {
        let mut state = locked(&self.state);
        if let Stage::Connecting = state.stage {
            state.stage = Stage::Open;
        }
        state.has_opened = true;
        state.wire = wire;
    }

    /// All pending callers are told why, and later responses of the server are discarded.
    fn end(&self, why: &Error) {
        let (pending, wire, driver) = {
            let mut state = locked(&self.state);
            if let Stage::Ended(_) = state.stage {
                return;
            }
            state.stage = Stage::Ended(why.echo());
            self.note_oldest(&state);
            state.close_out();
            state.out = Outbox::default();
            (std::mem::take(&mut state.pending), state.wire.take(), state.driver.take())
        };
        drop(wire);
        driver.into_iter().for_each(Waker::wake);
        for pending in pending {
            pending.callers().into_iter().for_each(|caller| caller.answer.fail(why.echo()));
        }
        self.listeners.tell_the_end();
    }
}

/// The locked state of a connection, for the task that reads replies.
pub(crate) struct Desk<'a> {
    connection: &'a Connection,
    state: MutexGuard<'a, State>,
}

impl Desk<'_> {
    /// Gives a reply to its caller, and adds the caller's waker to `wakers`.
    pub(crate) fn take_reply(&mut self, reply: Value, wakers: &mut Vec<Waker>) -> Result<()> {
        self.state.take_reply(reply, wakers)
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        self.connection.note_oldest(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const NOW: Moment = Moment::from_nanos(1);

    fn send(connection: &Connection, n_calls: usize) {
        for _ in 0..n_calls {
            drop(connection.send(&Call::of(&[b"PING"]), NOW, Haste::Now));
        }
    }

    fn n_waiting(connection: &Connection) -> usize {
        locked(&connection.state).out.n_calls
    }

    #[tokio::test]
    async fn many_are_written_at_once_but_never_past_the_driver() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let (_, write) = TcpStream::connect(address).await.unwrap().into_split();
        let host = Host { name: address.ip().to_string(), port: address.port() };
        let connection = Connection::new(host, "ours".into(), Use::Calls);
        connection.opened(Some(Arc::new(write)));
        send(&connection, 1);
        assert_eq!(n_waiting(&connection), 0, "a lone call is written at once");
        send(&connection, MANY - 1);
        assert_eq!(n_waiting(&connection), MANY - 1);
        send(&connection, 1);
        assert_eq!(n_waiting(&connection), 0, "so many are enough");
        // The driver has taken bytes and has not written all of them: new calls must come after these bytes.
        send(&connection, 1);
        let mut in_hands = Vec::new();
        connection.take_out(&mut in_hands);
        send(&connection, 2 * MANY);
        assert_eq!(n_waiting(&connection), 2 * MANY);
        assert!(matches!(connection.work(Waker::noop()), Work::Write));
        send(&connection, 1);
        assert_eq!(n_waiting(&connection), 0, "the driver has written its own");
    }
}
