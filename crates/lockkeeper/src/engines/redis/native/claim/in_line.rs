//! What a claim does when the key is not simply free: asks by script, stands in line, hears of its grant.

use std::{sync::Arc, time::Duration};

use super::{
    super::{
        super::{
            call::Call,
            connection::Connection,
            refusal::strange,
            resp::{Digits, Value},
            words::millis,
        },
        ASK,
    },
    NativeClaim, Stage, TURNS,
};
use crate::{
    engine::{Attempt, Grant, Lease, Moment, Order, Patience},
    error::{Error, Result},
};

impl NativeClaim {
    /// Asks by script: takes the key, or stands in line.
    pub(super) async fn ask(&mut self, now: Moment) -> Result<Attempt> {
        let waits = self.request.patience == Patience::Waits;
        let at = Arc::clone(self.reach(now).await?);
        if waits {
            self.listen_at(&at);
        }
        self.n_asks += 1;
        self.asked_at = now;
        self.stage = Stage::Unsure;
        let barges = self.request.order == Order::Barging;
        let is_lifted = self.is_lifted_at(&at);
        let mine = self.value(Digits::of(self.since_us).as_bytes()).concat();
        let place_lasts = Digits::of(millis(self.place()));
        let n_asks = Digits::of(self.n_asks);
        let rest_of_place = [
            place_lasts.as_bytes(),
            at.channel.as_bytes(),
            n_asks.as_bytes(),
            &[self.shared.whose.as_bytes(), self.request.label.as_bytes()].concat(),
        ];
        let mut letters = Vec::new();
        letters.extend(waits.then_some(b'w'));
        letters.extend(barges.then_some(b'b'));
        letters.extend((self.n_asks > 1).then_some(b'a'));
        letters.extend(is_lifted.then_some(b'l'));
        let call = Call::script(
            &ASK,
            &[self.names.lock()],
            &[
                &mine,
                Digits::of(millis(self.request.ttl)).as_bytes(),
                place_lasts.as_bytes(),
                &rest_of_place.join(&b'|'),
                &letters,
            ],
        );
        let replies = self.call(&call, now).await?;
        let answer = replies.first().and_then(Value::as_text).unwrap_or_default();
        match answer.split_once(' ').unwrap_or((answer, "")) {
            (how @ ("granted" | "kept"), fence) => {
                let fence = fence.parse().map_err(|_| strange(&replies))?;
                self.stage = Stage::Holds;
                // The script lifts what nobody has lifted; but a redirection may have led it elsewhere.
                if self.at.as_ref().is_some_and(|asked| Arc::ptr_eq(asked, &at)) {
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
                self.stage = if waits { Stage::InLine } else { Stage::Nothing };
                let ends_in = Duration::from_millis(ends_in.parse().unwrap_or(1));
                Ok(Attempt::Busy { retry_in: Some(ends_in.min(self.place() / 3)) })
            }
            ("strange", _) => Err(Error::refused(
                "what is stored at the key is not a lock of ours; use another key or prefix",
            )),
            _ => Err(strange(&replies)),
        }
    }

    /// A grant that was told by message: it lasts from after our last ask, so counting from that ask
    /// is on the safe side. One that says nothing about that ask is old.
    pub(super) fn heard(&mut self, now: Moment) -> Option<Grant> {
        let message = self.ear.as_ref()?.take_message()?;
        let message = std::str::from_utf8(&message).ok()?;
        let mut words = message.split(' ').skip(1);
        let (ask, fence) = (words.next()?.parse::<u64>().ok()?, words.next()?.parse().ok()?);
        let left = self.place().checked_sub(now.since(self.asked_at))?;
        if ask != self.n_asks || left < self.place() / 3 {
            return None;
        }
        self.stage = Stage::Holds;
        Some(Grant { fence, n_fences: TURNS, lease: Lease::For(left) })
    }

    fn listen_at(&mut self, at: &Arc<Connection>) {
        match &self.listens_at {
            Some(known) if Arc::ptr_eq(known, at) => {}
            _ => {
                self.listen_nowhere();
                at.ears.add(&self.owner, self.ear.get_or_insert_default());
                self.listens_at = Some(Arc::clone(at));
            }
        }
    }

    pub(super) fn listen_nowhere(&mut self) {
        if let (Some(at), Some(ear)) = (self.listens_at.take(), &self.ear) {
            at.ears.remove(&self.owner, ear);
        }
    }
}
