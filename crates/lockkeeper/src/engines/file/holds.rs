//! How often holds are checked: a file that others remove is noticed so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// A hold is first checked after this time, and so often while there are few.
pub(super) const FIRST_CHECK: Duration = Duration::from_millis(100);
/// Many are checked less often, so that all of them together never need more than 200 checks a second.
const CHECK_EVERY_FOR_EACH: Duration = Duration::from_millis(5);
/// However many there are, none is checked less often than this.
const LONGEST: Duration = Duration::from_secs(10);

/// The holds of one engine that lasted until their first check.
#[derive(Debug, Default)]
pub(super) struct Holds(Arc<AtomicU32>);

/// One of them.
#[derive(Debug)]
pub(super) struct Kept(Arc<AtomicU32>);

impl Holds {
    pub(super) fn keep(&self) -> Kept {
        self.0.fetch_add(1, Ordering::Relaxed);
        Kept(Arc::clone(&self.0))
    }
}

impl Kept {
    /// How long until the next check.
    pub(super) fn check_every(&self) -> Duration {
        let n_holds = self.0.load(Ordering::Relaxed);
        CHECK_EVERY_FOR_EACH.saturating_mul(n_holds).clamp(FIRST_CHECK, LONGEST)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_holds_are_checked_less_often_but_never_forgotten() {
        let holds = Holds::default();
        let first = holds.keep();
        assert_eq!(first.check_every(), FIRST_CHECK);
        let more: Vec<Kept> = (0..999).map(|_| holds.keep()).collect();
        assert_eq!(first.check_every(), Duration::from_secs(5));
        let most: Vec<Kept> = (0..9_000).map(|_| holds.keep()).collect();
        assert_eq!(first.check_every(), LONGEST);
        drop((more, most));
        assert_eq!(first.check_every(), FIRST_CHECK);
    }
}
