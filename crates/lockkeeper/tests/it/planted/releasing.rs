//! Defects in giving back.

use async_trait::async_trait;
use futures_lite::future;
use lockkeeper::{
    Error, Result,
    engine::{Attempt, Moment, Released},
};

use super::machine::{Defect, Stake};

#[derive(Debug)]
pub(super) struct ReleasesNothing;

#[async_trait]
impl Defect for ReleasesNothing {
    async fn release(&self, _: &mut Stake, _: Moment) -> Result<Released> {
        Ok(Released::Done)
    }
}

#[derive(Debug)]
pub(super) struct ReleasesOnlyOnce;

#[async_trait]
impl Defect for ReleasesOnlyOnce {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        if stake.n_releases > 0 {
            return Err(Error::refused("not held"));
        }
        stake.release(now).await
    }
}

#[derive(Debug)]
pub(super) struct ReleasesOnlyWhatIsHeld;

#[async_trait]
impl Defect for ReleasesOnlyWhatIsHeld {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        if !stake.was_granted() {
            return Err(Error::refused("not held"));
        }
        stake.release(now).await
    }
}

/// Whoever releases, it is free.
#[derive(Debug)]
pub(super) struct ReleasesByKey;

#[async_trait]
impl Defect for ReleasesByKey {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        stake.engine.memory.take_away(stake.key());
        stake.release(now).await
    }
}

/// The same, but only if it was ours once.
#[derive(Debug)]
pub(super) struct ReleasesByKeyWhatItOnceHeld;

#[async_trait]
impl Defect for ReleasesByKeyWhatItOnceHeld {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        if stake.was_granted() {
            stake.engine.memory.take_away(stake.key());
        }
        stake.release(now).await
    }
}

/// A grant whose answer nobody waited for is not given back.
#[derive(Debug)]
pub(super) struct ReleasesOnlyWhatItHeardOf;

#[async_trait]
impl Defect for ReleasesOnlyWhatItHeardOf {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let answer = stake.attempt(now).await;
        future::yield_now().await;
        stake.mark = true;
        answer
    }

    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        if stake.mark { stake.release(now).await } else { Ok(Released::Done) }
    }
}

/// What it gave back was its own, whatever the table says.
#[derive(Debug)]
pub(super) struct ReleasesWithoutALook;

#[async_trait]
impl Defect for ReleasesWithoutALook {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        stake.release(now).await.map(|_| Released::Done)
    }
}

/// Whoever was granted it once is told that it was not its own, also when nothing is left to release.
#[derive(Debug)]
pub(super) struct NeverItsOwn;

#[async_trait]
impl Defect for NeverItsOwn {
    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        let n_releases = stake.n_releases;
        let released = stake.release(now).await?;
        Ok(if n_releases > 0 && stake.was_granted() { Released::NotOurs } else { released })
    }
}

/// A claim that may still hold the lock takes up another request.
#[derive(Debug)]
pub(super) struct ReusedTooSoon;

impl Defect for ReusedTooSoon {
    fn is_reusable(&self, _: &Stake) -> bool {
        true
    }
}

/// A claim that is used again goes on with its last request.
#[derive(Debug)]
pub(super) struct ReusedAsBefore;

impl Defect for ReusedAsBefore {
    fn is_reusable(&self, stake: &Stake) -> bool {
        stake.n_attempts == stake.n_releases
    }
}
