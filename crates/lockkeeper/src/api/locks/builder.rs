//! Settings for [`Locks`].

use std::{fmt, sync::Arc, time::Duration};

use futures_lite::future;

use super::{DEFAULT_TTL, Locks};
use crate::{
    engine::{
        Engine, Order,
        error::{Call, Error, ErrorKind, Result},
        event::{Observer, Observers},
    },
    engines,
    line::{
        core::{Core, Lines, Numbers},
        errand::{steward::Steward, unconfirmed::Unconfirmed},
        limit,
        seat::Terms,
    },
    time::{
        alarms::{Alarms, Attention},
        clock::Clock,
    },
    tools::{fork::Origin, url::without_secrets},
};

/// How long a call of an engine may take before it counts as not answered.
pub const DEFAULT_ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long opening an engine may take.
pub const DEFAULT_CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Settings for [`Locks`].
pub struct LocksBuilder {
    url: Option<String>,
    ttl: Option<Duration>,
    label: Option<String>,
    answer_within: Duration,
    connect_within: Duration,
    observers: Observers,
    clock: Clock,
    attention: Attention,
}

impl Default for LocksBuilder {
    fn default() -> Self {
        Self {
            url: None,
            ttl: None,
            label: None,
            answer_within: DEFAULT_ANSWER_WITHIN,
            connect_within: DEFAULT_CONNECT_WITHIN,
            observers: Observers::default(),
            clock: Clock::default(),
            attention: Attention::ByThread,
        }
    }
}

impl LocksBuilder {
    /// Where the locks live; without one, the file engine in this user's state folder.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.url = Some(url.to_owned());
        self
    }

    /// The ttl of locks that say nothing else; by default 10 s, or what others who share the locks
    /// of this engine use.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The [label](crate::Lock::label) of locks that say nothing else; by default the program's name.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }

    /// How long the engine may take to answer one call; 2 s by default. What it has not answered by
    /// then counts as [`Unreachable`](ErrorKind::Unreachable): one who tries is told so, one who
    /// waits asks again. A renewal is given half of what is left of its lease at most, so that
    /// there is time for another. Engines that need no network ignore it.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer_within = limit;
        self
    }

    /// How long opening the engine may take; 5 s by default.
    #[must_use]
    pub fn connect_within(mut self, limit: Duration) -> Self {
        self.connect_within = limit;
        self
    }

    /// Has this observer told of every event.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer) -> Self {
        self.observers.0.push(Arc::new(observer));
        self
    }

    /// Another clock, for tests that move time by hand.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts no thread to look after holds: the program calls [`Locks::attend`] itself, in time.
    ///
    /// Only for programs that live briefly and have one loop of their own, where a thread would be
    /// felt. A hold that nobody attends is neither renewed nor told of its loss.
    #[must_use]
    pub fn attended(mut self) -> Self {
        self.attention = Attention::ByProgram;
        self
    }

    /// Opens the engine.
    ///
    /// # Errors
    /// As [`Locks::connect`].
    pub async fn connect(self) -> Result<Locks> {
        self.check()?;
        let alarms = self.alarms();
        let opened = engines::open(self.url.as_deref(), self.clock.now());
        let late = async {
            alarms.rest(self.connect_within).await;
            Err(self.no_answer())
        };
        let engine = future::or(opened, late).await?;
        self.furnish(engine, alarms)
    }

    /// Uses this engine and no URL.
    ///
    /// # Errors
    /// [`ErrorKind::BadOptions`] for a limit of 0; [`ErrorKind::Other`] if the system has no
    /// randomness for us.
    pub fn build(self, engine: Box<dyn Engine>) -> Result<Locks> {
        self.check()?;
        let alarms = self.alarms();
        self.furnish(engine, alarms)
    }

    fn no_answer(&self) -> Error {
        let (url, limit) = (self.url.as_deref().unwrap_or_default(), self.connect_within);
        let message = format!(
            "no answer from {} within {}; look whether the server runs and can be reached \
             from here",
            without_secrets(url),
            limit::shown(limit)
        );
        let error = Error::new(ErrorKind::Unreachable, message);
        match engines::name_of(url) {
            Some(engine) => error.at(engine, None, Call::Connect),
            None => error.during(Call::Connect),
        }
    }

    fn alarms(&self) -> Alarms {
        Alarms::new(self.clock.clone(), self.attention)
    }

    fn check(&self) -> Result<()> {
        let limits = [("an answer", self.answer_within), ("connecting", self.connect_within)];
        match limits.iter().find(|(_, limit)| limit.is_zero()) {
            None => Ok(()),
            Some((what, _)) => {
                Err(Error::bad_options(format!("a limit of 0 for {what} is over before it begins")))
            }
        }
    }

    fn furnish(self, engine: Box<dyn Engine>, alarms: Alarms) -> Result<Locks> {
        let label = self.label.unwrap_or_else(program_name).into();
        let profile = engine.profile();
        let ttl = self.ttl.or(profile.usual_ttl).unwrap_or(DEFAULT_TTL);
        let place = self.url.as_deref().map_or_else(|| profile.engine.into(), without_secrets);
        let core = Core {
            profile,
            place,
            engine: engine.into(),
            terms: Terms { ttl, label, order: Order::FirstCome },
            answer_within: self.answer_within,
            alarms,
            clock: self.clock,
            steward: Steward::new(),
            unconfirmed: Unconfirmed::default(),
            observers: self.observers,
            lines: Lines::default(),
            numbers: Numbers::draw()?,
            origin: Origin::here(),
        };
        Ok(Locks { core: Arc::new(core) })
    }
}

impl fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder")
            // A URL may have a password in it.
            .field("url", &self.url.as_ref().map(|_| "…"))
            .field("ttl", &self.ttl)
            .field("label", &self.label)
            .field("answer_within", &self.answer_within)
            .field("connect_within", &self.connect_within)
            .field("observers", &self.observers)
            .finish_non_exhaustive()
    }
}

fn program_name() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_name().unwrap_or_default();
    name.to_string_lossy().chars().take(64).collect()
}
