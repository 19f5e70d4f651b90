//! Defects in the queue and in waking.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use futures_lite::future;
use lockkeeper::{
    Result,
    blocking::block_on,
    engine::{Attempt, Claim, Moment, Order, Released, Request},
};

use super::machine::{Defect, Stake};

#[derive(Debug)]
pub(super) struct WakesNobody;

#[async_trait]
impl Defect for WakesNobody {
    async fn changed(&self, _: &mut Stake) {
        future::pending::<()>().await;
    }
}

/// Whoever stops listening is never told again.
#[derive(Debug)]
pub(super) struct ForgetsWhoStopsListening;

#[async_trait]
impl Defect for ForgetsWhoStopsListening {
    async fn changed(&self, stake: &mut Stake) {
        if std::mem::replace(&mut stake.mark, true) {
            future::pending::<()>().await;
        }
        stake.claim.changed().await;
        stake.mark = false;
    }
}

#[derive(Debug, Default)]
pub(super) struct WakesOnlyOne(AtomicBool);

#[async_trait]
impl Defect for WakesOnlyOne {
    async fn changed(&self, stake: &mut Stake) {
        stake.claim.changed().await;
        if self.0.swap(true, Ordering::SeqCst) {
            future::pending::<()>().await;
        }
    }
}

#[derive(Debug)]
pub(super) struct ServesWhoeverAsksFirst;

impl Defect for ServesWhoeverAsksFirst {
    fn request(&self, request: &mut Request) {
        request.order = Order::Barging;
    }
}

/// Those who stand in line keep their order, but who comes to a free key takes it.
#[derive(Debug)]
pub(super) struct NewcomersOvertake;

#[async_trait]
impl Defect for NewcomersOvertake {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        if stake.n_attempts == 0 {
            let mut twin = stake.twin(|request| request.order = Order::Barging);
            twin.attempt(now).await?;
        }
        stake.attempt(now).await
    }
}

/// Places in line that nobody gives up any more.
#[derive(Debug, Default)]
struct Ghosts(Mutex<Vec<Box<dyn Claim>>>);

impl Ghosts {
    fn add(&self, stake: &Stake) {
        self.0.lock().unwrap().push(stake.twin(|_| {}));
    }

    /// They go on asking as if they lived.
    fn ask(&self, now: Moment) {
        for ghost in &mut *self.0.lock().unwrap() {
            // Cut off or not, a ghost does not mind.
            drop(block_on(ghost.attempt(now)));
        }
    }
}

/// Who gives up waiting stays in line.
#[derive(Debug, Default)]
pub(super) struct KeepsLeavers(Ghosts);

#[async_trait]
impl Defect for KeepsLeavers {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        self.0.ask(now);
        stake.attempt(now).await
    }

    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        if stake.n_attempts > 0 && !stake.was_granted() {
            self.0.add(stake);
            return Ok(Released::Done);
        }
        stake.release(now).await
    }
}

/// Who vanishes while waiting stays in line.
#[derive(Debug, Default)]
pub(super) struct KeepsTheVanished(Ghosts);

#[async_trait]
impl Defect for KeepsTheVanished {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        self.0.ask(now);
        stake.attempt(now).await
    }

    fn dropped(&self, stake: Stake) {
        if stake.n_attempts > 0 && !stake.was_granted() && stake.n_releases == 0 {
            self.0.add(&stake);
        }
    }
}
