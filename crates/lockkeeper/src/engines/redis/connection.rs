//! One connection, shared by all the tasks of one runtime: what they send goes out together, and
//! every answer finds the one who asked.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

use tokio::net::tcp::OwnedWriteHalf;

use super::{
    bits::Bits,
    call::{Again, Call},
    ear::Ears,
    refusal::is_unknown_script,
    reply::{Added, Answer, Reply},
    resp::Value,
};
use crate::{
    engine::Moment,
    error::{Error, ErrorKind, Result},
    sync::{is_unattended, locked},
    url::Host,
};

/// After this long without an answer, a connection gets no new calls: another one is opened.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// So many calls are sent without waiting for more: while the server works on them, the next are made.
/// Fewer would be sent one by one, and a system call costs as much as several calls.
const MANY: usize = 32;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) host: Host,
    /// The channel of this connection alone, on which claims are told of their grants.
    pub(super) channel: String,
    pub(super) ears: Ears,
    /// Which fence counters have been lifted to the server's time since this connection stands.
    pub(super) lifted: Bits,
    /// When the oldest call was sent that is not answered, in nanoseconds; [`NONE`] if all are, and
    /// [`UNFIT`] when there shall be no more. Kept beside the state, so that looking is free.
    oldest: AtomicU64,
    state: Mutex<State>,
}

const NONE: u64 = u64::MAX - 1;
const UNFIT: u64 = 0;

#[derive(Debug)]
struct State {
    stage: Stage,
    has_opened: bool,
    /// What is to be sent, and how many calls that is.
    out: Vec<u8>,
    n_calls_out: usize,
    /// How many calls went with the last write.
    n_calls_before: usize,
    /// Those who wait for answers, in the order of their calls.
    pending: VecDeque<Pending>,
    driver: Option<Waker>,
    /// Whether the driver has taken bytes that it has not written all.
    driver_writes: bool,
    wire: Option<Arc<OwnedWriteHalf>>,
}

#[derive(Debug)]
enum Stage {
    Connecting,
    Open,
    /// No more calls; what was sent is still to be answered.
    Retired,
    Ended(Error),
}

#[derive(Debug)]
struct Pending {
    answer: Arc<Answer>,
    sent_at: Moment,
    /// What to send if the server does not know the script.
    again: Option<Arc<Again>>,
}

/// Whether somebody waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// At once.
    Now,
    /// With the next call, or as soon as the driver comes to it.
    Later,
}

impl Haste {
    /// Later, if nobody is there to be woken by the answer.
    pub(super) fn of_caller() -> Self {
        if is_unattended() { Self::Later } else { Self::Now }
    }
}

/// What the one who drives the connection has to do.
pub(super) enum Work {
    Nothing,
    Write,
    /// There is nothing left to do, ever.
    Done,
}

impl Connection {
    pub(super) fn new(host: Host, channel: String) -> Self {
        let state = State {
            stage: Stage::Connecting,
            has_opened: false,
            out: Vec::new(),
            n_calls_out: 0,
            n_calls_before: 0,
            pending: VecDeque::new(),
            driver: None,
            driver_writes: false,
            wire: None,
        };
        let (ears, lifted) = (Ears::default(), Bits::default());
        let oldest = AtomicU64::new(NONE);
        Self { host, channel, ears, lifted, oldest, state: Mutex::new(state) }
    }

    /// Sends a call, now or together with others.
    pub(super) fn send(&self, call: &Call, now: Moment, haste: Haste) -> Reply {
        let reply = Reply(Arc::new(Answer::of(call.n_replies)));
        self.send_for(&reply.0, call, now, haste);
        reply
    }

    /// The same for one who knows where the answer is to be.
    pub(super) fn send_for(&self, answer: &Arc<Answer>, call: &Call, now: Moment, haste: Haste) {
        let (answer, again) = (Arc::clone(answer), call.again.clone());
        let pending = Pending { answer, sent_at: now, again };
        self.push(pending, haste, |out| out.extend_from_slice(&call.bytes));
    }

    /// The same for commands that are packed right where they are sent from.
    pub(super) fn send_packed(
        &self,
        answer: &Arc<Answer>,
        now: Moment,
        haste: Haste,
        pack: impl FnOnce(&mut Vec<u8>),
    ) {
        let answer = Arc::clone(answer);
        self.push(Pending { answer, sent_at: now, again: None }, haste, pack);
    }

    fn push(&self, pending: Pending, haste: Haste, pack: impl FnOnce(&mut Vec<u8>)) {
        let mut state = locked(&self.state);
        if let Stage::Ended(error) = &state.stage {
            let error = error.echo();
            drop(state);
            pending.answer.fail(error);
            return;
        }
        let is_quiet = state.is_quiet();
        pack(&mut state.out);
        state.n_calls_out += 1;
        state.pending.push_back(pending);
        if state.pending.len() == 1 {
            self.note_oldest(&state);
        }
        let is_enough = state.n_calls_out >= MANY && !state.driver_writes;
        if haste == Haste::Now && (is_quiet || is_enough) {
            state.write_at_once();
        }
        let driver = if state.out.is_empty() { None } else { state.driver.take() };
        drop(state);
        driver.into_iter().for_each(Waker::wake);
    }

    /// Whether new calls may go here.
    pub(super) fn is_fit(&self, now: Moment) -> bool {
        match self.oldest.load(Ordering::Relaxed) {
            UNFIT => false,
            NONE => true,
            oldest => now.since(Moment::from_nanos(oldest)) < STALLED_AFTER,
        }
    }

