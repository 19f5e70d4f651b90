//! A named request with its options, and the three ways to ask.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Moment,
    engine::{Expiry, Order, Patience},
    error::{Call, Error, ErrorKind, Result},
    guard::Guard,
    key::Key,
    line::Line,
    locks::House,
    seat::{OwnerNumber, Terms, Wish},
    ticket::Wait,
};

/// The longest ttl; a longer one would be a lock that outlives its dead holder for days.
pub const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest ttl; below it, an ordinary pause of the machine would lose the lock.
pub const SHORTEST_TTL: Duration = Duration::from_millis(100);
/// The longest label, in bytes.
pub const LONGEST_LABEL: usize = 256;

/// A named request with its options, before it is held; made by [`Locks::lock`](crate::Locks::lock).
///
/// Options are checked when the lock is acquired, so that the chain reads without question marks.
#[derive(Clone, Debug)]
pub struct Lock {
    line: Result<Line, BadKey>,
    owner: Option<OwnerNumber>,
    /// Terms of its own; without them, those of the house.
    terms: Option<Arc<Terms>>,
    maximum_hold: Option<Duration>,
}

/// A key that is none, kept until it can be reported.
#[derive(Clone, Debug)]
struct BadKey(Arc<str>);

impl Lock {
    pub(crate) fn new(house: &Arc<House>, key: &str, owner: Option<OwnerNumber>) -> Self {
        let line = match house.line_of(key) {
            Ok(record) => Ok(Line::new(Arc::clone(house), record)),
            Err(_) => Err(BadKey(key.into())),
        };
        Self { line, owner, terms: None, maximum_hold: None }
    }

    /// How long the lock outlives a holder that dies (100 ms to 24 h; the default is 10 s, in
    /// Redisson's dialect 30 s). It is renewed every third of that. Engines whose locks end with the
    /// process need no ttl.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.change_terms(|terms| terms.ttl = ttl);
        self
    }

    /// Caps the hold: after this long it is lost, however busy the work is. Off by default.
    #[must_use]
    pub fn maximum_hold(mut self, maximum: Duration) -> Self {
        self.maximum_hold = Some(maximum);
        self
    }

    /// Takes a free lock ahead of those who wait, instead of first come, first served.
    #[must_use]
    pub fn barging(mut self) -> Self {
        self.change_terms(|terms| terms.order = Order::Barging);
        self
    }

    /// What `who` shows for this holder; by default the program's name. At most 256 bytes.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.change_terms(|terms| terms.label = label.into());
        self
    }

    /// Waits its turn and takes the lock.
    ///
    /// # Errors
    /// [`ErrorKind::BadKey`] and [`ErrorKind::BadOptions`] at once; [`ErrorKind::Refused`] when the
    /// engine says no; [`ErrorKind::Unreachable`] when it has not answered for one ttl.
    ///
    /// # Cancel safety
    /// Dropping the future at any point leaves nothing behind: a place in line is given up, a lock
    /// that was just granted is given back.
    pub async fn acquire(&self) -> Result<Guard> {
        self.wait_until(Moment::NEVER).await
    }

    /// Takes the lock if it is free now.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), the engine being asked once and given
    /// [one answer's time](crate::LocksBuilder::answer_within). Busy is not an error: `Ok(None)`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.ask(Patience::Tries, Moment::NEVER).await
    }

    /// Waits its turn for at most `limit`.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when it was busy all the time, [`ErrorKind::Unreachable`] when the
    /// engine had not answered by then; otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        self.acquire_until(self.moment_in(limit), limit).await
    }

    /// The moment that is so far away; `None` for a lock with a bad key.
    pub(crate) fn moment_in(&self, limit: Duration) -> Option<Moment> {
        self.line().ok().map(|line| line.house.clock.now() + limit)
    }

    /// Waits its turn until this moment, which the caller knows as the end of `limit`.
    pub(crate) async fn acquire_until(
        &self,
        give_up_at: Option<Moment>,
        limit: Duration,
    ) -> Result<Guard> {
        let line = self.line()?;
        self.wait_until(give_up_at.unwrap_or(Moment::NEVER)).await.map_err(|error| {
            if error.kind() != ErrorKind::TimedOut {
                return error;
            }
            let (key, engine) = (line.key(), line.house.profile.engine);
            let message = format!("{key:?} was busy for {}", humantime::format_duration(limit));
            Error::new(ErrorKind::TimedOut, message).about(engine, key)
        })
    }

    async fn wait_until(&self, give_up_at: Moment) -> Result<Guard> {
        let guard = self.ask(Patience::Waits, give_up_at).await?;
        // Only one who tries is ever told that it is busy.
        let no_reason = || Error::new(ErrorKind::Other, "the lock was refused without a reason");
        guard.ok_or_else(no_reason)
    }

    async fn ask(&self, patience: Patience, give_up_at: Moment) -> Result<Option<Guard>> {
        let line = self.line()?;
        self.check(&line.house)
            .map_err(|error| line.house.error_at(error, line.key(), Call::Acquire))?;
        let (owner, maximum_hold) = (self.owner, self.maximum_hold);
        let wish = Wish { terms: self.terms.clone(), patience, owner, maximum_hold };
        Wait::new(line, wish, give_up_at).await
    }

    fn change_terms(&mut self, change: impl FnOnce(&mut Terms)) {
        // A lock without a line has a bad key, which is all that will ever be said about it.
        let Ok(line) = &self.line else { return };
        let terms = self.terms.get_or_insert_with(|| Arc::new(line.house.terms.clone()));
        change(Arc::make_mut(terms));
    }

    fn line(&self) -> Result<&Line> {
        self.line.as_ref().map_err(|BadKey(name)| match Key::from_arc(Arc::clone(name)) {
            Err(error) => error,
            Ok(key) => Error::new(ErrorKind::BadKey, format!("{key:?} is no key")),
        })
    }

    fn check(&self, house: &House) -> Result<()> {
        house.check_process()?;
        let terms = self.terms.as_deref().unwrap_or(&house.terms);
        let shortest = match house.profile.expiry {
            Expiry::Lease { shortest } => shortest.max(SHORTEST_TTL),
            Expiry::Session => SHORTEST_TTL,
        };
        check_duration("ttl", terms.ttl, shortest)?;
        if let Some(maximum) = self.maximum_hold
            && maximum.is_zero()
        {
            return Err(Error::bad_options("a maximum hold of 0 is over before it begins"));
        }
        if terms.label.len() > LONGEST_LABEL {
            let n_bytes = terms.label.len();
            let message =
                format!("the label has {n_bytes} bytes, at most {LONGEST_LABEL} are allowed");
            return Err(Error::bad_options(message));
        }
        Ok(())
    }
}

fn check_duration(name: &str, value: Duration, shortest: Duration) -> Result<()> {
    if (shortest..=LONGEST_TTL).contains(&value) {
        return Ok(());
    }
    let [value, shortest, longest] = [value, shortest, LONGEST_TTL].map(humantime::format_duration);
    Err(Error::bad_options(format!("a {name} of {value} is not between {shortest} and {longest}")))
}
