//! Looking at locks: who holds, who waits, what can be cleaned up.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    Moment,
    error::{Error, Result},
    key::Key,
};

/// Looks at locks without disturbing them. Each look is told the moment, as every call of the contract is.
#[async_trait]
pub trait Inspector: Send + Sync {
    /// Who holds this key and who waits for it, in order.
    async fn who(&self, key: &Key, now: Moment) -> Result<Who>;

    /// The keys the engine knows, held or not, in the alphabet's order.
    async fn list(&self, now: Moment) -> Result<Vec<Listed>>;

    /// Cleans up what nobody has used for `idle`, and says how many keys that were.
    async fn tidy(&self, idle: Duration, now: Moment) -> Result<usize>;

    /// Ends the hold of this owner, as [`who`](Self::who) named it, for somebody who knows that the owner is
    /// gone for good. An owner that lives is told of the loss as of any other. Answers whether that owner
    /// held the key.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the engine cannot do that.
    async fn break_hold(&self, _key: &Key, _owner: &str, _now: Moment) -> Result<bool> {
        Err(Error::unsupported("this engine cannot end the hold of another"))
    }
}

/// Who holds a key and who waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The holder, if the key is held.
    pub holder: Option<Party>,
    /// Those in line, the next one first.
    pub line: Vec<Party>,
}

/// What is known of a holder or a waiter; fields an engine cannot tell are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Party {
    /// Its process.
    pub pid: Option<u32>,
    /// Its machine.
    pub host: Option<String>,
    /// The label it was given.
    pub label: Option<String>,
    /// Microseconds since 1970 when it began to hold.
    pub since_us: Option<u64>,
    /// Microseconds since 1970 until when it holds without a renewal.
    pub until_us: Option<u64>,
    /// Its fence.
    pub fence: Option<u64>,
    /// What the engine knows it by.
    pub owner: Option<String>,
    /// How many times it has taken the lock without giving it back, where the engine counts that.
    pub n_entries: Option<u32>,
}

impl Party {
    /// What can be said of this process.
    pub fn of_this_process() -> Self {
        Self { pid: Some(std::process::id()), ..Self::default() }
    }
}

/// One line of [`Inspector::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// Whether it is held now.
    pub held: bool,
    /// How many are in line.
    pub n_waiting: usize,
}
