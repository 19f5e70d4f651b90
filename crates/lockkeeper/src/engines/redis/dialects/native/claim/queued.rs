//! What a claim does when the key is not simply free: asks by script, stands in line, hears of its grant.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::{LONGEST_PLACE, NativeClaim, Stage, TURNS, Way};
use crate::{
    engine::{
        Attempt, Grant, Lease, Moment, Order, Patience,
        error::{Error, Result},
    },
    engines::redis::{
        dialects::native::{
            ASK, ASK_BY_CLOCK,
            packing::{Keys, Numbering, PackedAsk, push_script},
            place,
        },
        wire::{
            call::Call,
            connection::{Connection, Haste},
            digits::Digits,
            hex::millis,
            refusal::{code, first_error, unexpected},
            reply::Answer,
            resp::Value,
        },
    },
};

impl NativeClaim {
    /// Asks by script: takes the key, or stands in line. While a slot is on its way, and its keys are here and there,
    /// no script may touch them together: nothing comes of asking for one whom the server does not know, and one
    /// who waits and may be known goes on waiting.
    pub(super) async fn ask(&mut self, now: Moment) -> Result<Option<Attempt>> {
        let before = self.stage;
        let at = Arc::clone(self.reach(now).await?);
        self.note_ask(&at, now);
        let mut call = Call::new();
        self.push_ask(&mut call.bytes, &at);
        call.n_replies = 1;
        let replies = self.call_and_see(&call, now).await?;
        if first_error(&replies).is_some_and(is_torn) {
            match before {
                Stage::Nothing => {
                    (self.stage, self.at) = (Stage::Nothing, None);
                    return Ok(None);
                }
                Stage::InLine | Stage::Unsure if self.request.patience == Patience::Waits => {
                    (self.stage, self.at) = (before, None);
                    return Ok(Some(Attempt::Busy { retry_in: Some(self.place() / 3) }));
                }
                Stage::InLine | Stage::Unsure | Stage::Holds => {}
            }
        }
        let replies = self.without_error(replies)?;
        self.asked(&replies, &at).map(Some)
    }

    /// The same for a key that is known to be contended, if that can be done right now.
    pub(super) fn ask_at_once(&mut self, now: Moment) -> bool {
        let slot = self.names.slot;
        let Some(at) = self.shared.client.at_hand_again(&mut self.last_connection, slot, now)
        else {
            return false;
        };
        self.note_ask(&at, now);
        self.way = Way::Ask;
        let answer = Arc::clone(Answer::kept(&mut self.answer, 1));
        at.send_packed(answer, now, Haste::of_caller(), |out| self.push_ask(out, &at));
        self.at = Some(at);
        true
    }

    /// What came of it, if nothing is out of the ordinary.
    pub(super) fn poll_ask(&mut self, context: &Context<'_>) -> Poll<Result<Option<Attempt>>> {
        let Some(answer) = &self.answer else { return Poll::Ready(Ok(None)) };
        let replies = ready!(answer.poll(context, std::mem::take))?;
        // Errors are read, and redirections followed, by those who ask by all means.
        let Some(at) = self.at.clone().filter(|_| first_error(&replies).is_none()) else {
            (self.way, self.at) = (Way::Neither, None);
            if first_error(&replies).is_some_and(has_not_run) {
                self.stage = Stage::Nothing;
            }
            return Poll::Ready(Ok(None));
        };
        let answer = self.asked(&replies, &at)?;
        if let Attempt::Granted(_) = &answer {
            self.shared.contended.remove(self.names.bucket);
        }
        Poll::Ready(Ok(Some(answer)))
    }

    fn note_ask(&mut self, at: &Arc<Connection>, now: Moment) {
        if self.request.patience == Patience::Waits {
            self.listen_at(at);
        }
        self.all_words.get_or_insert_with(|| self.names.all_words());
        self.n_asks += 1;
        self.asked_at = now;
        self.stage = Stage::Unsure;
    }

    /// What `ask.lua` wants to know; the parts of a place are as long as `names.lua` says.
    fn push_ask(&mut self, out: &mut Vec<u8>, at: &Connection) {
        let (ask, second) = (self.ask_number(), Digits::of(self.shared.wall.second(self.asked_at)));
        let (script, is_unlifted) = match self.numbering() {
            Numbering::Counter => (&*ASK, !self.is_lifted_at(at)),
            Numbering::Clock => (&*ASK_BY_CLOCK, false),
        };
        let is_plain = self.request.patience == Patience::Waits
            && self.request.order == Order::FirstCome
            && self.n_asks == 1
            && !is_unlifted;
        let packed = self.packed_ask.as_mut().filter(|_| is_plain);
        let again = |packed: &mut PackedAsk| {
            let packed = packed.again(&self.owner, ask, &at.channel, second.as_bytes());
            packed.map(|packed| out.extend_from_slice(packed)).is_some()
        };
        if packed.is_some_and(again) {
            return;
        }
        let (start, request) = (out.len(), &self.request);
        let letters = [
            (b't', request.patience == Patience::Tries),
            (b'b', request.order == Order::Barging),
            (b'a', self.n_asks > 1),
            (b'u', is_unlifted),
        ];
        let letters = letters.into_iter().filter_map(|(letter, is)| is.then_some(letter));
        let letters: Vec<u8> = letters.collect();
        let key_lasts = Digits::of(millis(self.place() + LONGEST_PLACE));
        let (whose, label) = (self.shared.whose.as_bytes(), request.label.as_bytes());
        let (channel, ttl) = (at.channel.as_bytes(), Digits::of(millis(request.ttl)));
        let place: [&[u8]; 8] = [
            b"!",
            &self.owner,
            &ask,
            key_lasts.as_bytes(),
            channel,
            second.as_bytes(),
            whose,
            label,
        ];
        let arguments: [&[&[u8]]; 3] = [&place, &[ttl.as_bytes()], &[&letters]];
        let n_arguments = if letters.is_empty() { 2 } else { 3 };
        let arguments_at = push_script(out, script, self.keys(), &arguments[..n_arguments]) - start;
        if is_plain && self.is_again {
            self.packed_ask = Some(PackedAsk::new(&out[start..], arguments_at));
        }
    }

