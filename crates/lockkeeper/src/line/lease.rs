//! When a hold ends, and when it is renewed.

use crate::{
    engine::{Lease, Moment},
    time::timers,
};

/// When a hold ends, and when to renew it: every third of the lease. The margin allows for clocks
/// that run at different rates and for the time between looking and acting.
pub(super) fn terms_of(lease: Lease, sent_at: Moment) -> (Moment, Moment) {
    match lease {
        Lease::For(lease) => {
            // Reckoned for every grant, and durations are slow to divide.
            let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
            let after = |ns| Moment::from_nanos(sent_at.as_nanos().saturating_add(ns));
            let margin = (lease / 100).max(5_000_000);
            (after(lease.saturating_sub(margin)), after(lease / 3))
        }
        // A little early is no harm, and spares looks at the clock in vain: see `Alarms::watch_hold`.
        Lease::WithSession { check_every } => {
            (Moment::NEVER, sent_at + timers::rounded_down(check_every))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_counts_from_before_the_request_and_ends_early() {
        let sent_at = Moment::from_nanos(7);
        let (ends_at, renew_at) = terms_of(Lease::For(Duration::from_secs(3)), sent_at);
        assert_eq!(ends_at, sent_at + Duration::from_millis(2970));
        assert_eq!(renew_at, sent_at + Duration::from_secs(1));
        let (ends_at, _) = terms_of(Lease::For(Duration::from_millis(100)), sent_at);
        assert_eq!(ends_at, sent_at + Duration::from_millis(95));
    }

    #[test]
    fn a_session_has_no_end_by_time() {
        let check_every = Duration::from_millis(100);
        let (ends_at, renew_at) =
            terms_of(Lease::WithSession { check_every }, Moment::from_nanos(0));
        assert_eq!(ends_at, Moment::NEVER);
        let due_in = renew_at.since(Moment::from_nanos(0));
        assert!(due_in <= check_every && due_in + check_every / 8 >= check_every, "{due_in:?}");
        assert_eq!(timers::rounded_down(due_in), due_in, "the look comes when it is due");
    }
}
