//! An engine says, unasked, that the hold of a line should be looked at.

use std::sync::{Arc, Weak};

use super::{Line, LineRecord, core::Core, state::Stage};
use crate::{
    engine::{Alert, Alerted},
    tools::sync::locked,
};

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
