//! A named request with its options, and the three ways to ask.

use std::{sync::Arc, time::Duration};

use super::guard::Guard;
use crate::{
    engine::{
        Expiry, LONGEST_LABEL, LONGEST_TTL, Order, Patience, SHORTEST_TTL,
        error::{Call, Error, ErrorKind, Result},
        key::Key,
    },
    line::{
        Line,
        acquire::Acquire,
        core::{Core, refused_after_fork},
        seat::{OwnerNumber, Terms, Wish},
    },
    time::clock::Moment,
};

/// A named request with its options, before it is held; made by [`Locks::lock`](crate::Locks::lock).
///
/// Options are checked when the lock is acquired, so that the chain reads without question marks.
#[derive(Clone, Debug)]
pub struct Lock {
    line: Result<Line, BadKey>,
    owner: Option<OwnerNumber>,
    /// Terms of its own; without them, those of the core.
    terms: Option<Arc<Terms>>,
    maximum_hold: Option<Duration>,
}

/// A key that is none, kept until it can be reported.
#[derive(Clone, Debug)]
struct BadKey(Arc<str>);

impl Lock {
    pub(crate) fn new(core: &Arc<Core>, key: &str, owner: Option<OwnerNumber>) -> Self {
        let line = match core.line_of(key) {
            Ok(record) => Ok(Line::new(Arc::clone(core), record)),
            Err(_) => Err(BadKey(key.into())),
        };
        Self { line, owner, terms: None, maximum_hold: None }
    }

