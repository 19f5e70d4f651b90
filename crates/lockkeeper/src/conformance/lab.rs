//! What the suite asks of whoever wants an engine checked.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    engine::{Engine, error::Result, key::Key},
    engines,
};

/// A place where locks live, and what can be done to it for a test.
#[async_trait]
pub trait Lab: Send + Sync {
    /// A fresh connection; all connections of a lab meet at the same locks.
    async fn engine(&self) -> Result<Box<dyn Engine>>;

    /// How long anything that must happen may take, beyond what the engine promises, before the
    /// suite calls it broken. Only ever a stop against hanging: a busy machine must not reach it.
    fn limit(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// Takes the lock away from whoever holds this key, as an operator or a lost disk would.
    async fn take_away(&self, _key: &Key) -> Ability {
        Ability::No("the lab cannot take a lock away")
    }

    /// Cuts all connections that there are and refuses new requests, until [`heal`](Self::heal).
    async fn cut_off(&self) -> Ability {
        Ability::No("the lab cannot cut connections")
    }

    /// Undoes [`cut_off`](Self::cut_off).
    async fn heal(&self) {}

    /// Starts a second process that uses the same place.
    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::No("the lab has no second process")
    }
}

/// Whether a lab can do what it was asked to, and did.
#[derive(Debug)]
pub enum Ability<T = ()> {
    /// It did, and this is what came of it.
    Yes(T),
    /// It cannot, and this is why.
    No(&'static str),
}

/// A second process that uses the same place through [`Locks`](crate::Locks). It ends when this is
/// dropped.
#[async_trait]
pub trait Neighbour: Send {
    /// Takes the lock if it is free, and answers the fence.
    async fn try_hold(&mut self, key: &Key, ttl: Duration) -> Result<Option<u64>>;

    /// Begins to wait; answers as soon as the engine has said that the key is busy.
    async fn wait_in_line(&mut self, key: &Key, ttl: Duration) -> Result<()>;

    /// Ends when the wait begun with [`wait_in_line`](Self::wait_in_line) has won; answers the fence.
    async fn served(&mut self) -> Result<u64>;

    /// Whether its guard says that it holds the lock.
    async fn is_held(&mut self) -> Result<bool>;

    /// Releases what it holds.
    async fn release(&mut self) -> Result<()>;

    /// Ends it with no chance to clean up (`SIGKILL`), and waits until it is gone.
    async fn kill(&mut self) -> Result<()>;

    /// Stops it in the middle of whatever it does (`SIGSTOP`).
    async fn stop(&mut self) -> Result<()>;

    /// Lets it go on (`SIGCONT`).
    async fn go_on(&mut self) -> Result<()>;
}

/// Opens the engine that a URL names, for labs of engines that are built in.
///
/// # Errors
/// As [`Locks::connect`](crate::Locks::connect).
pub async fn open(url: &str) -> Result<Box<dyn Engine>> {
    engines::open(Some(url), crate::time::clock::Clock::default().now()).await
}
