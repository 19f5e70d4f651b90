//! Calls that are to be sent over one connection, in order. Releases go before the other calls, and many releases are
//! combined into one command, because starting a script costs the server more than releasing a lock.

use std::{collections::VecDeque, mem, sync::Arc};

use super::{
    call::Again,
    digits::Digits,
    reply::Answer,
    resp::{Value, push_header, push_word},
    script::Script,
};
use crate::engine::Moment;

/// The most releases in one command: while a script runs, the server does nothing else.
const MOST: usize = 128;

/// The caller of a pending call.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) answer: Arc<Answer>,
    /// The command to retry with if the server does not know the script.
    pub(crate) again: Option<Arc<Again>>,
}

/// A call that was sent, or is about to be sent, and has no response yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) sent_at: Moment,
    pub(crate) who: Who,
}

#[derive(Debug)]
pub(crate) enum Who {
    One(Caller),
    /// One reply is the response to all of these callers.
    All(Vec<Caller>),
}

impl Pending {
    pub(crate) fn callers(self) -> Vec<Caller> {
        match self.who {
            Who::One(caller) => vec![caller],
            Who::All(callers) => callers,
        }
    }
}

/// The release of one lock, which can be combined with other releases. The scripts need the lock and its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release<'a> {
    pub(crate) one: &'static Script,
    /// Made from `release_many.lua`.
    pub(crate) many: &'static Script,
    /// The name of the lock, packed as a word of a command.
    pub(crate) lock_word: &'a [u8],
    pub(crate) owner: &'a [u8],
}

impl Release<'_> {
    /// Packs the release as a command of its own.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        self.one.push_for_one(out);
        out.extend_from_slice(self.lock_word);
        push_word(out, &[self.owner]);
    }
}

/// The number of a write: calls that are sent together have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch(u64);

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Bytes that are ready to be written.
    bytes: Vec<u8>,
    /// Calls that come after those bytes, and their callers.
    calls: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Releases, which come between the bytes and the calls.
    releases: Releases,
    /// The number of calls in all of the above.
    pub(crate) n_calls: usize,
    n_batches: u64,
}

#[derive(Debug, Default)]
struct Releases {
    /// The script for one release, and the script for many.
    scripts: Option<[&'static Script; 2]>,
    locks: Vec<u8>,
    owners: Vec<u8>,
    callers: Vec<Caller>,
    /// When the first release was added.
    since: Option<Moment>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.n_calls == 0
    }

    /// When the oldest call was added that is not among the ready bytes.
    pub(crate) fn since(&self) -> Option<Moment> {
        self.pending
            .front()
            .map(|pending| pending.sent_at)
            .into_iter()
            .chain(self.releases.since)
            .min()
    }

    /// Adds a call, and returns the batch that the call is sent in.
    pub(crate) fn add(
        &mut self,
        caller: Caller,
        sent_at: Moment,
        pack: impl FnOnce(&mut Vec<u8>),
    ) -> Batch {
        pack(&mut self.calls);
        self.pending.push_back(Pending { sent_at, who: Who::One(caller) });
        self.n_calls += 1;
        Batch(self.n_batches)
    }

    /// Adds a call that has no caller and no entry among the pending calls.
    pub(crate) fn add_unheard(&mut self, bytes: &[u8]) {
        self.calls.extend_from_slice(bytes);
        self.n_calls += 1;
    }

    /// Adds a call to an empty outbox: its bytes are ready to be written at once.
    pub(crate) fn add_alone(
        &mut self,
        caller: Caller,
        sent_at: Moment,
        pack: impl FnOnce(&mut Vec<u8>),
        pending: &mut VecDeque<Pending>,
    ) {
        pack(&mut self.bytes);
        pending.push_back(Pending { sent_at, who: Who::One(caller) });
        self.n_calls += 1;
    }

    /// Adds a release. A release overtakes the calls of its batch. So if a call for the same lock may still be unsent, the
    /// batch of that call is given as `behind`, and the release stays behind the call.
    pub(crate) fn add_release(
        &mut self,
        caller: Caller,
        sent_at: Moment,
        release: Release<'_>,
        behind: Option<Batch>,
        pending: &mut VecDeque<Pending>,
    ) {
        if behind == Some(Batch(self.n_batches)) {
            self.add(caller, sent_at, |out| release.push(out));
            return;
        }
        if !self.releases.have_room_for(&release) {
            self.close(pending);
        }
        self.releases.add(caller, sent_at, release);
        self.n_calls += 1;
    }

    /// Turns all calls and releases into ready bytes, and moves their callers to `pending`.
    pub(crate) fn close(&mut self, pending: &mut VecDeque<Pending>) {
        if self.calls.is_empty() && self.releases.callers.is_empty() {
            return;
        }
        self.n_batches += 1;
        self.releases.close(&mut self.bytes, pending);
        if self.bytes.is_empty() {
            mem::swap(&mut self.bytes, &mut self.calls);
        } else {
            self.bytes.append(&mut self.calls);
        }
        pending.append(&mut self.pending);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Notes how many of the ready bytes were written.
    pub(crate) fn wrote(&mut self, n_bytes: usize) {
        if n_bytes < self.bytes.len() {
            self.bytes.drain(..n_bytes);
        } else {
            self.bytes.clear();
            self.n_calls = 0;
        }
    }

    /// Swaps the ready bytes for `bytes`, an empty buffer.
    pub(crate) fn swap(&mut self, bytes: &mut Vec<u8>) {
        mem::swap(&mut self.bytes, bytes);
        self.n_calls = 0;
    }
}

impl Releases {
    fn have_room_for(&self, release: &Release<'_>) -> bool {
        let are_alike = |[one, _]: [&Script; 2]| std::ptr::eq(one, release.one);
        self.callers.len() < MOST && self.scripts.is_none_or(are_alike)
    }

