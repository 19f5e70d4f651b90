//! Neighbours that live in this process, sound and not: they show that the rules about processes
//! can fail.

use std::{sync::Mutex, thread, time::Duration};

use async_trait::async_trait;
use futures_lite::future;
use lockkeeper::{
    Error, ErrorKind, Guard, Key, Locks, Result, blocking,
    conformance::{Ability, Lab, Neighbour, Verdict},
    engine::{Claim, Engine, Expiry, Inspector, Profile, Reach, Request},
};

use tokio::sync::oneshot;

use super::{machine::Wired, verdict};

/// What is wrong with a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Nothing,
    /// It uses another place.
    LivesElsewhere,
    /// It goes on after it was killed.
    IsUndead,
    /// It goes on while it is stopped.
    IsSleepless,
    /// It lets go of everything when it is stopped.
    LetsGo,
}

/// Says that its locks reach other processes, which here are threads.
#[derive(Debug)]
struct Reaching(Wired, Expiry);

impl Engine for Reaching {
    fn profile(&self) -> Profile {
        let mut profile = self.0.profile();
        (profile.reach, profile.expiry) = (Reach::Machine, self.1);
        profile
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        self.0.claim(request)
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.0.inspector()
    }
}

struct Street {
    engine: Wired,
    expiry: Expiry,
    fault: Fault,
    limit: Duration,
}

#[async_trait]
impl Lab for Street {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Reaching(self.engine.clone(), self.expiry)))
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        let engine = match self.fault {
            Fault::LivesElsewhere => Wired::default(),
            _ => self.engine.clone(),
        };
        let locks = Locks::builder().build(Box::new(engine)).unwrap();
        let stays = matches!(self.expiry, Expiry::Session);
        Ability::Yes(Box::new(Tenant { locks, fault: self.fault, stays, guard: None, wait: None }))
    }
}

struct Tenant {
    locks: Locks,
    fault: Fault,
    /// Whether being stopped costs nothing.
    stays: bool,
    guard: Option<Guard>,
    wait: Option<Wait>,
}

/// A thread that waits, and what ends it.
struct Wait {
    thread: thread::JoinHandle<Result<Guard>>,
    kill: oneshot::Sender<()>,
}

/// Waits of those who go on after they were killed.
static UNDEAD: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

impl Tenant {
    /// The ttl it is told to have; one who is to go on must do so also when the machine stands still.
    fn ttl(&self, ttl: Duration) -> Duration {
        match self.fault {
            Fault::IsUndead | Fault::IsSleepless => Duration::from_secs(3600),
            _ if self.stays => Duration::from_secs(3600),
            Fault::Nothing | Fault::LivesElsewhere | Fault::LetsGo => ttl,
        }
    }
}

#[async_trait]
impl Neighbour for Tenant {
    async fn try_hold(&mut self, key: &Key, ttl: Duration) -> Result<Option<u64>> {
        let lock = self.locks.lock(key.as_str()).ttl(self.ttl(ttl));
        self.guard = lock.try_acquire().await?;
        Ok(self.guard.as_ref().map(Guard::fence))
    }

    async fn wait_in_line(&mut self, key: &Key, ttl: Duration) -> Result<()> {
        let lock = self.locks.lock(key.as_str()).ttl(self.ttl(ttl));
        let (kill, killed) = oneshot::channel();
        let killed = async {
            // Sent or dropped with the tenant: over either way.
            let _ = killed.await;
            Err(gone())
        };
        let wait = async move { future::or(lock.acquire(), killed).await };
        self.wait = Some(Wait { thread: thread::spawn(|| blocking::block_on(wait)), kill });
        let elsewhere = self.fault == Fault::LivesElsewhere;
        while !elsewhere && self.locks.who(key.as_str()).await?.line.is_empty() {
            thread::yield_now();
        }
        Ok(())
    }

    async fn served(&mut self) -> Result<u64> {
        let guard = self.wait.take().unwrap().thread.join().unwrap()?;
        Ok(self.guard.insert(guard).fence())
    }

    async fn is_held(&mut self) -> Result<bool> {
        Ok(self.guard.as_ref().is_some_and(Guard::is_held))
    }

    async fn release(&mut self) -> Result<()> {
        match self.guard.take() {
            Some(guard) => guard.release().await,
            None => Err(gone()),
        }
    }

    async fn kill(&mut self) -> Result<()> {
        if self.fault == Fault::IsUndead {
            UNDEAD.lock().unwrap().extend(self.wait.take());
            return Ok(());
        }
        self.guard = None;
        if let Some(wait) = self.wait.take() {
            drop(wait.kill);
            drop(wait.thread.join().unwrap());
        }
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        let keeps = match self.fault {
            Fault::LetsGo => false,
            Fault::IsSleepless => true,
            _ => self.stays,
        };
        if !keeps {
            self.guard = None;
        }
        Ok(())
    }

    async fn go_on(&mut self) -> Result<()> {
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Lost, "there is nothing to hold any more")
}

/// Checks one rule with such a neighbour.
pub(super) fn check_with(fault: Fault, expiry: Expiry, limit: Duration, rule: &str) -> Verdict {
    verdict(&Street { engine: Wired::default(), expiry, fault, limit }, rule)
}
