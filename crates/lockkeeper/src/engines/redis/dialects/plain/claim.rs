//! A claim on a lock of the plain dialect.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    engine::{Attempt, Claim, Moment, OwnerId, Released, Request, Standing, error::Result},
    engines::redis::{
        dialects::foreign_claim::{ForeignClaim, Shared, Stage},
        server::replicas::{Renamed, given_back, renamed_if_spent},
        wire::{call::Call, refusal::unexpected, resp::Value},
    },
};

#[derive(Debug)]
pub(super) struct PlainClaim {
    foreign: ForeignClaim,
    /// Whether the key was busy when it was asked for last.
    was_busy: bool,
}

impl PlainClaim {
    pub(super) fn new(shared: &Arc<Shared>, request: &Request) -> Self {
        Self {
            foreign: ForeignClaim::new(shared, request, request.owner.to_string()),
            was_busy: false,
        }
    }

    /// Takes the key if it is free, without a script.
    async fn take_if_free(&mut self, now: Moment) -> Result<Option<Attempt>> {
        let foreign = &mut self.foreign;
        let (ttl, owner) = (foreign.ttl_digits(), foreign.owner.as_bytes());
        let call = Call::of(&[b"SET", &foreign.lock, owner, b"NX", b"PX", ttl.as_bytes()]);
        let replies = foreign.send(&call, now).await?;
        match replies[..] {
            [Value::Okay] => Ok(Some(foreign.granted())),
            [Value::Nil] => {
                foreign.turned_away();
                Ok(None)
            }
            _ => Err(unexpected(&replies)),
        }
    }

    async fn take_or_ask(&mut self, now: Moment) -> Result<Attempt> {
        if self.foreign.stage == Stage::Nothing
            && !self.was_busy
            && let Some(granted) = self.take_if_free(now).await?
        {
            return Ok(granted);
        }
        let answer = self.foreign.ask(now).await?;
        self.was_busy = matches!(answer, Attempt::Busy { .. });
        Ok(answer)
    }
}

impl Renamed for PlainClaim {
    fn is_spent(&mut self) -> &mut bool {
        &mut self.foreign.is_spent
    }

    fn rename(&mut self, owner: OwnerId) {
        self.foreign.owner = owner.to_string();
    }
}

#[async_trait]
impl Claim for PlainClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        renamed_if_spent(self, now).await?;
        let answer = self.take_or_ask(now).await?;
        if let Attempt::Granted(_) = answer
            && let Err(error) = self.foreign.see_copied(now).await
        {
            return Err(given_back(self, error, now).await);
        }
        Ok(answer)
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.foreign.renew(now).await
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.foreign.ttl = ttl;
        true
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.foreign.release(&[], now).await
    }
}