    /// What scripts are told the names of: where the key was not simply free, others are likely to wait.
    pub(super) fn keys(&self) -> Keys<'_> {
        match &self.all_words {
            Some(words) if self.n_asks > 0 => Keys::All(words),
            _ => Keys::Lock(self.names.lock_word()),
        }
    }

    /// What came of asking there.
    fn asked(&mut self, replies: &[Value], at: &Connection) -> Result<Attempt> {
        if let [Value::Int(0)] = replies {
            self.stage = Stage::InLine;
            return Ok(Attempt::Busy { retry_in: Some(self.place() / 3) });
        }
        let answer = replies.first().and_then(Value::as_text).unwrap_or_default();
        match answer.split_once(' ').unwrap_or((answer, "")) {
            (how @ ("granted" | "kept"), last) => {
                let fence = last.parse().ok().and_then(first_fence);
                let fence = fence.ok_or_else(|| unexpected(replies))?;
                self.stage = Stage::Holds;
                // The script lifts what nobody has lifted; but a redirection may have led it elsewhere.
                if self.at.as_ref().is_some_and(|asked| std::ptr::eq(&**asked, at)) {
                    at.lifted.add(self.names.bucket);
                }
                let lease = Lease::For(self.request.ttl);
                // What was told before and is still ours keeps its numbers; if nobody was told, the
                // new ones are as good.
                let known = self.grant.take().filter(|_| how == "kept");
                let grant = known.unwrap_or(Grant { fence, n_fences: TURNS, lease });
                Ok(Attempt::Granted(Grant { lease, ..grant }))
            }
            ("busy", ends_in) => {
                self.shared.contended.add(self.names.bucket);
                let waits = self.request.patience == Patience::Waits;
                self.stage = if waits { Stage::InLine } else { Stage::Nothing };
                let ends_in = Duration::from_millis(ends_in.parse().unwrap_or(1));
                Ok(Attempt::Busy { retry_in: Some(ends_in.min(self.place() / 3)) })
            }
            ("strange", _) => Err(Error::refused(
                "what is stored at the key is not a lock of ours; use another key or prefix",
            )),
            _ => Err(unexpected(replies)),
        }
    }

    /// The number of the last ask, six digits: enough to tell it from others that are not long ago.
    fn ask_number(&self) -> [u8; 6] {
        let digit = |place: u32| b'0' + (self.n_asks / 10_u64.pow(place) % 10) as u8;
        std::array::from_fn(|i| digit(5 - i as u32))
    }

    /// Takes note of a grant, if one was told by message.
    pub(super) fn hear(&mut self, now: Moment) -> bool {
        let Some(grant) = self.heard(now) else { return false };
        (self.stage, self.way, self.grant) = (Stage::Holds, Way::Heard, Some(grant));
        true
    }

    /// A grant that was told by message: it lasts from after our last ask, so counting from that ask
    /// is on the safe side. One that says nothing about that ask is old.
    fn heard(&self, now: Moment) -> Option<Grant> {
        let left = self.place().checked_sub(now.since(self.asked_at))?;
        let fence = self.listener.as_ref()?.read(|message| {
            // As `tell.lua` packs it.
            let (ask, last) =
                (message.get(place::ASK)?, message.get(place::ASK.end..)?.try_into().ok()?);
            first_fence(u64::from_le_bytes(last)).filter(|_| *ask == self.ask_number())
        })?;
        let lease = Lease::For(left);
        (left >= self.place() / 3).then_some(Grant { fence, n_fences: TURNS, lease })
    }

    fn listen_at(&mut self, at: &Arc<Connection>) {
        match &self.listens_at {
            Some(known) if Arc::ptr_eq(known, at) => {}
            _ => {
                self.listen_nowhere();
                at.listeners.add(&self.owner, self.listener.get_or_insert_default());
                self.listens_at = Some(Arc::clone(at));
            }
        }
    }

    pub(super) fn listen_nowhere(&mut self) {
        if let (Some(at), Some(listener)) = (self.listens_at.take(), &self.listener) {
            at.listeners.remove(&self.owner, listener);
        }
    }
}

/// The first of the numbers of a grant by script, which tells the last.
fn first_fence(last: u64) -> Option<u64> {
    last.checked_sub(u64::from(TURNS) - 1)
}

/// Whether the keys of a slot are here and there.
pub(super) fn is_torn(error: &str) -> bool {
    code(error) == "TRYAGAIN"
}

/// Whether the server has not done what it was asked to, because of where the slot is.
fn has_not_run(error: &str) -> bool {
    is_torn(error) || matches!(code(error), "MOVED" | "ASK")
}
