//! Defects in fences, keys and what people are shown.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper::{
    Key, Result,
    engine::{Attempt, Grant, Inspector, Listed, Moment, Party, Released, Request, Who},
    engines::memory::Memory,
};

use super::machine::{Defect, Stake};

/// Changes what every grant says.
#[derive(Debug)]
pub(super) struct Grants(pub(super) fn(&mut Grant));

#[async_trait]
impl Defect for Grants {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let mut answer = stake.attempt(now).await?;
        if let Attempt::Granted(grant) = &mut answer {
            (self.0)(grant);
        }
        Ok(answer)
    }
}

/// The fence grows with releases, not with grants.
#[derive(Debug, Default)]
pub(super) struct CountsReleases(AtomicU64);

#[async_trait]
impl Defect for CountsReleases {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let mut answer = stake.attempt(now).await?;
        if let Attempt::Granted(grant) = &mut answer {
            grant.fence = 1 + u64::from(grant.n_fences) * self.0.load(Ordering::SeqCst);
        }
        Ok(answer)
    }

    async fn release(&self, stake: &mut Stake, now: Moment) -> Result<Released> {
        self.0.fetch_add(1, Ordering::SeqCst);
        stake.release(now).await
    }
}

/// Tidying up begins to count anew.
#[derive(Debug, Default)]
pub(super) struct TidiesTheCounterAway {
    last: AtomicU64,
    forgotten: AtomicU64,
}

#[async_trait]
impl Defect for TidiesTheCounterAway {
    async fn attempt(&self, stake: &mut Stake, now: Moment) -> Result<Attempt> {
        let mut answer = stake.attempt(now).await?;
        if let Attempt::Granted(grant) = &mut answer {
            self.last.store(grant.fence, Ordering::SeqCst);
            grant.fence -= self.forgotten.load(Ordering::SeqCst);
        }
        Ok(answer)
    }

    async fn tidy(&self, memory: &Memory, idle: Duration, now: Moment) -> Result<usize> {
        self.forgotten.store(self.last.load(Ordering::SeqCst), Ordering::SeqCst);
        memory.tidy(idle, now).await
    }
}

/// Takes one key for another.
#[derive(Debug)]
pub(super) struct Keys(pub(super) fn(&str) -> String);

impl Defect for Keys {
    fn request(&self, request: &mut Request) {
        request.key = Key::new(&(self.0)(request.key.as_str())).unwrap();
    }
}

/// Changes what `who` says.
#[derive(Debug)]
pub(super) struct Shows(pub(super) fn(&mut Who));

#[async_trait]
impl Defect for Shows {
    async fn who(&self, memory: &Memory, key: &Key, now: Moment) -> Result<Who> {
        let mut who = memory.who(key, now).await?;
        (self.0)(&mut who);
        Ok(who)
    }
}

pub(super) fn somebody(who: &mut Who) {
    who.holder.get_or_insert_with(Party::of_this_process);
}

/// Changes what `list` says.
#[derive(Debug)]
pub(super) struct Lists(pub(super) fn(&mut Vec<Listed>));

#[async_trait]
impl Defect for Lists {
    async fn list(&self, memory: &Memory, now: Moment) -> Result<Vec<Listed>> {
        let mut list = memory.list(now).await?;
        (self.0)(&mut list);
        Ok(list)
    }
}

#[derive(Debug)]
pub(super) struct TidiesHoldersAway;

#[async_trait]
impl Defect for TidiesHoldersAway {
    async fn tidy(&self, memory: &Memory, _: Duration, now: Moment) -> Result<usize> {
        let list = memory.list(now).await?;
        list.iter().for_each(|listed| memory.take_away(&listed.key));
        Ok(list.len())
    }
}
