//! What the clock's thread looks at in a line: its limit and its hold. An engine may say, unasked, that the hold
//! should be looked at now.

use std::sync::{Arc, Weak};

use super::{Line, LineRecord, core::Core, held::Held, state::Stage};
use crate::{
    engine::{Alert, Alerted, Moment},
    time::{
        alarms::Alarms,
        next_check::{Next, NextCheck, Watched},
    },
    tools::sync::{locked, wake},
};

impl LineRecord {
    /// The hold of the task that has its turn, and whether the engine has said since the last look that it
    /// should be looked at. An alert that finds no hold is kept: the grant may be on its way.
    fn held_and_alert(&self) -> Option<(Arc<Held>, bool)> {
        let mut state = locked(&self.state);
        match &state.stage {
            Stage::Held(tenure) => {
                let held = Arc::clone(&tenure.held);
                Some((held, std::mem::take(&mut state.is_alerted)))
            }
            Stage::Idle | Stage::Closed | Stage::Asking => None,
        }
    }

    /// From now on the clock's thread looks at the limit of this line by `due`.
    pub(super) fn watch_limit(self: &Arc<Self>, alarms: &Alarms, now: Moment, due: Moment) {
        if alarms.watch_limit(self, now, due).is_err() {
            // Nobody would look later: better to ask again now than to hang.
            self.limit.look(Moment::NEVER).waker.into_iter().for_each(wake);
        }
    }
}

impl Watched for LineRecord {
    fn next_check(&self) -> &NextCheck {
        &self.next_check
    }

    /// Looks at the limit and at the hold.
    fn look(self: Arc<Self>, now: Moment) -> Next {
        let limit = self.limit.look(now);
        limit.waker.into_iter().for_each(wake);
        let hold = self.held_and_alert().map_or(Moment::NEVER, |(held, is_alerted)| {
            if is_alerted {
                held.renew_now(now);
            }
            held.due(now)
        });
        match limit.next.min(hold) {
            // A renewal may have the hold in hands, and has the line watched again when it is through.
            Moment::NEVER if self.held().is_some() => Next::WhenEntered,
            Moment::NEVER => Next::Never,
            next => Next::At(next),
        }
    }
}

/// A line that can be alerted. An engine may keep it for as long as it likes: it keeps nothing alive.
struct AlertedLine {
    core: Weak<Core>,
    record: Weak<LineRecord>,
}

impl Line {
    /// What a claim of this line raises when its hold should be looked at.
    pub(crate) fn alert(&self) -> Alert {
        let (core, record) = (Arc::downgrade(&self.core), Arc::downgrade(&self.record));
        Alert::new(AlertedLine { core, record })
    }
}

impl Alerted for AlertedLine {
    fn alert(&self) {
        let (Some(core), Some(record)) = (self.core.upgrade(), self.record.upgrade()) else {
            return;
        };
        // In a forked child the mutex may be locked for ever, and the hold is the parent's.
        if !core.is_this_process() {
            return;
        }
        let mut state = locked(&record.state);
        state.is_alerted = true;
        let is_held = matches!(state.stage, Stage::Held(_));
        drop(state);
        if is_held {
            let now = core.clock.now();
            // A hold is watched, so the thread is there and this cannot fail.
            let _ = core.alarms.watch_hold(&record, now, now);
        }
    }
}
