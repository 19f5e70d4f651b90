//! Telling of a loss unasked.

use std::{fmt, sync::Arc};

/// With this an engine says, unasked: look at this hold now.
///
/// It may be raised from any thread, in any state of the claim and as often as one likes: it is only ever a
/// reason to look. The core then calls [`renew`](super::Claim::renew) at once, and the claim itself says
/// whether the lock is lost. So an alert that comes too late, or for a claim that holds nothing, does no harm.
///
/// Raising costs no more than an entry in a list, so an engine may raise the alerts of thousands of claims
/// when their session ends. A program that [attends](crate::LocksBuilder::attended) to its holds itself looks
/// when it calls [`attend`](crate::Locks::attend) next.
#[derive(Clone)]
pub struct Alert(Arc<dyn Alerted>);

/// Who looks.
pub(crate) trait Alerted: Send + Sync {
    fn alert(&self);
}

impl Alert {
    pub(crate) fn new(alerted: impl Alerted + 'static) -> Self {
        Self(Arc::new(alerted))
    }

    /// Has the core look at the hold now.
    pub fn raise(&self) {
        self.0.alert();
    }
}

impl fmt::Debug for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alert")
    }
}