    /// Notes what [`is_fit`](Self::is_fit) needs to know.
    fn note_oldest(&self, state: &State) {
        let oldest = match state.stage {
            Stage::Connecting | Stage::Open => state
                .pending
                .front()
                .map_or(NONE, |oldest| oldest.sent_at.as_nanos().clamp(1, NONE)),
            Stage::Retired | Stage::Ended(_) => UNFIT,
        };
        self.oldest.store(oldest, Ordering::Relaxed);
    }

    pub(super) fn has_opened(&self) -> bool {
        locked(&self.state).has_opened
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(locked(&self.state).stage, Stage::Ended(_))
    }

    /// Gives the connection no new calls; it ends when all that was sent is answered.
    pub(super) fn retire(&self) {
        let mut state = locked(&self.state);
        if let Stage::Connecting | Stage::Open = state.stage {
            state.stage = Stage::Retired;
            self.note_oldest(&state);
        }
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
    }

    /// The connection stands. Calls may write by themselves where that can be done.
    pub(super) fn opened(&self, wire: Option<Arc<OwnedWriteHalf>>) {
        let mut state = locked(&self.state);
        if let Stage::Connecting = state.stage {
            state.stage = Stage::Open;
        }
        state.has_opened = true;
        state.wire = wire;
    }

    /// What there is to do for the driver, who is woken when there is more.
    pub(super) fn work(&self, driver: &Waker) -> Work {
        let mut state = locked(&self.state);
        state.driver_writes = false;
        if !state.out.is_empty() {
            return Work::Write;
        }
        if matches!(state.stage, Stage::Retired) && state.pending.is_empty() {
            return Work::Done;
        }
        state.set_driver(driver);
        Work::Nothing
    }

    /// While connecting: whether nobody needs the connection any more.
    pub(super) fn is_unwanted(&self, driver: &Waker) -> bool {
        let mut state = locked(&self.state);
        state.set_driver(driver);
        matches!(state.stage, Stage::Retired)
    }

    /// Hands over what is to be written; `bytes` is taken in exchange.
    pub(super) fn take_out(&self, bytes: &mut Vec<u8>) {
        let mut state = locked(&self.state);
        std::mem::swap(&mut state.out, bytes);
        state.driver_writes = true;
        state.n_calls_before = std::mem::take(&mut state.n_calls_out);
    }

    /// Gives replies to those who wait for them; answers who is to be woken.
    pub(super) fn take_replies(
        &self,
        replies: &mut Vec<Value>,
        wakers: &mut Vec<Waker>,
    ) -> Result<()> {
        let mut state = locked(&self.state);
        for reply in replies.drain(..) {
            let Some(first) = state.pending.front() else {
                let message = "the server sent a reply that nobody asked for";
                return Err(Error::new(ErrorKind::Other, message));
            };
            if first.again.is_some() && is_unknown_script(&reply) {
                state.send_again();
            } else if let Added::Whole(waker) = first.answer.add(reply) {
                state.pending.pop_front();
                wakers.extend(waker);
            }
        }
        self.note_oldest(&state);
        Ok(())
    }

    /// The connection is gone: everyone who waits is told why.
    pub(super) fn end(&self, why: &Error) {
        let (pending, wire) = {
            let mut state = locked(&self.state);
            if let Stage::Ended(_) = state.stage {
                return;
            }
            state.stage = Stage::Ended(why.echo());
            self.note_oldest(&state);
            state.out = Vec::new();
            (std::mem::take(&mut state.pending), state.wire.take())
        };
        drop(wire);
        pending.into_iter().for_each(|pending| pending.answer.fail(why.echo()));
        self.ears.tell_the_end();
    }
}

impl State {
    fn set_driver(&mut self, driver: &Waker) {
        if !self.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            self.driver = Some(driver.clone());
        }
    }

    /// Whether nothing is under way, and seldom is: with many tasks, leaving the writing to the driver
    /// lets their calls go out together.
    fn is_quiet(&self) -> bool {
        self.pending.len() == self.n_calls_out && self.n_calls_out <= 1 && self.n_calls_before <= 2
    }

    /// Sends what stands in for the oldest call; its answer comes behind all others.
    fn send_again(&mut self) {
        let Some(mut oldest) = self.pending.pop_front() else { return };
        if let Some(again) = oldest.again.take() {
            again.push(&mut self.out);
            self.n_calls_out += 1;
        }
        self.pending.push_back(oldest);
    }

    /// Writes from the caller's own thread, as far as that goes without waiting.
    fn write_at_once(&mut self) {
        let Some(wire) = &self.wire else { return };
        // An error will meet the driver too, which tells everyone.
        let n_written = wire.try_write(&self.out).unwrap_or(0);
        if n_written == self.out.len() {
            self.out.clear();
            self.n_calls_before = std::mem::take(&mut self.n_calls_out);
        } else {
            self.out.drain(..n_written);
        }
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
        locked(&connection.state).n_calls_out
    }

    #[tokio::test]
    async fn many_are_written_at_once_but_never_past_the_driver() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let (_, write) = TcpStream::connect(address).await.unwrap().into_split();
        let host = Host { name: address.ip().to_string(), port: address.port() };
        let connection = Connection::new(host, "ours".into());
        connection.opened(Some(Arc::new(write)));
        send(&connection, 1);
        assert_eq!(n_waiting(&connection), 0, "a lone call is written at once");
        send(&connection, MANY - 1);
        assert_eq!(n_waiting(&connection), MANY - 1);
        send(&connection, 1);
        assert_eq!(n_waiting(&connection), 0, "so many are enough");
        // The driver has some in hands and has not written them all: what is sent now comes behind.
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
