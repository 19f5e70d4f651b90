//! The Rust peers, as they come.

use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisDistributedLock, RedisLockProvider};
use rslock::LockManager;
use tokio::{runtime::Runtime, task::yield_now};

use super::{
    talk::{Keys, Request},
    tally::{Contender, Tally, Tasks},
};
use crate::Result;

const TTL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Rslock {
    manager: LockManager,
    key: String,
}

impl Rslock {
    pub(crate) fn tasks(runtime: Runtime, urls: &[String], request: &Request) -> Tasks<Self> {
        let shared = LockManager::new(urls.to_vec());
        let contenders = (0..request.n_contenders)
            .map(|number| Self {
                manager: match request.keys {
                    Keys::Distinct => shared.clone(),
                    Keys::Same => LockManager::new(urls.to_vec()),
                },
                key: request.key(number),
            })
            .collect();
        Tasks { runtime, contenders }
    }
}

impl Contender for Rslock {
    async fn cycle(&mut self, tally: &mut Tally) -> Result<()> {
        let guard = self.manager.acquire(self.key.as_str(), TTL).await?;
        tally.held();
        guard.release().await;
        Ok(())
    }
}

/// A contender with distributed-lock.
pub(crate) struct Distributed {
    lock: RedisDistributedLock,
}

impl Distributed {
    pub(crate) fn tasks(
        runtime: Runtime,
        urls: &[String],
        request: &Request,
    ) -> Result<Tasks<Self>> {
        let contenders = runtime.block_on(Self::contenders(urls, request))?;
        Ok(Tasks { runtime, contenders })
    }

    async fn contenders(urls: &[String], request: &Request) -> Result<Vec<Self>> {
        let provider = || RedisLockProvider::builder().urls(urls).expiry(TTL).build();
        let shared = provider().await?;
        let mut contenders = Vec::new();
        for number in 0..request.n_contenders {
            let key = request.key(number);
            let lock = match request.keys {
                Keys::Distinct => shared.create_lock(&key),
                Keys::Same => provider().await?.create_lock(&key),
            };
            contenders.push(Self { lock });
        }
        Ok(contenders)
    }
}

impl Contender for Distributed {
    async fn cycle(&mut self, tally: &mut Tally) -> Result<()> {
        // Its `acquire` does not wait for a busy lock.
        let held = loop {
            match self.lock.try_acquire().await? {
                Some(held) => break held,
                None => yield_now().await,
            }
        };
        tally.held();
        Ok(held.release().await?)
    }
}
