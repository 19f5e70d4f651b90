//! The state of a connection: pending calls, and calls that are still to be written.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use tokio::net::tcp::OwnedWriteHalf;

use crate::{
    engine::{
        Moment,
        error::{Error, ErrorKind, Result},
    },
    engines::redis::wire::{
        outbox::{Outbox, Pending, Who, share},
        refusal::is_unknown_script,
        reply::Added,
        resp::Value,
    },
};

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) stage: Stage,
    pub(crate) has_opened: bool,
    pub(crate) out: Outbox,
    /// How many calls the last write had.
    n_calls_before: usize,
    /// Calls without a response, in the order in which they were sent.
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) driver: Option<Waker>,
    /// Whether the driver has taken bytes and has not yet written all of them.
    pub(crate) driver_writes: bool,
    pub(crate) wire: Option<Arc<OwnedWriteHalf>>,
}

#[derive(Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Connecting,
    Open,
    /// The connection takes no more calls; pending calls still get their responses.
    Retired,
    Ended(Error),
}

impl State {
    /// Whether no call is pending or to be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.out.is_empty()
    }

    /// Whether the connection is idle, and writes have been small. With many tasks, the driver should write, because
    /// then their calls go out together.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.out.n_calls <= 1 && self.n_calls_before <= 2
    }

    /// When the oldest call without a response was sent. Calls with the moment `NEVER` do not count: no caller waits
    /// for them.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        let mut pending = self.pending.iter().map(|pending| pending.sent_at);
        pending.find(|sent_at| *sent_at != Moment::NEVER).or_else(|| self.out.since())
    }

    /// Gives a reply to its caller, and adds the caller's waker to `wakers`.
    pub(crate) fn take_reply(&mut self, reply: Value, wakers: &mut Vec<Waker>) -> Result<()> {
        let Some(oldest) = self.pending.front() else {
            let message = "the server sent a reply that nobody asked for";
            return Err(Error::new(ErrorKind::Other, message));
        };
        match &oldest.who {
            Who::One(caller) if caller.again.is_none() || !is_unknown_script(&reply) => {
                if let Added::Whole(waker) = caller.answer.add(reply) {
                    wakers.extend(waker);
                    self.pending.pop_front();
                }
            }
            _ => self.take_apart(&reply, wakers),
        }
        Ok(())
    }

    /// Gives each caller of a combined call its part of the reply. If the server did not know the script, sends each
    /// caller's retry instead; their responses come after all others.
    fn take_apart(&mut self, reply: &Value, wakers: &mut Vec<Waker>) {
        let Some(oldest) = self.pending.pop_front() else { return };
        let (sent_at, is_unknown) = (oldest.sent_at, is_unknown_script(reply));
        for (number, mut caller) in oldest.callers().into_iter().enumerate() {
            if let Some(again) = caller.again.take_if(|_| is_unknown) {
                self.out.add(caller, sent_at, |out| again.push(out));
            } else if let Added::Whole(waker) = caller.answer.add(share(reply, number)) {
                wakers.extend(waker);
            }
        }
    }

    /// Turns all calls that are to be sent into bytes.
    pub(crate) fn close_out(&mut self) {
        self.n_calls_before = self.out.n_calls;
        self.out.close(&mut self.pending);
    }

    /// Writes from the caller's thread, as much as the socket takes without blocking.
    pub(crate) fn write_at_once(&mut self) {
        if self.wire.is_some() {
            self.close_out();
        }
        let Some(wire) = &self.wire else { return };
        // An error shows up in the driver as well, which tells all callers.
        let n_written = wire.try_write(self.out.bytes()).unwrap_or(0);
        self.out.wrote(n_written);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::LazyLock,
        task::{Context, Poll},
    };

    use super::*;
    use crate::engines::redis::wire::{call::Call, outbox::Caller, reply::Answer, script::Script};

    const NOW: Moment = Moment::from_nanos(1);

    fn caller(call: &Call) -> Caller {
        Caller { answer: Arc::new(Answer::of(1)), again: call.again.clone() }
    }

    fn reply_of(answer: &Answer) -> Option<Value> {
        let context = Context::from_waker(Waker::noop());
        match answer.poll(&context, |replies| replies[0].clone()) {
            Poll::Ready(reply) => Some(reply.unwrap()),
            Poll::Pending => None,
        }
    }

    /// A state with a combined call of two callers, one of which has a retry for an unknown script.
    fn two() -> (State, [Arc<Answer>; 2]) {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(&["return 1"]));
        let callers =
            [caller(&Call::of(&[b"PING"])), caller(&Call::sure_script(&SCRIPT, b"lock", b"owner"))];
        let answers = [Arc::clone(&callers[0].answer), Arc::clone(&callers[1].answer)];
        let mut state = State::default();
        let who = Who::All(callers.into());
        state.pending.push_back(Pending { sent_at: NOW, who });
        (state, answers)
    }

    #[test]
    fn each_of_two_has_its_answer() {
        let (mut state, answers) = two();
        let list = Value::List(vec![Value::Int(1), Value::Int(0)]);
        state.take_reply(list, &mut Vec::new()).unwrap();
        assert_eq!(
            answers.map(|answer| reply_of(&answer).unwrap()),
            [Value::Int(1), Value::Int(0)]
        );
        assert!(state.is_idle());
        assert!(state.take_reply(Value::Okay, &mut Vec::new()).is_err(), "nobody is left");
    }

    #[test]
    fn a_script_that_is_unknown_is_sent_by_those_who_can() {
        let (mut state, [first, second]) = two();
        let unknown = Value::Error("NOSCRIPT No matching script".into());
        state.take_reply(unknown.clone(), &mut Vec::new()).unwrap();
        assert_eq!((reply_of(&first), reply_of(&second)), (Some(unknown), None));
        assert_eq!((state.out.n_calls, state.oldest()), (1, Some(NOW)));
        state.close_out();
        assert!(state.out.bytes().starts_with(b"*5\r\n$4\r\nEVAL\r\n"));
        state.take_reply(Value::Int(1), &mut Vec::new()).unwrap();
        assert_eq!(reply_of(&second), Some(Value::Int(1)));
    }
}
