//! Defects of the quick way, and of telling.

use lockkeeper::{
    blocking::block_on,
    engine::{Alert, Attempt, Grant, Lease, Moment, Released},
};

use super::machine::{Defect, Stake};

/// Takes every key for free when asked the quick way.
#[derive(Debug)]
pub(super) struct QuicklyGrantsWhatIsHeld;

impl Defect for QuicklyGrantsWhatIsHeld {
    fn quick_attempt(&self, stake: &mut Stake, _now: Moment) -> Option<Attempt> {
        let lease = Lease::For(stake.request.ttl);
        Some(Attempt::Granted(Grant { fence: 1, n_fences: 1, lease }))
    }
}

/// Confirms a release the quick way that was never made.
#[derive(Debug)]
pub(super) struct QuicklyReleasesNothing;

impl Defect for QuicklyReleasesNothing {
    fn quick_release(&self, _stake: &mut Stake, _now: Moment) -> Option<Released> {
        Some(Released::Done)
    }
}

/// What was asked for the quick way is known to nobody when the call was given up.
#[derive(Debug)]
pub(super) struct ForgetsQuickCalls;

impl Defect for ForgetsQuickCalls {
    fn quick_attempt(&self, stake: &mut Stake, now: Moment) -> Option<Attempt> {
        let mut other = stake.twin(|request| request.owner.0 ^= 1);
        let attempt = block_on(other.attempt(now)).ok();
        // Only whoever waits for the answer would have known.
        Box::leak(other);
        attempt
    }
}

/// Says that it tells, and never does.
#[derive(Debug)]
pub(super) struct NeverTells;

impl Defect for NeverTells {
    fn watched(&self, _stake: &mut Stake, _alert: Alert) {}
}
