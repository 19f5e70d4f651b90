//! What everything made from one [`Locks`](crate::Locks) shares.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    LineRecord,
    errand::{steward::Steward, unconfirmed::Unconfirmed},
    seat::{Terms, Wish},
};
use crate::{
    engine::{
        Engine, Mode, OwnerId, Profile, Request,
        error::{Call, Error, ErrorKind, Result},
        event::Observers,
        key::Key,
    },
    time::{alarms::Alarms, clock::Clock},
    tools::{
        fork::{self, Origin},
        sync::locked,
    },
};

/// How many lines may be idle before the idle ones are forgotten.
const KEPT_LINES: usize = 1024;

/// What everything made from one [`Locks`](crate::Locks) shares.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) profile: Profile,
    /// Where the locks are, as the URL says it.
    pub(crate) place: String,
    pub(crate) terms: Terms,
    pub(crate) answer_within: Duration,
    pub(crate) clock: Clock,
    pub(crate) alarms: Alarms,
    pub(crate) steward: Steward,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) observers: Observers,
    pub(crate) lines: Lines,
    pub(crate) numbers: Numbers,
    pub(crate) origin: Origin,
}

/// The lines of all keys that were wanted lately.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<HashMap<Key, Arc<LineRecord>, foldhash::fast::RandomState>>);

/// Numbers that are used once: of owners, and of the claims of this process.
#[derive(Debug)]
pub(crate) struct Numbers {
    first_owner: u128,
    n_used: AtomicU64,
}

impl Numbers {
    /// # Errors
    /// If the system has no randomness for us.
    pub(crate) fn draw() -> Result<Self> {
        let mut first_owner = [0; 16];
        getrandom::fill(&mut first_owner).map_err(|source| {
            Error::new(ErrorKind::Other, "the system gave no random numbers").because(source)
        })?;
        Ok(Self { first_owner: u128::from_le_bytes(first_owner), n_used: AtomicU64::new(0) })
    }

    /// An owner that nobody can guess, and none that was given before.
    fn owner(&self) -> OwnerId {
        OwnerId(self.first_owner.wrapping_add(self.next().into()))
    }

    pub(crate) fn next(&self) -> u64 {
        self.n_used.fetch_add(1, Ordering::Relaxed)
    }
}

impl Core {
    /// A request of a claim of its own.
    pub(crate) fn request(&self, key: &Key, wish: &Wish) -> Request {
        let terms = wish.terms(self);
        Request {
            key: key.clone(),
            owner: self.numbers.owner(),
            label: Arc::clone(&terms.label),
            mode: Mode::Exclusive,
            ttl: terms.ttl,
            patience: wish.patience,
            order: terms.order,
        }
    }

    /// The line of the key with this name.
    pub(crate) fn line_of(&self, name: &str) -> Result<Arc<LineRecord>> {
        // In a forked child the mutex may be locked for ever.
        self.check_process()?;
        // Known names need no new key; the guard must be gone before the other way is taken.
        let known = locked(&self.lines.0).get(name).map(Arc::clone);
        known.map_or_else(|| Ok(self.line(&Key::new(name)?)), Ok)
    }

    /// The line of this key, opened if there is none.
    pub(crate) fn line(&self, key: &Key) -> Arc<LineRecord> {
        let mut lines = locked(&self.lines.0);
        if let Some(line) = lines.get(key.as_str()) {
            return Arc::clone(line);
        }
        let mut closed = Vec::new();
        if lines.len() >= lines.capacity().max(KEPT_LINES) {
            // Only when the table would have to grow: so the cost is spread over all the keys
            // that were added since.
            closed.extend(lines.extract_if(|_, line| line.close_if_idle()));
        }
        let line = Arc::new(LineRecord::new(key.clone()));
        lines.insert(key.clone(), Arc::clone(&line));
        // A line may have a claim to spare, and an engine's claim may do anything when dropped.
        drop(lines);
        drop(closed);
        line
    }

    /// Whether something is still done for a key that nobody here wants any more.
    pub(crate) fn is_winding_up(&self) -> bool {
        locked(&self.lines.0).values().any(|line| line.is_winding_up())
    }

    pub(crate) fn error_at(&self, error: Error, key: &Key, call: Call) -> Error {
        error.at(self.profile.engine, Some(key), call)
    }

    /// Whether we are in the process that connected, not in a child forked from it: there, the
    /// locks are still the parent's, and our threads do not exist.
    pub(crate) fn is_this_process(&self) -> bool {
        self.origin.is_here()
    }

    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_this_process() {
            return Ok(());
        }
        Err(refused_after_fork())
    }
}

pub(crate) fn refused_after_fork() -> Error {
    Error::refused("these locks were opened before a fork; connect again in the child")
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_this_process() {
            return;
        }
        // A forked child: everything that an engine made is the parent's, and may be half-way through something.
        let lines = self.lines.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        fork::leave(std::mem::take(lines));
        fork::leave(Arc::clone(&self.engine));
        self.unconfirmed.leave();
    }
}
