//! A claim on a lock of the plain dialect.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    engine::{Attempt, Claim, Moment, OwnerId, Released, Request, Standing, error::Result},
    engines::redis::{
        dialects::foreign_claim::{Shared, Stage, Stake},
        server::replicas::{Renamed, given_back, renamed_if_spent},
        wire::{call::Call, refusal::strange, resp::Value},
    },
};

#[derive(Debug)]
pub(super) struct PlainClaim {
    stake: Stake,
    /// Whether the key was busy when it was asked for last.
    was_busy: bool,
}

impl PlainClaim {
    pub(super) fn new(shared: &Arc<Shared>, request: &Request) -> Self {
        Self { stake: Stake::new(shared, request, request.owner.to_string()), was_busy: false }
    }

    /// Takes the key if it is free, without a script.
    async fn take_if_free(&mut self, now: Moment) -> Result<Option<Attempt>> {
        let stake = &mut self.stake;
        let (ttl, owner) = (stake.ttl_digits(), stake.owner.as_bytes());
        let call = Call::of(&[b"SET", &stake.lock, owner, b"NX", b"PX", ttl.as_bytes()]);
        let replies = stake.send(&call, now).await?;
        match replies[..] {
            [Value::Okay] => Ok(Some(stake.granted())),
            [Value::Nil] => {
                stake.turned_away();
                Ok(None)
            }
            _ => Err(strange(&replies)),
        }
    }

    async fn take_or_ask(&mut self, now: Moment) -> Result<Attempt> {
        if self.stake.stage == Stage::Nothing
            && !self.was_busy
            && let Some(granted) = self.take_if_free(now).await?
        {
            return Ok(granted);
        }
        let answer = self.stake.ask(now).await?;
        self.was_busy = matches!(answer, Attempt::Busy { .. });
        Ok(answer)
    }
}

impl Renamed for PlainClaim {
    fn is_spent(&mut self) -> &mut bool {
        &mut self.stake.is_spent
    }

    fn rename(&mut self, owner: OwnerId) {
        self.stake.owner = owner.to_string();
    }
}

#[async_trait]
impl Claim for PlainClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        renamed_if_spent(self).await?;
        let answer = self.take_or_ask(now).await?;
        if let Attempt::Granted(_) = answer
            && let Err(error) = self.stake.see_copied(now).await
        {
            return Err(given_back(self, error).await);
        }
        Ok(answer)
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.stake.renew(now).await
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.stake.ttl = ttl;
        true
    }

    async fn release(&mut self) -> Result<Released> {
        self.stake.release(&[]).await
    }
}
