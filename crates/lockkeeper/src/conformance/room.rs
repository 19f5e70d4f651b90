//! What a rule works with: connections, contenders, a clock, and words for what went wrong.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures_lite::future;

use super::lab::{Ability, Lab, Neighbour};
use crate::{
    alarm::Alarms,
    clock::{Clock, Moment},
    engine::{Attempt, Claim, Engine, Expiry, Fencing, Lease, OwnerId, Profile, Request, Standing},
    error::{Error, Result},
    key::Key,
    locks::Locks,
};

/// A ttl that no rule waits for.
const LONG_TTL: Duration = Duration::from_secs(60);
/// The pause of a contender that asks again and again.
const PAUSE: Duration = Duration::from_millis(10);

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
            alarms: Alarms::new(clock.clone()),
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

    /// The shortest ttl the engine keeps.
    pub(super) fn short_ttl(&self) -> Duration {
        match self.profile.expiry {
            Expiry::Lease { shortest } => shortest.max(crate::lock::SHORTEST_TTL),
            Expiry::Session => crate::lock::SHORTEST_TTL,
        }
    }

    /// Long enough that a busy machine still renews in time.
    pub(super) fn steady_ttl(&self) -> Duration {
        self.short_ttl().max(Duration::from_secs(1))
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
        Contender { room: self, name, claim: self.engines[n % 2].claim(request) }
    }

    /// A connection of its own with everything above it.
    pub(super) async fn locks(&self) -> Result<Locks> {
        let locks = Locks::builder().ttl(LONG_TTL).label("conformance");
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

/// What a contender won, and when.
#[derive(Debug)]
pub(super) struct Won {
    pub(super) fence: u64,
    pub(super) n_fences: u32,
    pub(super) lease: Lease,
    pub(super) sent_at: Moment,
    pub(super) answered_at: Moment,
}

impl Won {
    /// How long it lasts without renewal, as far as time decides.
    pub(super) fn lasts(&self) -> Duration {
        match self.lease {
            Lease::For(lease) => lease,
            Lease::WithSession { .. } => Duration::ZERO,
        }
    }
}

/// One claim and the name it has in reports.
pub(super) struct Contender<'a> {
    room: &'a Room<'a>,
    pub(super) name: &'static str,
    pub(super) claim: Box<dyn Claim>,
}

impl Contender<'_> {
    /// Asks once.
    pub(super) async fn asks(&mut self) -> Finding<Result<Won, Option<Duration>>> {
        let sent_at = self.room.clock.now();
        let what = format!("an answer to {}", self.name);
        let attempt = self.claim.attempt(sent_at);
        Ok(match self.room.within(self.room.limit(), &what, attempt).await?? {
            Attempt::Granted(grant) => Ok(Won {
                fence: grant.fence,
                n_fences: grant.n_fences,
                lease: grant.lease,
                sent_at,
                answered_at: self.room.clock.now(),
            }),
            Attempt::Busy { retry_in } => Err(retry_in),
        })
    }

    /// Asks once and must get it.
    pub(super) async fn gets_it(&mut self) -> Finding<Won> {
        let answer = self.asks().await?;
        answer.map_err(|_| {
            Stop::Broken(format!("{} was told busy, though it was its turn", self.name))
        })
    }

    /// Asks once and must not get it.
    pub(super) async fn is_told_busy(&mut self) -> Finding {
        match self.asks().await? {
            Ok(_) => {
                Err(Stop::Broken(format!("{} was granted what another has a right to", self.name)))
            }
            Err(_) => Ok(()),
        }
    }

    /// Asks again and again, and must get it in the end: `lease` may be over first.
    pub(super) async fn gets_it_after(&mut self, lease: Duration) -> Finding<Won> {
        let (room, name) = (self.room, self.name);
        let asking = async {
            loop {
                match self.asks().await? {
                    Ok(won) => return Ok(won),
                    Err(retry_in) => room.pause(retry_in.unwrap_or(PAUSE).min(PAUSE)).await,
                }
            }
        };
        let what = format!("{name} to get it by asking again");
        room.within(lease + room.limit(), &what, asking).await?
    }

    pub(super) async fn renews(&mut self) -> Finding<Standing> {
        let what = format!("the renewal of {}", self.name);
        let renewal = self.claim.renew(self.room.clock.now());
        Ok(self.room.within(self.room.limit(), &what, renewal).await??)
    }

    pub(super) async fn still_has_it(&mut self) -> Finding {
        match self.renews().await? {
            Standing::Held(_) => Ok(()),
            Standing::Lost(why) => Err(Stop::Broken(format!("{} lost it: {why}", self.name))),
        }
    }

    pub(super) async fn does_not_have_it(&mut self) -> Finding {
        match self.renews().await? {
            Standing::Lost(_) => Ok(()),
            Standing::Held(_) => {
                Err(Stop::Broken(format!("{} was told that it holds what it does not", self.name)))
            }
        }
    }

    pub(super) async fn releases(&mut self) -> Finding {
        let what = format!("the release by {}", self.name);
        Ok(self.room.within(self.room.limit(), &what, self.claim.release()).await??)
    }

    /// Listens until told to ask again.
    pub(super) async fn is_told(&mut self) -> Finding {
        let what = format!("{} to be told of a change", self.name);
        self.room.within(self.room.limit(), &what, self.claim.changed()).await
    }

    /// Asks only when told to, and must get it in the end.
    pub(super) async fn gets_it_when_told(&mut self) -> Finding<Won> {
        loop {
            self.is_told().await?;
            if let Ok(won) = self.asks().await? {
                return Ok(won);
            }
        }
    }

    /// Begins to listen and stops again at once. Whoever is told asks, and must be told busy.
    pub(super) async fn listens_for_a_moment(&mut self) -> Finding {
        match future::poll_once(self.claim.changed()).await {
            Some(()) => self.is_told_busy().await,
            None => Ok(()),
        }
    }
}
