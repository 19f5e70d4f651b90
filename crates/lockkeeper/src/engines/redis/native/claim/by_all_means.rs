//! Calls made as well as they can be: where there is no connection yet, or the common way did not do.

use std::sync::Arc;

use super::{
    super::{
        super::{
            call::Call,
            connection::Connection,
            digits::Digits,
            refusal::{no_error, strange},
            replicas::given_back,
            resp::Value,
        },
        LIFT, RELEASE,
        packing::TURNS_IF_FREE,
    },
    NativeClaim, SMALLEST_FENCE, Stage, number,
};
use crate::{
    engine::{Attempt, Grant, Moment, Released},
    error::Result,
};

impl NativeClaim {
    pub(super) async fn reach(&mut self, now: Moment) -> Result<&mut Arc<Connection>> {
        let connection = self.shared.client.reach(self.names.slot, now).await?;
        if self.stage == Stage::Unsure {
            let is_another = |at: &mut Arc<Connection>| !Arc::ptr_eq(at, &connection);
            self.unanswered.extend(self.at.take_if(is_another));
        }
        Ok(self.at.insert(connection))
    }

    /// Calls where we asked last, or wherever the key is.
    pub(super) async fn call(&mut self, call: &Call, now: Moment) -> Result<Vec<Value>> {
        let (client, slot) = (&self.shared.client, self.names.slot);
        let at = match &mut self.at {
            Some(at) => at,
            nowhere => nowhere.insert(client.reach(slot, now).await?),
        };
        no_error(client.call(at, slot, call, now).await?)
    }

    /// Takes the key if it is free, in one trip and without a script.
    async fn take_if_free(&mut self, now: Moment) -> Result<Option<Grant>> {
        let at = Arc::clone(self.reach(now).await?);
        let is_lifted = at.lifted.has(self.names.bucket);
        let mut call = Call::new();
        if !is_lifted {
            call.add_script(&LIFT, &[&self.names.counter().concat()], &[]);
        }
        self.push_take(&mut call.bytes);
        call.n_replies += 2;
        self.stage = Stage::Unsure;
        let replies = self.call(&call, now).await?;
        if !is_lifted {
            at.lifted.add(self.names.bucket);
        }
        let [.., set, Value::Int(last)] = &replies[..] else { return Err(strange(&replies)) };
        match set {
            Value::Nil => {
                self.stage = Stage::Nothing;
                Ok(None)
            }
            Value::Okay if *last < SMALLEST_FENCE || !self.is_lifted() => {
                self.take_numbers(now).await.map(Some)
            }
            Value::Okay => Ok(Some(self.granted(*last))),
            _ => Err(strange(&replies)),
        }
    }

    /// Whether the connection that was asked last has lifted our counter: a redirection may have led
    /// to another than we thought.
    fn is_lifted(&self) -> bool {
        self.at.as_ref().is_some_and(|at| at.lifted.has(self.names.bucket))
    }

    /// Takes fence numbers for a lock that is ours already, from a counter that was not there.
    async fn take_numbers(&mut self, now: Moment) -> Result<Grant> {
        let counter = self.names.counter().concat();
        let mut call = Call::script(&LIFT, &[&counter], &[]);
        call.add(&[b"INCRBY", &counter, Digits::of(TURNS_IF_FREE.into()).as_bytes()]);
        let replies = self.call(&call, now).await?;
        match &replies[..] {
            [_, Value::Int(last)] => Ok(self.granted(*last)),
            _ => Err(strange(&replies)),
        }
    }

    /// Takes the lock in the cheapest way that may do.
    async fn take_or_ask(&mut self, now: Moment) -> Result<Attempt> {
        let before = self.stage;
        if before == Stage::Nothing
            && !self.shared.contended.has(self.names.bucket)
            && let Some(grant) = self.take_if_free(now).await?
        {
            return Ok(Attempt::Granted(grant));
        }
        let answer = self.ask(now).await?;
        if before == Stage::Nothing && matches!(answer, Attempt::Granted(_)) {
            self.shared.contended.remove(self.names.bucket);
        }
        Ok(answer)
    }

    /// An attempt that got no answer may still be on its way; whatever comes of it ends behind it.
    fn release_behind_attempts(&mut self, now: Moment) {
        for at in self.unanswered.drain(..) {
            let call = Call::script(&RELEASE, &[self.names.lock()], &[&self.owner]);
            self.shared.client.send_behind(&at, &call, now);
        }
    }

    /// Makes an attempt as well as it can be done; the common way may have been tried before.
    pub(super) async fn attempt_by_all_means(&mut self, now: Moment) -> Result<Attempt> {
        let answer = self.take_or_ask(now).await?;
        if let Attempt::Granted(grant) = &answer {
            if let Err(error) = self.shared.client.see_copied(self.at.as_deref(), now).await {
                return Err(given_back(self, error).await);
            }
            self.grant = Some(grant.clone());
        }
        Ok(answer)
    }

    pub(super) async fn release_by_all_means(&mut self) -> Result<Released> {
        // Asked again because no answer came: that connection is not one to wait for.
        if let Some(silent) = self.released_at.take() {
            silent.retire();
        }
        let now = self.shared.client.latest();
        let reached = self.reach(now).await.map(|at| Arc::clone(at));
        self.release_behind_attempts(now);
        self.released_at = Some(reached?);
        let call = Call::script(&RELEASE, &[self.names.lock()], &[&self.owner]);
        let replies = self.call(&call, now).await?;
        Ok(self.released(number(&replies).ok_or_else(|| strange(&replies))?))
    }
}
