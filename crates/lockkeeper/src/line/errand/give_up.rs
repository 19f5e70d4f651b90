//! When nobody asks for a line any more.

use crate::{
    engine::error::Error,
    line::{Line, LineRecord, seat::Answer, state::Stage},
    tools::sync::{locked, wake},
};

impl Line {
    /// Nobody asks for the line any more, for this reason: everyone in it is told, and it is idle.
    pub(crate) fn give_up(&self, error: &Error) {
        let mut state = locked(&self.record.state);
        if !matches!(state.stage, Stage::Asking) {
            return;
        }
        state.stage = Stage::Idle;
        let failed = state.queue.take_those(|_| true);
        // An errand at hand has a claim, which is to free itself.
        let left_over = (state.errand.take(), state.handoff.take());
        drop(state);
        drop(left_over);
        for seat in failed {
            seat.answer(Answer::Failed(error.echo())).into_iter().for_each(wake);
        }
    }
}

impl LineRecord {
    /// Whether something is still done for this key that nobody here wants any more.
    pub(crate) fn is_winding_up(&self) -> bool {
        let state = locked(&self.state);
        matches!(state.stage, Stage::Asking) && state.queue.first().is_none()
    }
}
