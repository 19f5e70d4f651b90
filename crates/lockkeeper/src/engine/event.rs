//! What happens to locks, told to whoever wants to watch.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::{error::Error, key::Key};

/// Something that happened to a lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The engine granted the key to this process.
    Granted {
        /// The key.
        key: &'a Key,
        /// The first fence of the grant.
        fence: u64,
    },
    /// The lock was handed on inside the process, without asking the engine.
    Passed {
        /// The key.
        key: &'a Key,
        /// The fence of this turn.
        fence: u64,
    },
    /// The key is busy, and this process waits for it now.
    Waiting {
        /// The key.
        key: &'a Key,
    },
    /// The engine did not answer, and is asked again after a pause.
    Troubled {
        /// The key.
        key: &'a Key,
        /// What it said, if anything.
        error: &'a Error,
        /// How long until it is asked again.
        pause: Duration,
    },
    /// A hold ended that nobody asked to end.
    Lost {
        /// The key.
        key: &'a Key,
        /// Why.
        loss: &'a Loss,
    },
    /// The key was given back to the engine.
    Released {
        /// The key.
        key: &'a Key,
    },
}

/// Why a lock was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its lease ran out before the engine confirmed a renewal.
    Expired,
    /// The engine says that it is not ours any more; the text says why.
    TakenAway(String),
    /// The maximum hold is over.
    MaximumHold,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the lease ran out before it could be renewed"),
            Self::TakenAway(why) => f.write_str(why),
            Self::MaximumHold => f.write_str("the maximum hold is over"),
        }
    }
}

/// Is told every [`Event`], on the thread where it happens: be quick, and do not call back. A panic
/// of an observer goes no further.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Everyone who watches; usually nobody.
#[derive(Clone, Default)]
pub(crate) struct Observers(pub(crate) Vec<Arc<dyn Observer>>);

impl Observers {
    pub(crate) fn tell(&self, event: &Event<'_>) {
        for observer in &self.0 {
            // A lock must not be lost because somebody's log is full; the panic has been reported.
            let _ = catch_unwind(AssertUnwindSafe(|| observer.event(event)));
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.0.len())
    }
}