    fn add(&mut self, caller: Caller, sent_at: Moment, release: Release<'_>) {
        self.scripts = Some([release.one, release.many]);
        self.locks.extend_from_slice(release.lock_word);
        push_word(&mut self.owners, &[release.owner]);
        self.callers.push(caller);
        self.since.get_or_insert(sent_at);
    }

    fn close(&mut self, out: &mut Vec<u8>, pending: &mut VecDeque<Pending>) {
        let (Some([one, many]), Some(sent_at)) = (self.scripts.take(), self.since.take()) else {
            return;
        };
        let n_locks = self.callers.len();
        push_header(out, b'*', 3 + 2 * n_locks);
        out.extend_from_slice(if n_locks == 1 { &one.start } else { &many.start });
        push_word(out, &[Digits::of(n_locks as u64).as_bytes()]);
        out.append(&mut self.locks);
        out.append(&mut self.owners);
        let who = match self.callers.pop() {
            Some(only) if n_locks == 1 => Who::One(only),
            last => Who::All(self.callers.drain(..).chain(last).collect()),
        };
        pending.push_back(Pending { sent_at, who });
    }
}

/// The part of a combined reply that belongs to one of its callers.
pub(crate) fn share(reply: &Value, number: usize) -> Value {
    match reply {
        Value::List(each) => each.get(number).cloned().unwrap_or_default(),
        all => all.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static ONE: LazyLock<Script> = LazyLock::new(|| Script::new(&["return 1"]));
    static OTHER: LazyLock<Script> = LazyLock::new(|| Script::new(&["return 2"]));
    static MANY: LazyLock<Script> = LazyLock::new(|| Script::new(&["return 3"]));
    const NOW: Moment = Moment::from_nanos(1);

    fn caller() -> Caller {
        Caller { answer: Arc::new(Answer::of(1)), again: None }
    }

    #[derive(Default)]
    struct Room {
        out: Outbox,
        pending: VecDeque<Pending>,
    }

    impl Room {
        fn call(&mut self, text: &str) -> Batch {
            self.out.add(caller(), NOW, |out| out.extend_from_slice(text.as_bytes()))
        }

        fn release(&mut self, one: &'static Script, behind: Option<Batch>) {
            let release = Release { one, many: &MANY, lock_word: b"$1\r\nk\r\n", owner: b"o" };
            self.out.add_release(caller(), NOW, release, behind, &mut self.pending);
        }

        /// The bytes to be written, with hashes of scripts cut short, and the number of callers for each reply.
        fn sent(&mut self) -> (String, Vec<usize>) {
            self.out.close(&mut self.pending);
            let mut bytes = Vec::new();
            self.out.swap(&mut bytes);
            let mut text = String::from_utf8(bytes).unwrap().replace("\r\n", " ");
            for (script, name) in [(&ONE, "one"), (&OTHER, "other"), (&MANY, "many")] {
                text = text.replace(&format!("$7 EVALSHA $40 {}", script.hash), name);
            }
            assert!(self.out.is_empty());
            (text, self.pending.drain(..).map(|pending| pending.callers().len()).collect())
        }
    }

    fn is(text: &str, waiting: &[usize]) -> (String, Vec<usize>) {
        (text.to_owned(), waiting.to_vec())
    }

    #[test]
    fn releases_are_one_and_come_before_the_calls_they_are_sent_with() {
        let mut room = Room::default();
        room.call("a ");
        room.release(&ONE, None);
        room.call("b ");
        room.release(&ONE, None);
        assert_eq!(room.out.n_calls, 4);
        assert_eq!(room.sent(), is("*7 many $1 2 $1 k $1 k $1 o $1 o a b ", &[2, 1, 1]));
        room.call("a ");
        room.release(&ONE, None);
        assert_eq!(room.sent(), is("*5 one $1 1 $1 k $1 o a ", &[1, 1]));
    }

    #[test]
    fn a_release_never_overtakes_its_own_call() {
        let mut room = Room::default();
        let sent_before = room.call("a ");
        room.sent();
        let with_it = room.call("b ");
        room.release(&ONE, Some(sent_before));
        room.release(&ONE, Some(with_it));
        assert_eq!(room.sent(), is("*5 one $1 1 $1 k $1 o b *5 one $1 1 $1 k $1 o ", &[1, 1, 1]));
    }

    #[test]
    fn too_many_or_others_are_one_of_their_own() {
        let mut room = Room::default();
        room.call("a ");
        room.release(&ONE, None);
        room.release(&OTHER, None);
        assert_eq!(room.sent(), is("*5 one $1 1 $1 k $1 o a *5 other $1 1 $1 k $1 o ", &[1, 1, 1]));
        (0..=MOST).for_each(|_| room.release(&ONE, None));
        assert_eq!(room.sent().1, [MOST, 1]);
    }

    #[test]
    fn what_was_not_written_stays_before_all_else() {
        let mut room = Room::default();
        room.call("abc ");
        room.out.close(&mut room.pending);
        room.out.wrote(1);
        room.release(&ONE, None);
        assert_eq!(room.out.since(), Some(NOW));
        assert_eq!(room.sent(), is("bc *5 one $1 1 $1 k $1 o ", &[1, 1]));
    }

    #[test]
    fn each_has_its_share_of_a_reply() {
        let list = Value::List(vec![Value::Int(1), Value::Int(0)]);
        let shares: Vec<_> = (0..3).map(|number| share(&list, number)).collect();
        assert_eq!(shares, [Value::Int(1), Value::Int(0), Value::Nil]);
        assert_eq!(share(&Value::Int(1), 7), Value::Int(1));
    }
}
