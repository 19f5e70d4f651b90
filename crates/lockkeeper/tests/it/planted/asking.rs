//! Defects in answering those who ask.

use async_trait::async_trait;
use futures_lite::future;
use lockkeeper::{
    Result,
    engine::{Attempt, Grant, Lease, Moment, Order, Patience, Released, Request},
};

use super::machine::{Defect, EVERYBODY, Stake};

const BUSY: Attempt = Attempt::Busy { retry_in: None };

/// A grant that the table knows nothing of.
fn made_up(stake: &Stake, now: Moment) -> Attempt {
    Attempt::Granted(Grant {
        fence: now.as_nanos(),
        n_fences: 1,
        lease: Lease::For(stake.request.ttl),
    })
}

#[derive(Debug)]
pub(super) struct AlwaysGrants;

#[async_trait]
impl Defect for AlwaysGrants {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        match stake.attempt(now).await? {
            Attempt::Busy { .. } => Ok(made_up(stake, now)),
            granted @ Attempt::Granted(_) => Ok(granted),
        }
    }
}

#[derive(Debug)]
pub(super) struct CannotTellClaimsApart;

impl Defect for CannotTellClaimsApart {
    fn request(&self, request: &mut Request) {
        request.owner = EVERYBODY;
    }
}

/// Takes "I have waited" for "it is my turn".
#[derive(Debug)]
pub(super) struct GrantsWhoeverWaited;

#[async_trait]
impl Defect for GrantsWhoeverWaited {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        match stake.attempt(now).await? {
            Attempt::Busy { .. } if stake.n_attempts > 1 => Ok(made_up(stake, now)),
            answer => Ok(answer),
        }
    }
}

/// Says that it answers at once, and does not.
#[derive(Debug)]
pub(super) struct AnswersLater;

#[async_trait]
impl Defect for AnswersLater {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        future::yield_now().await;
        stake.attempt(now).await
    }
}

#[derive(Debug)]
pub(super) struct BusyAtFirst;

#[async_trait]
impl Defect for BusyAtFirst {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        if !std::mem::replace(&mut stake.mark, true) {
            return Ok(BUSY);
        }
        stake.attempt(now).await
    }
}

#[derive(Debug)]
pub(super) struct NewFenceEachTime;

#[async_trait]
impl Defect for NewFenceEachTime {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let mut answer = stake.attempt(now).await?;
        if let Attempt::Granted(grant) = &mut answer {
            grant.fence += u64::from(stake.n_grants) - 1;
        }
        Ok(answer)
    }
}

#[derive(Debug)]
pub(super) struct BusyForItself;

#[async_trait]
impl Defect for BusyForItself {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        if stake.was_granted() {
            return Ok(BUSY);
        }
        stake.attempt(now).await
    }
}

/// An attempt that was given up half-way makes it a stranger.
#[derive(Debug)]
pub(super) struct ForgetsAttemptsCutShort;

#[async_trait]
impl Defect for ForgetsAttemptsCutShort {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        if std::mem::replace(&mut stake.mark, true) {
            return Ok(BUSY);
        }
        let answer = stake.attempt(now).await;
        future::yield_now().await;
        stake.mark = false;
        answer
    }
}

#[derive(Debug)]
pub(super) struct CountsAttempts;

#[async_trait]
impl Defect for CountsAttempts {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        stake.n_grants = stake.n_grants.saturating_sub(1);
        if stake.was_granted() { Ok(Released::Done) } else { stake.release(now).await }
    }
}

#[derive(Debug)]
pub(super) struct TriesStandInLine;

impl Defect for TriesStandInLine {
    fn request(&self, request: &mut Request) {
        request.patience = Patience::Waits;
    }
}

#[derive(Debug)]
pub(super) struct ServesOnlyListeners;

#[async_trait]
impl Defect for ServesOnlyListeners {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        if stake.n_attempts > 0 && !stake.was_granted() && !stake.mark {
            return Ok(BUSY);
        }
        stake.attempt(now).await
    }

    async fn changed(&self, stake: &mut Stake) {
        stake.claim.changed().await;
        stake.mark = true;
    }
}

#[derive(Debug)]
pub(super) struct BargesIntoHeldLocks;

#[async_trait]
impl Defect for BargesIntoHeldLocks {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        match stake.attempt(now).await? {
            Attempt::Busy { .. } if stake.request.order == Order::Barging => {
                Ok(made_up(stake, now))
            }
            answer => Ok(answer),
        }
    }
}

#[derive(Debug)]
pub(super) struct BusyWhenCutOff;

#[async_trait]
impl Defect for BusyWhenCutOff {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        Ok(stake.attempt(now).await.unwrap_or(BUSY))
    }
}
