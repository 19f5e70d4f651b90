//! What is known of a session, behind its mutex.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    engine::{
        Alert, Moment, Standing,
        error::{Error, Result},
    },
    tools::sync::{Flag, locked},
};

#[derive(Debug)]
pub(super) struct State {
    pub(super) stage: Stage,
    pub(super) ttl: Duration,
    /// The beat that is under way; opening counts as one.
    pub(super) asked: Option<Asked>,
    pub(super) alerts: HashMap<u64, Alert, foldhash::fast::RandomState>,
    pub(super) next_alert: u64,
}

#[derive(Debug)]
pub(super) enum Stage {
    Opening,
    Alive {
        /// When the last request was sent that the server has answered.
        heard_at: Moment,
        /// The session lasts for a ttl from here on.
        lasts_from: Moment,
    },
    Over(Error),
}

impl State {
    pub(super) fn opening(ttl: Duration, now: Moment) -> Self {
        Self {
            stage: Stage::Opening,
            ttl,
            asked: Some(Asked::at(now)),
            alerts: HashMap::default(),
            next_alert: 0,
        }
    }

    /// A third of the ttl: two beats may fail, and the session still lasts.
    pub(super) fn beat_every(&self) -> Duration {
        self.ttl / 3
    }

    pub(super) fn over(&self, now: Moment) -> Option<Error> {
        match &self.stage {
            Stage::Over(why) => Some(why.echo()),
            Stage::Alive { lasts_from, .. } if now >= *lasts_from + self.ttl => {
                Some(Error::unreachable("the session was not kept alive", "its ttl is over"))
            }
            Stage::Opening | Stage::Alive { .. } => None,
        }
    }

    /// What can be said without asking the server.
    pub(super) fn standing(&mut self, now: Moment) -> Option<Standing> {
        if let Some(why) = self.over(now) {
            return Some(Standing::Lost(why.to_string()));
        }
        match self.stage {
            Stage::Alive { heard_at, lasts_from } if now.since(heard_at) < self.beat_every() => {
                Some(super::left(self.ttl, lasts_from, now))
            }
            _ => None,
        }
    }

    /// What can be said, or else the answer to wait for, and whether the caller has to ask.
    pub(super) fn lease_or_ask(&mut self, now: Moment) -> Result<Standing, (Arc<Answer>, bool)> {
        if let Some(standing) = self.standing(now) {
            return Ok(standing);
        }
        let every = self.beat_every();
        // A beat without an answer for that long may have been lost with its connection.
        if let Some(asked) = &self.asked
            && now.since(asked.at) < every
        {
            return Err((Arc::clone(&asked.answer), false));
        }
        // Whoever waits for the old beat is served by the answer to the new one.
        let answer = match self.asked.take() {
            Some(asked) => asked.answer,
            None => Arc::default(),
        };
        self.asked = Some(Asked { at: now, answer: Arc::clone(&answer) });
        Err((answer, true))
    }
}

/// A beat that is under way.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) at: Moment,
    answer: Arc<Answer>,
}

impl Asked {
    fn at(now: Moment) -> Self {
        Self { at: now, answer: Arc::default() }
    }

    pub(super) fn answered(self) {
        self.answer.has_come.raise();
    }

    pub(super) fn failed(self, why: Error) {
        *locked(&self.answer.failure) = Some(why);
        self.answer.has_come.raise();
    }
}

/// The answer to a beat, for everyone who waits for it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    has_come: Flag,
    failure: Mutex<Option<Error>>,
}

impl Answer {
    pub(super) async fn wait(&self) -> Result<()> {
        self.has_come.raised().await;
        match &*locked(&self.failure) {
            Some(why) => Err(why.echo()),
            None => Ok(()),
        }
    }
}
