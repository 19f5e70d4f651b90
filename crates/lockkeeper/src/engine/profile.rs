//! What an engine promises, as data.

use std::time::Duration;

/// What an engine promises.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// Its name in errors, events and `who`.
    pub engine: &'static str,
    /// How far its locks reach.
    pub reach: Reach,
    /// What ends a hold nobody renews.
    pub expiry: Expiry,
    /// Whether those who wait are served in the order they came.
    pub fairness: Fairness,
    /// What its fence numbers are worth.
    pub fencing: Fencing,
    /// How a waiter learns that its turn has come.
    pub wake: Wake,
    /// How a holder learns that its lock is gone.
    pub tells: Tells,
    /// Whether asking and releasing need to wait for anybody.
    pub answers: Answers,
    /// The ttl that others who share its locks use, for locks that ask for none.
    pub usual_ttl: Option<Duration>,
    /// The promise in plain words.
    pub promise: &'static str,
    /// What breaks the promise, in plain words.
    pub broken_by: &'static str,
}

impl Profile {
    /// A profile with the weakest promises; raise what the engine keeps.
    pub const fn weakest(engine: &'static str) -> Self {
        Self {
            engine,
            reach: Reach::Process,
            expiry: Expiry::Lease { shortest: Duration::from_millis(100) },
            fairness: Fairness::None,
            fencing: Fencing::None,
            wake: Wake::Asked,
            tells: Tells::AtRenewal,
            answers: Answers::Later,
            usual_ttl: None,
            promise: "",
            broken_by: "",
        }
    }
}

/// How far the locks of an engine reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The tasks and threads of one process.
    Process,
    /// The processes of one machine.
    Machine,
    /// Everyone who reaches the server.
    Network,
}

/// What ends a hold that nobody renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Time: a lease of at least `shortest`.
    Lease {
        /// The shortest ttl the engine keeps.
        shortest: Duration,
    },
    /// The end of the process or its session; a paused holder keeps the lock.
    Session,
}

/// Whether those who wait are served in the order they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// Nobody keeps an order.
    None,
    /// First come, first served.
    FirstCome,
}

/// What fence numbers are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// There are none.
    None,
    /// They grow as long as the engine's data lives.
    Grows,
    /// They grow also over crash and power loss.
    Durable,
}

/// How a waiter learns that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It asks again and again.
    Asked,
    /// It is told.
    Told,
}

/// How a holder learns that its lock is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// At the next renewal or check, or when the lease is over.
    AtRenewal,
    /// As soon as the engine knows: it raises an [`Alert`](super::Alert).
    Unasked,
}

/// Whether the calls of a claim need to wait for anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// `attempt`, and the `release` of a claim that holds, are ready when first polled.
    AtOnce,
    /// They may take a while; each is dropped when it takes too long.
    Later,
}