    /// How long the lock outlives a holder that dies (100 ms to 24 h; the default is 10 s, in
    /// Redisson's dialect 30 s). It is renewed every third of that. Engines whose locks end with the
    /// process need no ttl.
    ///
    /// Tasks of one process that want the same key share one claim at the engine. A task whose ttl differs from
    /// the ttl of the task before it has its turn when the engine has confirmed the other ttl: that is one call
    /// more. Engines whose claims cannot do that are asked for the lock anew.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.change_terms(|terms| terms.ttl = ttl);
        self
    }

    /// Caps the hold of the guard: after this long the lock is lost, however busy the work is. Off by default.
    ///
    /// Each guard has its own maximum, also the guards of one [`Owner`](crate::Owner): a guard that came in
    /// again ends at its own maximum, and the lock is freed when the last of them ends.
    #[must_use]
    pub fn maximum_hold(mut self, maximum: Duration) -> Self {
        self.maximum_hold = Some(maximum);
        self
    }

    /// Takes a free lock ahead of those who wait in other processes, instead of first come, first served. The
    /// tasks of one process are served in order, and the first of them decides how the engine is asked.
    #[must_use]
    pub fn barging(mut self) -> Self {
        self.change_terms(|terms| terms.order = Order::Barging);
        self
    }

    /// What `who` shows for this holder; by default the program's name. At most 256 bytes.
    ///
    /// Tasks of one process that want the same key share one claim at the engine, and `who` shows the label of
    /// the task that the claim was made for. So when the lock was passed on inside the process, `who` may show
    /// the label of another task of that process.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.change_terms(|terms| terms.label = label.into());
        self
    }

    /// Waits its turn and takes the lock.
    ///
    /// # Errors
    /// [`ErrorKind::BadKey`] and [`ErrorKind::BadOptions`] at once; [`ErrorKind::Refused`] when the
    /// engine says no; [`ErrorKind::Unreachable`] when no call has succeeded for one ttl of this lock, or when
    /// the answers of the engine take longer than that ttl.
    ///
    /// That ttl begins when the first call fails, and every call has
    /// [one answer's time](crate::LocksBuilder::answer_within). So the engine is asked at least twice, however
    /// short the ttl is: one lost answer of a server that lives does not end a wait. With an engine that never answers,
    /// the error comes after the ttl, two answers' times and one second at the latest, and one answer's time for each
    /// [try](Self::try_acquire) for the same key that this process began before: with a ttl of 1 s and the usual 2 s
    /// for an answer, after about 4 s, and behind five tries after about 14 s.
    /// [`acquire_within`](Self::acquire_within) ends earlier.
    ///
    /// # Tasks that stand still
    /// Over a network, the first question for a key is asked by the task that wants it, and its answer is read when
    /// that task is polled. If the task is not polled, because its runtime is blocked or its future is kept
    /// aside, the other tasks of this process that want the same key wait for it, also those who only
    /// [try](Self::try_acquire); only [`acquire_within`](Self::acquire_within) ends in time. Dropping that future is
    /// enough for the others to go on. Other keys, and other processes, are not concerned; nor is a task that waits
    /// because the key is busy.
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
    /// If this process is asking for the same key already, that answer is waited for first, also when the task that
    /// asked has gone away. So with an engine that does not answer, the error comes after two answers' times at the
    /// latest, and of several tries for one key, each waits for those before it. If the task that asked is there and
    /// is not polled, no answer comes until it is: see [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.ask(Patience::Tries, Moment::NEVER).await
    }

    /// Waits its turn for at most `limit`. A limit of 0 is one attempt, as [`try_acquire`](Self::try_acquire)
    /// makes it.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when it was busy all the time, [`ErrorKind::Unreachable`] when the
    /// engine was asked and had not answered by then, or had and the task that asked was
    /// [not polled](Self::acquire); otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        self.acquire_until(self.moment_in(limit), limit).await
    }

    /// The moment that is so far away; `None` for a lock with a bad key.
    pub(crate) fn moment_in(&self, limit: Duration) -> Option<Moment> {
        self.line().ok().map(|line| line.core.clock.now() + limit)
    }

    /// Waits its turn until this moment, which the caller knows as the end of `limit`.
    pub(crate) async fn acquire_until(
        &self,
        give_up_at: Option<Moment>,
        limit: Duration,
    ) -> Result<Guard> {
        let (key, engine) = self.line().map(|line| (line.key(), line.core.profile.engine))?;
        let timed_out =
            |message: String| Error::new(ErrorKind::TimedOut, message).about(engine, key);
        if limit.is_zero() {
            // There is no time to wait, and always time to ask.
            let guard = self.try_acquire().await?;
            return guard.ok_or_else(|| timed_out(format!("{key:?} is busy")));
        }
        self.wait_until(give_up_at.unwrap_or(Moment::NEVER)).await.map_err(|error| {
            if error.kind() != ErrorKind::TimedOut {
                return error;
            }
            timed_out(format!("{key:?} was busy for {}", humantime::format_duration(limit)))
        })
    }

    /// Whether it is too late to ask for this lock: there was some time, and it is over.
    pub(crate) fn check_time(&self, give_up_at: Option<Moment>, limit: Duration) -> Result<()> {
        let (line, end) = (self.line()?, give_up_at.unwrap_or(Moment::NEVER));
        if limit.is_zero() || !line.core.alarms.is_over(end) {
            return Ok(());
        }
        let (key, limit) = (line.key(), humantime::format_duration(limit));
        let message = format!("no time was left to ask for {key:?}: the other keys took {limit}");
        Err(Error::new(ErrorKind::TimedOut, message).about(line.core.profile.engine, key))
    }

    async fn wait_until(&self, give_up_at: Moment) -> Result<Guard> {
        let guard = self.ask(Patience::Waits, give_up_at).await?;
        // Only one who tries is ever told that it is busy.
        let no_reason = || Error::new(ErrorKind::Other, "the lock was refused without a reason");
        guard.ok_or_else(no_reason)
    }

    async fn ask(&self, patience: Patience, give_up_at: Moment) -> Result<Option<Guard>> {
        let line = self.line()?;
        self.check(&line.core)
            .map_err(|error| line.core.error_at(error, line.key(), Call::Acquire))?;
        let (owner, maximum_hold) = (self.owner, self.maximum_hold);
        let wish = Wish { terms: self.terms.clone(), patience, owner, maximum_hold };
        Acquire::new(line, wish, give_up_at).await.map(|turn| turn.map(Guard::new))
    }

    fn change_terms(&mut self, change: impl FnOnce(&mut Terms)) {
        // A lock without a line has a bad key, which is all that will ever be said about it.
        let Ok(line) = &self.line else { return };
        let terms = self.terms.get_or_insert_with(|| Arc::new(line.core.terms.clone()));
        change(Arc::make_mut(terms));
    }

    fn line(&self) -> Result<&Line> {
        self.line.as_ref().map_err(|BadKey(name)| match Key::from_arc(Arc::clone(name)) {
            Err(error) => error,
            // The name is a good one, so it is the process that is not.
            Ok(_) => refused_after_fork(),
        })
    }

    fn check(&self, core: &Core) -> Result<()> {
        core.check_process()?;
        let terms = self.terms.as_deref().unwrap_or(&core.terms);
        let shortest = match core.profile.expiry {
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
