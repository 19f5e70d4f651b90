//! What a rule works with: connections, keys, a clock, and words for what went wrong.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures_lite::future;

use super::{
    contender::{Contender, Won},
    lab::{Ability, Lab, Neighbour},
};
use crate::{
    api::locks::Locks,
    engine::{
        Engine, Expiry, Fencing, OwnerId, Profile, Reach, Request,
        error::{Error, Result},
        key::Key,
    },
    time::{
        alarms::{Alarms, Attention},
        clock::Clock,
    },
};

/// A ttl that no rule waits for.
const LONG_TTL: Duration = Duration::from_secs(60);
/// Longer than the default, as the machine may be busy; some rules wait for its end.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Why a rule ends before its end.
#[derive(Debug)]
pub(super) enum Stop {
    Broken(String),
    Skipped(String),
}

/// What a rule, or a step of it, found.
pub(super) type Finding<T = ()> = Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Broken(format!("an error where none may be: {error:?}"))
    }
}

macro_rules! ensure {
    ($holds:expr, $($otherwise:tt)+) => {
        if !$holds {
            return Err($crate::conformance::room::Stop::Broken(format!($($otherwise)+)));
        }
    };
}
pub(super) use ensure;

/// Where one rule is checked, with keys of its own.
pub(super) struct Room<'a> {
    pub(super) lab: &'a dyn Lab,
    pub(super) profile: Profile,
    pub(super) clock: Clock,
    alarms: Alarms,
    engines: [Box<dyn Engine>; 2],
    number: u64,
    n_keys: AtomicU32,
    n_contenders: AtomicU32,
}

impl<'a> Room<'a> {
    pub(super) async fn open(lab: &'a dyn Lab) -> Result<Self> {
        let engines = [lab.engine().await?, lab.engine().await?];
        let clock = Clock::default();
        Ok(Self {
            lab,
            profile: engines[0].profile(),
            alarms: Alarms::new(clock.clone(), Attention::ByThread),
            clock,
            engines,
            number: fastrand::u64(..),
            n_keys: AtomicU32::new(0),
            n_contenders: AtomicU32::new(0),
        })
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        &*self.engines[0]
    }

    pub(super) fn limit(&self) -> Duration {
        self.lab.limit()
    }

    /// A key that nobody has used before: letters that every engine can take as they are.
    pub(super) fn key(&self) -> Result<Key> {
        let n = self.n_keys.fetch_add(1, Ordering::Relaxed);
        Key::new(&format!("conformance-{:016x}-{n}", self.number))
    }

    /// About the shortest ttl the engine keeps; over a network, one that outlasts a few answers
    /// also when the machine is busy.
    pub(super) fn short_ttl(&self) -> Duration {
        let at_least = match self.profile.reach {
            Reach::Process | Reach::Machine => crate::SHORTEST_TTL,
            Reach::Network => Duration::from_secs(1),
        };
        match self.profile.expiry {
            Expiry::Lease { shortest } => shortest.max(at_least),
            Expiry::Session => at_least,
        }
    }

    /// Long enough that a busy machine still renews in time.
    pub(super) fn steady_ttl(&self) -> Duration {
        let at_least = match self.profile.reach {
            Reach::Process | Reach::Machine => Duration::from_secs(1),
            Reach::Network => Duration::from_secs(3),
        };
        self.short_ttl().max(at_least)
    }

    /// Someone who wants this key and would wait. Contenders sit at two connections in turn, so that
    /// every rule is checked across connections.
    pub(super) fn enter(&self, name: &'static str, key: &Key) -> Contender<'_> {
        self.enter_with(name, key, |_| {})
    }

    /// Someone who wants this key in a way of its own.
    pub(super) fn enter_with(
        &self,
        name: &'static str,
        key: &Key,
        change: impl FnOnce(&mut Request),
    ) -> Contender<'_> {
        let n = self.n_contenders.fetch_add(1, Ordering::Relaxed) as usize;
        let mut request = Request::new(key.clone(), OwnerId(fastrand::u128(..)), LONG_TTL);
        request.label = name.into();
        change(&mut request);
        Contender::new(self, name, self.engines[n % 2].claim(request))
    }

    /// A connection of its own with everything above it.
    pub(super) async fn locks(&self) -> Result<Locks> {
        let locks = Locks::builder().ttl(LONG_TTL).label("conformance");
        let locks = locks.answer_within(ANSWER_WITHIN);
        locks.build(self.lab.engine().await?)
    }

    pub(super) async fn pause(&self, pause: Duration) {
        self.alarms.wait_until(self.clock.now() + pause).await;
    }

    /// Waits, but not for ever.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        what: &str,
        work: impl Future<Output = T>,
    ) -> Finding<T> {
        let late = async {
            self.pause(limit).await;
            let limit = humantime::format_duration(limit);
            Err(Stop::Broken(format!("waited {limit} for {what}")))
        };
        future::or(async { Ok(work.await) }, late).await
    }

    pub(super) fn ensure_fence_grew(&self, before: &Won, after: &Won) -> Finding {
        if self.profile.fencing != Fencing::None {
            let end = before.fence + u64::from(before.n_fences);
            ensure!(
                after.fence >= end,
                "a grant with the fences {} to {} was followed by one with {}",
                before.fence,
                end - 1,
                after.fence
            );
        }
        Ok(())
    }

    pub(super) async fn take_away(&self, key: &Key) -> Finding {
        able(self.lab.take_away(key).await)
    }

    pub(super) async fn neighbour(&self) -> Finding<Box<dyn Neighbour>> {
        able(self.lab.neighbour().await)
    }
}

/// Skips the rule if the lab cannot do what it needs.
pub(super) fn able<T>(ability: Ability<T>) -> Finding<T> {
    match ability {
        Ability::Yes(answer) => Ok(answer),
        Ability::No(why) => Err(Stop::Skipped(why.to_owned())),
    }
}
