//! A session that many claims share: a ZooKeeper session, an etcd lease.
//!
//! The server ends the session if it hears nothing for a ttl, and with it everything that the claims have there.
//! An engine has no timers, so the claims keep it alive: `renew` of a claim that holds and `attempt` of a claim
//! that waits call [`Session::lease`]. The first of them that finds the last proof of life too old has the server
//! asked (a beat), and the others wait for the same answer. So ten thousand claims cost one beat, and no claim
//! needs to know of another. A claim that waits answers `Busy` with [`Session::beat_every`] as its pause.
//!
//! A claim that goes away does not end the session, so its `Drop` must take back what it has at the server.

mod by_ttl;
mod state;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) use self::by_ttl::SessionsByTtl;
use self::state::{Asked, Stage, State};
use crate::{
    engine::{
        Alert, Lease, Moment, Standing,
        error::{Error, Result},
    },
    tools::sync::locked,
};

/// The life of one session, as far as this side knows.
#[derive(Debug)]
pub(crate) struct Session(Mutex<State>);

impl Session {
    /// A session that is being opened since `now`: [`opened`](Self::opened) or [`end`](Self::end) comes next.
    pub(crate) fn opening(wished_ttl: Duration, now: Moment) -> Self {
        Self(Mutex::new(State::opening(wished_ttl, now)))
    }

    /// The server has opened the session, with the ttl that it granted, upon a request that was sent then.
    pub(crate) fn opened(&self, ttl: Duration, sent_at: Moment) {
        let mut state = locked(&self.0);
        if let Stage::Opening = state.stage {
            state.stage = Stage::Alive { heard_at: sent_at, lasts_from: sent_at };
            state.ttl = ttl;
        }
        let asked = state.asked.take();
        drop(state);
        asked.into_iter().for_each(Asked::answered);
    }

    /// The server has answered a request of the session that was sent at `sent_at`, so the session lasts for a
    /// ttl from `lasts_from` on at least. The two differ where the server that answers is not the server that
    /// counts the time.
    pub(crate) fn heard(&self, sent_at: Moment, lasts_from: Moment) {
        let mut state = locked(&self.0);
        if let Stage::Alive { heard_at, lasts_from: known } = &mut state.stage {
            *heard_at = sent_at.max(*heard_at);
            *known = lasts_from.max(*known);
        }
        let asked = state.asked.take_if(|asked| asked.at <= sent_at);
        drop(state);
        asked.into_iter().for_each(Asked::answered);
    }

    /// A beat got no answer, which says nothing about the session. Whoever waits for it is told.
    pub(crate) fn beat_failed(&self, why: &Error) {
        let asked = locked(&self.0).asked.take();
        asked.into_iter().for_each(|asked| asked.failed(why.echo()));
    }

    /// The session is over, or could not be opened. Everyone who holds something by it is told at once.
    pub(crate) fn end(&self, why: &Error) {
        let mut state = locked(&self.0);
        if let Stage::Over(_) = state.stage {
            return;
        }
        state.stage = Stage::Over(why.echo());
        let (asked, alerts) = (state.asked.take(), std::mem::take(&mut state.alerts));
        drop(state);
        asked.into_iter().for_each(Asked::answered);
        alerts.into_values().for_each(|alert| alert.raise());
    }

    /// Why the session is over, if it is. A session that nobody has kept alive for a ttl is over.
    pub(crate) fn over(&self, now: Moment) -> Option<Error> {
        locked(&self.0).over(now)
    }

    /// The ttl that the server granted; the wished one until then.
    pub(crate) fn ttl(&self) -> Duration {
        locked(&self.0).ttl
    }

    /// How often somebody has to ask for the [lease](Self::lease), so that the session stays alive.
    pub(crate) fn beat_every(&self) -> Duration {
        locked(&self.0).beat_every()
    }

    /// How long the session lasts from `now` on without another word, or why it is over. If the server was not
    /// heard for a while, somebody has to `beat`: to send it a request whose answer is given to
    /// [`heard`](Self::heard). That is the caller, unless another caller has done so already.
    ///
    /// # Errors
    /// If the beat got no answer.
    pub(crate) async fn lease(&self, now: Moment, beat: impl FnOnce()) -> Result<Standing> {
        let (answer, is_first) = match locked(&self.0).lease_or_ask(now) {
            Ok(standing) => return Ok(standing),
            Err(question) => question,
        };
        if is_first {
            beat();
        }
        answer.wait().await?;
        let mut state = locked(&self.0);
        state.standing(now).ok_or_else(|| {
            // The answer belonged to a beat that was sent long before this caller came.
            Error::unreachable("the session was not confirmed in time", "a late answer")
        })
    }

    /// Has the alert raised when the session ends, for as long as the answer lives; at once if it is over.
    pub(crate) fn watch(self: &Arc<Self>, alert: Alert) -> Watch {
        let mut state = locked(&self.0);
        let number = state.next_alert;
        state.next_alert += 1;
        if let Stage::Over(_) = state.stage {
            drop(state);
            alert.raise();
        } else {
            state.alerts.insert(number, alert);
        }
        Watch { session: Arc::clone(self), number }
    }
}

/// A claim that is to be told of the end of its session.
#[derive(Debug)]
pub(crate) struct Watch {
    session: Arc<Session>,
    number: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // An alert is anybody's code when it is dropped: not under the mutex.
        let alert = locked(&self.session.0).alerts.remove(&self.number);
        drop(alert);
    }
}

/// What is left of a ttl that began at `start`.
fn left(ttl: Duration, start: Moment, now: Moment) -> Standing {
    Standing::Held(Lease::For(ttl.saturating_sub(now.since(start))))
}

#[cfg(test)]
mod tests;
