//! Calls made as well as they can be: where there is no connection yet, or the common way did not do.

use std::sync::Arc;

use super::{NativeClaim, SMALLEST_FENCE, Stage, number, queued::is_torn};
use crate::{
    engine::{Attempt, Grant, Moment, OwnerId, Released, error::Result},
    engines::redis::{
        dialects::native::{
            COUNT, LIFT, RELEASE, RELEASE_ALONE,
            packing::{Numbering, TURNS_IF_FREE},
        },
        server::{
            behind::Behind,
            replicas::{Renamed, given_back, renamed_if_spent},
        },
        wire::{
            call::Call,
            connection::Connection,
            digits::Digits,
            hex::hex,
            refusal::{first_error, no_error, unexpected},
            resp::Value,
        },
    },
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
        let replies = self.call_and_see(call, now).await?;
        self.without_error(replies)
    }

    pub(super) fn without_error(&mut self, replies: Vec<Value>) -> Result<Vec<Value>> {
        if first_error(&replies).is_some() {
            // An answer as well: nothing is on its way there any more.
            self.at = None;
        }
        no_error(replies)
    }

    /// The same for one who reads errors in the replies.
    pub(super) async fn call_and_see(&mut self, call: &Call, now: Moment) -> Result<Vec<Value>> {
        let (client, slot) = (&self.shared.client, self.names.slot);
        let at = match &mut self.at {
            Some(at) => at,
            nowhere => nowhere.insert(client.reach(slot, now).await?),
        };
        client.call(at, slot, call, now).await
    }

    /// Takes the key if it is free, without a script.
    async fn take_if_free(&mut self, now: Moment) -> Result<Option<Grant>> {
        let at = Arc::clone(self.reach(now).await?);
        if self.is_in_cluster() {
            return self.take_then_count(now).await;
        }
        let must_lift = match self.numbering() {
            Numbering::Counter => !at.lifted.has(self.names.bucket),
            Numbering::Clock => false,
        };
        let mut call = Call::new();
        if must_lift {
            call.add_script(&LIFT, &[&self.names.counter().concat()], &[]);
        }
        self.push_take(&mut call.bytes);
        call.n_replies += 2;
        self.stage = Stage::Unsure;
        let replies = self.call(&call, now).await?;
        if must_lift {
            at.lifted.add(self.names.bucket);
        }
        let [.., set, Value::Int(last)] = &replies[..] else { return Err(unexpected(&replies)) };
        match set {
            Value::Nil => {
                self.stage = Stage::Nothing;
                Ok(None)
            }
            // Only where there is one server: by the clock, none is so small.
            Value::Okay if *last < SMALLEST_FENCE => self.take_numbers(now).await.map(Some),
            Value::Okay => Ok(Some(self.granted(*last))),
            _ => Err(unexpected(&replies)),
        }
    }

    /// The same in a cluster: while a slot is on its way, the lock may be taken at one node and the counter be at
    /// another. Numbers are taken only when the lock is ours: taken before, they might be smaller than those of
    /// somebody who held the lock in between.
    async fn take_then_count(&mut self, now: Moment) -> Result<Option<Grant>> {
        let mut take = Call::new();
        self.push_take(&mut take.bytes);
        let mut set = Call::new();
        take.commands().first().into_iter().for_each(|command| set.add_command(command));
        self.stage = Stage::Unsure;
        let replies = self.call(&set, now).await?;
        match &replies[..] {
            [Value::Nil] => {
                self.stage = Stage::Nothing;
                return Ok(None);
            }
            [Value::Okay] => {}
            _ => return Err(unexpected(&replies)),
        }
        let granted_at = self.at.clone();
        let count = Call::script(&COUNT, &[&self.names.counter().concat()], &[]);
        let replies = self.call(&count, now).await?;
        // It is there that replicas are to be waited for.
        self.at = granted_at;
        let last = number(&replies).ok_or_else(|| unexpected(&replies))?;
        Ok(Some(self.granted(last)))
    }

    /// Takes fence numbers for a lock that is ours already, from a counter that was not there.
    async fn take_numbers(&mut self, now: Moment) -> Result<Grant> {
        let counter = self.names.counter().concat();
        let mut call = Call::script(&LIFT, &[&counter], &[]);
        call.add(&[b"INCRBY", &counter, Digits::of(TURNS_IF_FREE.into()).as_bytes()]);
        let replies = self.call(&call, now).await?;
        match &replies[..] {
            [_, Value::Int(last)] => Ok(self.granted(*last)),
            _ => Err(unexpected(&replies)),
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
        let Some(answer) = self.ask(now).await? else {
            // The lock alone can be taken wherever it is. Whoever does not get it cannot stand in line now.
            let busy = Attempt::Busy { retry_in: Some(self.place() / 3) };
            return Ok(self.take_then_count(now).await?.map_or(busy, Attempt::Granted));
        };
        if before == Stage::Nothing && matches!(answer, Attempt::Granted(_)) {
            self.shared.contended.remove(self.names.bucket);
        }
        Ok(answer)
    }

    /// Goes behind attempts that got no answer: whatever comes of them ends behind them.
    fn release_behind(&self) -> Call {
        let mut call = Call::new();
        if self.is_in_cluster() {
            call.add_script(&RELEASE_ALONE, &[self.names.lock()], &[&self.owner]);
        }
        self.add_release(&mut call);
        call
    }

    /// Unlocks, or leaves the line, and hands the lock over.
    fn add_release(&self, call: &mut Call) {
        let (line, counter) = (self.names.line().concat(), self.names.counter().concat());
        let keys: [&[u8]; 3] = [self.names.lock(), &line, &counter];
        let n_named = if self.is_in_cluster() { 3 } else { 1 };
        call.add_script(&RELEASE, &keys[..n_named], &[&self.owner]);
    }

    /// The same in a cluster, while a slot may be on its way and its keys be here and there. A lock without a line
    /// can be let go wherever it is. One that may have a line is handed over if all that belongs to it is in one
    /// place; or else it is let go as it is, and those in line find it free when they ask again.
    async fn release_in_cluster(&mut self, now: Moment) -> Result<i64> {
        let (lock, owner) = (self.names.lock().to_vec(), self.owner);
        let alone = Call::script(&RELEASE_ALONE, &[&lock], &[&owner]);
        let replies = self.call(&alone, now).await?;
        let released = number(&replies).ok_or_else(|| unexpected(&replies))?;
        if released == 1 || released == 0 && self.n_asks == 0 {
            return Ok(released);
        }
        let mut all = Call::new();
        self.add_release(&mut all);
        let mut replies = self.call_and_see(&all, now).await?;
        let is_torn = first_error(&replies).is_some_and(is_torn);
        if is_torn && released != 0 {
            let even = Call::script(&RELEASE_ALONE, &[&lock], &[&owner, b"even"]);
            replies = self.call(&even, now).await?;
        }
        let replies = no_error(replies)?;
        number(&replies).ok_or_else(|| unexpected(&replies))
    }

    /// Makes an attempt as well as it can be done; the common way may have been tried before.
    pub(super) async fn attempt_by_all_means(&mut self, now: Moment) -> Result<Attempt> {
        renamed_if_spent(self, now).await?;
        let answer = self.take_or_ask(now).await?;
        if let Attempt::Granted(grant) = &answer {
            if let Err(error) = self.shared.client.see_copied(self.at.as_deref(), now).await {
                return Err(given_back(self, error, now).await);
            }
            self.grant = Some(grant.clone());
        }
        Ok(answer)
    }

    pub(super) async fn release_by_all_means(&mut self, now: Moment) -> Result<Released> {
        // Asked again because no answer came: that connection is not one to wait for.
        if let Some(silent) = self.released_at.take() {
            silent.retire();
        }
        let reached = self.reach(now).await.map(|at| Arc::clone(at));
        let (shared, release) = (Arc::clone(&self.shared), self.release_behind());
        let attempted_at = std::mem::take(&mut self.unanswered);
        let client = &shared.client;
        let mut behind = Behind { client, release: &release, attempted_at, now };
        if self.stage != Stage::Holds {
            behind.send();
        }
        self.released_at = Some(reached?);
        let released = if self.is_in_cluster() {
            self.release_in_cluster(now).await?
        } else {
            let mut call = Call::new();
            self.add_release(&mut call);
            let replies = self.call(&call, now).await?;
            number(&replies).ok_or_else(|| unexpected(&replies))?
        };
        Ok(self.released(released))
    }
}

impl Renamed for NativeClaim {
    fn is_spent(&mut self) -> &mut bool {
        &mut self.is_spent
    }

    fn rename(&mut self, owner: OwnerId) {
        (self.owner, self.request.owner) = (hex(owner), owner);
        self.grant = None;
    }
}
