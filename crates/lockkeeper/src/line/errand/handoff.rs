//! An errand that the caller's own task drives, and that the steward can take over at any time.
//!
//! One who waits alone for an engine at a distance waits in its own task: a hop between threads
//! for every answer would cost more than the answer. But its runtime may be blocked, and as soon
//! as a second task stands in the same line, that one must not stand still for it.

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::steward::{Errand, Steward};
use crate::{
    engine::error::Result,
    tools::sync::{locked, wake},
};

pub(crate) struct Handoff(Mutex<Place>);

enum Place {
    /// Between two looks of the task that this waker wakes.
    Resting(Errand, Waker),
    /// The task is at it just now.
    Driven,
    /// The same, and the steward is to have it afterwards.
    Wanted,
    /// Done, or the steward's.
    Gone,
}

impl Handoff {
    pub(crate) fn new(errand: Errand) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Place::Resting(errand, Waker::noop().clone()))))
    }

    /// Drives the errand until it is done or the steward has it.
    pub(crate) async fn drive(&self, steward: &Steward) {
        poll_fn(|context| self.poll(context, steward)).await;
    }

    fn poll(&self, context: &mut Context<'_>, steward: &Steward) -> Poll<()> {
        let place = std::mem::replace(&mut *locked(&self.0), Place::Driven);
        let Place::Resting(mut errand, _) = place else {
            *locked(&self.0) = Place::Gone;
            return Poll::Ready(());
        };
        let is_done = errand.as_mut().poll(context).is_ready();
        let mut place = locked(&self.0);
        if !is_done && matches!(*place, Place::Driven) {
            *place = Place::Resting(errand, context.waker().clone());
            return Poll::Pending;
        }
        *place = Place::Gone;
        drop(place);
        if !is_done {
            // Whoever wants it has made sure of the thread.
            steward.adopt_if_ready(errand);
        }
        Poll::Ready(())
    }

    /// Has the steward take the errand over.
    ///
    /// # Errors
    /// If there is no thread for that. The errand stays at hand then: better to depend on another's task than to
    /// be turned away.
    pub(crate) fn hand_over(&self, steward: &Steward) -> Result<()> {
        steward.ready()?;
        let mut place = locked(&self.0);
        match std::mem::replace(&mut *place, Place::Gone) {
            Place::Resting(errand, waker) => {
                drop(place);
                steward.adopt_if_ready(errand);
                // It is to look elsewhere for its answer from now on.
                wake(waker);
            }
            Place::Driven | Place::Wanted => *place = Place::Wanted,
            Place::Gone => {}
        }
        Ok(())
    }
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only tried: whoever prints this must not stand still.
        f.write_str(match self.0.try_lock().as_deref() {
            Ok(Place::Resting(..)) => "resting",
            Ok(Place::Driven | Place::Wanted) | Err(_) => "driven",
            Ok(Place::Gone) => "gone",
        })
    }
}
