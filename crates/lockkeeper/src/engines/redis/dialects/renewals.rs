//! Renewals of many locks in few commands: all that are due together go together.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex},
};

use futures_lite::future;

use crate::{
    engine::{
        Moment,
        error::{Error, Result},
    },
    engines::{
        net::together::together,
        redis::{
            server::client::Client,
            wire::{
                call::Call,
                digits::Digits,
                refusal::{code, first_error, no_error, unexpected},
                reply::{Answer, Reply},
                resp::Value,
                script::Script,
                slot::Slot,
            },
        },
    },
    tools::sync::locked,
};

/// How many locks one script renews: long enough to be cheap, short enough to keep nobody waiting.
const MOST_AT_ONCE: usize = 100;
/// How often the first to come lets others go ahead, so that theirs can come along.
const N_YIELDS: usize = 3;

/// What is needed to renew one lock.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) slot: Slot,
    pub(crate) lock: Vec<u8>,
    pub(crate) owner: Vec<u8>,
    pub(crate) ttl_ms: u64,
}

/// Those that are to be renewed next, by one script that all share: its keys are locks, its arguments
/// an owner and a ttl for each, and its answer a 1 for each that is still held.
#[derive(Debug)]
pub(crate) struct Renewals {
    script: &'static Script,
    due: Mutex<Vec<Due>>,
}

#[derive(Debug)]
struct Due {
    renewal: Renewal,
    answer: Arc<Answer>,
}

impl Renewals {
    pub(crate) fn new(script: &'static Script) -> Self {
        Self { script, due: Mutex::default() }
    }

    /// Renews a lock, together with others; answers whether it is still held.
    pub(crate) async fn renew(
        &self,
        client: &Client,
        renewal: Renewal,
        now: Moment,
    ) -> Result<bool> {
        let answer = Arc::new(Answer::of(1));
        let reply = Reply(Arc::clone(&answer));
        let is_first = {
            let mut due = locked(&self.due);
            due.push(Due { renewal, answer });
            due.len() == 1
        };
        if is_first {
            // Whoever is first sends for all; if it is let go meanwhile, everyone hears.
            let mut batch = Batch { renewals: self, is_taken: false };
            for _ in 0..N_YIELDS {
                future::yield_now().await;
            }
            batch.send(client, now).await;
        }
        let replies = reply.await?;
        Ok(replies.first() == Some(&Value::Int(1)))
    }

    /// Renews and tells those who wait. Leaves all in the group if its keys are on their way to another
    /// server, some here and some there: then each has to go alone.
    async fn send(&self, client: &Client, group: &mut Vec<Due>, now: Moment) -> Result<()> {
        let Some(first) = group.first() else { return Ok(()) };
        let slot = first.renewal.slot;
        let ttls: Vec<_> = group.iter().map(|due| Digits::of(due.renewal.ttl_ms)).collect();
        let keys: Vec<&[u8]> = group.iter().map(|due| &due.renewal.lock[..]).collect();
        let owners = group.iter().map(|due| &due.renewal.owner[..]);
        let arguments: Vec<&[u8]> =
            owners.zip(&ttls).flat_map(|(owner, ttl)| [owner, ttl.as_bytes()]).collect();
        let call = Call::script(self.script, &keys, &arguments);
        let mut at = client.reach_aside(slot, now).await?;
        let replies = client.call(&mut at, slot, &call, now).await?;
        let is_torn = first_error(&replies).is_some_and(|error| code(error) == "TRYAGAIN");
        if is_torn && group.len() > 1 {
            return Ok(());
        }
        let replies = no_error(replies)?;
        // What only a primary knows that was replaced meanwhile is no renewal.
        client.see_copied(Some(&at), now).await?;
        match replies.first().and_then(Value::as_list) {
            Some(kept) if kept.len() == group.len() => {
                let told = group.drain(..).zip(kept);
                told.for_each(|(due, kept)| due.answer.settle(kept.clone()));
                Ok(())
            }
            _ => Err(unexpected(&replies)),
        }
    }
}

/// Renewals in the hands of the one who sends them.
struct Batch<'a> {
    renewals: &'a Renewals,
    is_taken: bool,
}

impl Batch<'_> {
    async fn send(&mut self, client: &Client, now: Moment) {
        let mixes = client.mixes_slots();
        let mut groups: HashMap<Option<Slot>, Vec<Group>> = HashMap::new();
        self.is_taken = true;
        for due in mem::take(&mut *locked(&self.renewals.due)) {
            let groups = groups.entry((!mixes).then_some(due.renewal.slot)).or_default();
            match groups.last_mut() {
                Some(last) if last.0.len() < MOST_AT_ONCE => last.0.push(due),
                _ => groups.push(Group(vec![due])),
            }
        }
        // All at once: they travel together, and one that hangs keeps no other.
        let renewals = self.renewals;
        let send = |mut group: Group| async move {
            if let Err(error) = renewals.send(client, &mut group.0, now).await {
                group.0.drain(..).for_each(|due| due.answer.fail(error.echo()));
            }
            group
        };
        let left = together(groups.into_values().flatten().map(send).collect()).await;
        let alone = left.into_iter().flat_map(|mut group| mem::take(&mut group.0));
        together(alone.map(|due| send(Group(vec![due]))).collect()).await;
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // Let go before it had sent anything: the next to come must find itself the first.
        if !self.is_taken {
            drop(Group(mem::take(&mut *locked(&self.renewals.due))));
        }
    }
}

/// Renewals that were not answered are answered when they are dropped.
struct Group(Vec<Due>);

impl Drop for Group {
    fn drop(&mut self) {
        for due in self.0.drain(..) {
            due.answer.fail(Error::unreachable("the renewal was given up", "no answer"));
        }
    }
}
