//! Defects in keeping, expiring and losing.

use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    Key, Result,
    blocking::block_on,
    clock::Clock,
    engine::{Attempt, Inspector, Lease, Moment, OwnerId, Released, Request, Standing},
};

use super::machine::{Defect, Stake};

fn held(stake: &Stake) -> Standing {
    Standing::Held(Lease::For(stake.request.ttl))
}

fn asked(stake: &Stake, answer: &Attempt) -> Standing {
    match answer {
        Attempt::Granted(_) => held(stake),
        Attempt::Busy { .. } => Standing::Lost("another has it".into()),
    }
}

/// Renewing is asking.
#[derive(Debug)]
pub(super) struct RenewsByAsking;

#[async_trait]
impl Defect for RenewsByAsking {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        let answer = stake.attempt(now).await?;
        Ok(asked(stake, &answer))
    }
}

/// Takes another ttl, and forgets it.
#[derive(Debug)]
pub(super) struct ForgetsAnotherTtl;

impl Defect for ForgetsAnotherTtl {
    fn set_ttl(&self, _stake: &mut Stake, _ttl: Duration) -> bool {
        true
    }
}

/// Takes another ttl, and does not tell the server.
#[derive(Debug)]
pub(super) struct KeepsAnotherTtlToItself;

#[async_trait]
impl Defect for KeepsAnotherTtlToItself {
    fn set_ttl(&self, stake: &mut Stake, ttl: Duration) -> bool {
        stake.request.ttl = ttl;
        true
    }

    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        stake.claim.renew(now).await?;
        Ok(held(stake))
    }
}

/// Brings back what was released.
#[derive(Debug)]
pub(super) struct RenewsTheReleased;

#[async_trait]
impl Defect for RenewsTheReleased {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        if stake.was_granted() && stake.n_releases > 0 {
            let answer = stake.attempt(now).await?;
            return Ok(asked(stake, &answer));
        }
        stake.claim.renew(now).await
    }
}

/// Takes back what was lost.
#[derive(Debug)]
pub(super) struct RenewsTheLost;

#[async_trait]
impl Defect for RenewsTheLost {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        match stake.claim.renew(now).await? {
            Standing::Lost(_) if stake.was_granted() && stake.n_releases == 0 => {
                let answer = stake.attempt(now).await?;
                Ok(asked(stake, &answer))
            }
            standing => Ok(standing),
        }
    }
}

/// Holds if anybody does.
#[derive(Debug)]
pub(super) struct RenewsForAnyone;

#[async_trait]
impl Defect for RenewsForAnyone {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        let own = stake.claim.renew(now).await?;
        let anybody = stake.engine.memory.who(stake.key(), now).await?.holder;
        Ok(if anybody.is_some() { held(stake) } else { own })
    }
}

/// Once held, always held.
#[derive(Debug)]
pub(super) struct RenewsWithoutLooking;

#[async_trait]
impl Defect for RenewsWithoutLooking {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        let own = stake.claim.renew(now).await?;
        let once_held = stake.was_granted() && stake.n_releases == 0;
        Ok(if once_held { held(stake) } else { own })
    }
}

#[derive(Debug)]
pub(super) struct RenewalChangesNothing;

#[async_trait]
impl Defect for RenewalChangesNothing {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        let holder = stake.engine.memory.who(stake.key(), now).await?.holder;
        let ours = stake.was_granted() && stake.n_releases == 0 && holder.is_some();
        Ok(if ours { held(stake) } else { Standing::Lost("nobody has it".into()) })
    }
}

#[derive(Debug)]
pub(super) struct HoldsWhenCutOff;

#[async_trait]
impl Defect for HoldsWhenCutOff {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        let answer = stake.claim.renew(now).await;
        answer.or_else(|_| Ok(held(stake)))
    }
}

#[derive(Debug)]
pub(super) struct LostAtTheFirstError;

#[async_trait]
impl Defect for LostAtTheFirstError {
    async fn renew(&self, stake: &mut Stake, now: Moment) -> Result<Standing> {
        let answer = stake.claim.renew(now).await;
        answer.or_else(|error| Ok(Standing::Lost(error.to_string())))
    }
}

/// Time stands still at the first attempt.
#[derive(Debug, Default)]
pub(super) struct NeverExpires(OnceLock<Moment>);

#[async_trait]
impl Defect for NeverExpires {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let first = *self.0.get_or_init(|| now);
        stake.attempt(first).await
    }
}

/// Half the time it says.
#[derive(Debug)]
pub(super) struct ExpiresEarly;

#[async_trait]
impl Defect for ExpiresEarly {
    fn request(&self, request: &mut Request) {
        request.ttl /= 2;
    }

    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let mut answer = stake.attempt(now).await?;
        if let Attempt::Granted(grant) = &mut answer {
            grant.lease = Lease::For(stake.request.ttl * 2);
        }
        Ok(answer)
    }
}

/// A claim that was dropped with its lock keeps it for an hour.
#[derive(Debug)]
pub(super) struct KeepsForTheDropped;

#[async_trait]
impl Defect for KeepsForTheDropped {
    fn dropped(&self, stake: Stake) {
        if stake.was_granted() && stake.n_releases == 0 {
            let mut twin = stake.twin(|request| request.ttl = std::time::Duration::from_secs(3600));
            block_on(twin.attempt(Clock::default().now())).unwrap();
        }
    }
}

/// Asks its own book, not the table: what was granted is held until it is released.
#[derive(Debug, Default)]
pub(super) struct BelievesItsOwnBook(Mutex<HashMap<Key, OwnerId>>);

#[async_trait]
impl Defect for BelievesItsOwnBook {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let me = stake.request.owner;
        if self.0.lock().unwrap().get(stake.key()).is_some_and(|holder| *holder != me) {
            return Ok(Attempt::Busy { retry_in: None });
        }
        let answer = stake.attempt(now).await?;
        if let Attempt::Granted(_) = answer {
            self.0.lock().unwrap().insert(stake.key().clone(), me);
        }
        Ok(answer)
    }

    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        let me = stake.request.owner;
        self.0.lock().unwrap().retain(|_, holder| *holder != me);
        stake.release(now).await
    }
}
