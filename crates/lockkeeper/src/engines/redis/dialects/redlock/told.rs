//! When a server was last told a fence.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use crate::{engine::Moment, tools::sync::locked};

/// How long a server may go without being told.
const AGAIN: Duration = Duration::from_secs(1);
/// How fast a counter goes that starts at the clock: numbers in a microsecond.
const PACE: u64 = 4;

/// The fences that a server was told for counters of which it did not say how far they are. All counters go on with
/// every question, so a server that was told once keeps up; but another counter may leap ahead, to a clock
/// that is wrong.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<u16, (Moment, u64), foldhash::fast::RandomState>>);

impl Told {
    /// Whether the server should be told this fence: it was not told for a while, or the fence has gone faster than
    /// a clock since.
    pub(super) fn is_due(&self, counter: u16, fence: u64, now: Moment) -> bool {
        let Some((told_at, told)) = locked(&self.0).get(&counter).copied() else { return true };
        let passed = now.since(told_at);
        let most = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX).saturating_mul(PACE);
        passed >= AGAIN || fence > told.saturating_add(most)
    }

    pub(super) fn note(&self, counter: u16, fence: u64, now: Moment) {
        locked(&self.0).insert(counter, (now, fence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_now_and_then_and_of_every_leap() {
        let (told, start) = (Told::default(), Moment::from_nanos(7));
        let ms = |ms| start + Duration::from_millis(ms);
        assert!(told.is_due(1, 1_000, start));
        told.note(1, 1_000, start);
        assert!(told.is_due(2, 1_000, start), "another counter");
        assert!(!told.is_due(1, 1_000, start) && !told.is_due(1, 1_064, ms(1)));
        assert!(told.is_due(1, 6_000, ms(1)), "faster than a clock");
        assert!(told.is_due(1, 1_064, ms(1_000)), "a while ago");
        told.note(1, 6_000, ms(1_000));
        assert!(!told.is_due(1, 6_064, ms(1_500)));
    }
}
