//! How long to pause between two calls of an engine, and when to stop asking.

use std::time::Duration;

use crate::{
    engine::{
        Wake,
        error::{Call, Error, ErrorKind, Result},
        event::Event,
    },
    line::{Line, Word},
    time::clock::Moment,
};

/// The longest pause before a waiting claim is asked about again, when the engine tells of changes
/// and when it does not.
const PAUSE_WHEN_TOLD: Duration = Duration::from_secs(10);
const PAUSE_WHEN_ASKED: Duration = Duration::from_millis(200);
/// The longest pause between two tries of an engine that does not answer.
const PAUSE_IN_TROUBLE: Duration = Duration::from_secs(1);
/// The same where nobody waits for the answer.
const PAUSE_BEHIND: Duration = Duration::from_secs(30);
/// The first pause of a row; they double from there.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// How the waiting goes: how long the last pause was, and since when there is trouble.
#[derive(Default)]
pub(crate) struct Backoff {
    pause: Duration,
    troubled_since: Option<Moment>,
}

impl Backoff {
    /// How long to pause after this answer; `None` when there is no sense in asking again. Everyone in line
    /// is told of trouble that will not pass, or that has lasted for their ttl.
    pub(crate) fn pause_after(
        &mut self,
        answer: Result<Option<Duration>>,
        line: &Line,
    ) -> Option<Duration> {
        let core = &line.core;
        match answer {
            Ok(retry_in) => {
                self.troubled_since = None;
                line.note(Word::Busy);
                let longest = match core.profile.wake {
                    Wake::Told => PAUSE_WHEN_TOLD,
                    Wake::Asked => self.longer_pause(PAUSE_WHEN_ASKED),
                };
                Some(retry_in.map_or(longest, |retry_in| retry_in.min(longest)))
            }
            Err(error) => {
                let error = core.error_at(error, line.key(), Call::Acquire);
                let now = core.clock.now();
                let since = *self.troubled_since.get_or_insert(now);
                let lasted = if error.may_pass() { now.since(since) } else { Duration::MAX };
                if !line.fail(|ttl| ttl <= lasted, |_| error.echo()) {
                    return None;
                }
                let pause = self.pause_in_trouble();
                core.observers.tell(&Event::Troubled { key: line.key(), error: &error, pause });
                line.note(Word::Trouble(error));
                Some(pause)
            }
        }
    }

    /// How long to pause after an engine did not answer.
    pub(crate) fn pause_in_trouble(&mut self) -> Duration {
        self.longer_pause(PAUSE_IN_TROUBLE)
    }

    /// The same where nobody waits for the answer: longer in the end, because there may be many that go on so,
    /// but short beside this ttl, for which others would have to wait otherwise.
    pub(crate) fn pause_behind(&mut self, ttl: Duration) -> Duration {
        self.longer_pause((ttl / 4).clamp(PAUSE_IN_TROUBLE, PAUSE_BEHIND))
    }

    /// Twice the last pause, up to `longest`, less a random part, so that many who wait do not
    /// ask in step.
    fn longer_pause(&mut self, longest: Duration) -> Duration {
        self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, longest);
        self.pause.mul_f64(1.0 - 0.5 * fastrand::f64())
    }
}

impl Error {
    /// Whether asking again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unreachable | ErrorKind::NoQuorum)
    }
}
