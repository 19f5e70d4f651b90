//! A claim on a lock of Redisson's dialect.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Publishes, listening::Listening};
use crate::{
    engine::{
        Attempt, Claim, Moment, OwnerId, Patience, Released, Request, Standing, error::Result,
    },
    engines::redis::{
        dialects::foreign_claim::{ForeignClaim, Shared},
        server::replicas::{Renamed, given_back, renamed_if_spent},
    },
};

#[derive(Debug)]
pub(super) struct RedissonClaim {
    foreign: ForeignClaim,
    patience: Patience,
    listening: Listening,
    /// Whether it was told that the key is busy, and listens since.
    is_waiting: bool,
    publishes: Publishes,
}

impl RedissonClaim {
    pub(super) fn new(shared: &Arc<Shared>, request: &Request, publishes: Publishes) -> Self {
        let foreign = ForeignClaim::new(shared, request, holder(request.owner));
        let listening = Listening::new(shared, channel(&foreign.lock));
        Self { foreign, patience: request.patience, listening, is_waiting: false, publishes }
    }

    /// Asks where it listens: a release after the answer is heard.
    async fn listen_and_ask(&mut self, now: Moment) -> Result<Attempt> {
        let at = self.foreign.reach(now).await?;
        self.listening.begin(at, now).await;
        self.foreign.ask(now).await
    }

    fn wait_no_more(&mut self) {
        self.is_waiting = false;
        self.listening.end();
    }

    async fn take_or_ask(&mut self, now: Moment) -> Result<Attempt> {
        if !self.is_waiting {
            let answer = self.foreign.ask(now).await?;
            if self.patience == Patience::Tries || matches!(answer, Attempt::Granted(_)) {
                return Ok(answer);
            }
            self.is_waiting = true;
        }
        let answer = self.listen_and_ask(now).await?;
        if let Attempt::Granted(_) = answer {
            self.wait_no_more();
        }
        Ok(answer)
    }
}

impl Renamed for RedissonClaim {
    fn is_spent(&mut self) -> &mut bool {
        &mut self.foreign.is_spent
    }

    fn rename(&mut self, owner: OwnerId) {
        self.foreign.owner = holder(owner);
    }
}

#[async_trait]
impl Claim for RedissonClaim {
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
        self.wait_no_more();
        let told: &[u8] = match self.publishes {
            Publishes::Once => b"once",
            Publishes::Both => b"both",
        };
        let [queue, ends] = [b"redisson_lock_queue:", b"redisson_lock_timeout:" as &[u8]]
            .map(|name| beside(name, &self.foreign.lock));
        self.foreign.release(&[self.listening.channel(), told, &queue, &ends], now).await
    }

    async fn changed(&mut self) {
        self.listening.told().await;
    }
}

/// What Redisson calls the one who holds: the number of a client and that of a thread. Each claim of ours
/// is a client of its own with one thread.
fn holder(owner: OwnerId) -> String {
    let digits = owner.to_string();
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{a}-{b}-{c}-{d}-{e}:1")
}

/// What Redisson calls something that belongs to a lock.
fn beside(name: &[u8], lock: &[u8]) -> Vec<u8> {
    if lock.contains(&b'{') { [name, lock].concat() } else { [name, b"{", lock, b"}"].concat() }
}

/// Where a release is told.
fn channel(lock: &[u8]) -> Vec<u8> {
    beside(b"redisson_lock__channel:", lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_redisson() {
        let owner = OwnerId(0xb983_c153_7421_469a_addb_44fb_9225_9a1b);
        assert_eq!(holder(owner), "b983c153-7421-469a-addb-44fb92259a1b:1");
        assert_eq!(channel(b"a"), b"redisson_lock__channel:{a}");
        assert_eq!(channel(b"a{b}"), b"redisson_lock__channel:a{b}");
        assert_eq!(channel(b"a{"), b"redisson_lock__channel:a{");
    }
}
