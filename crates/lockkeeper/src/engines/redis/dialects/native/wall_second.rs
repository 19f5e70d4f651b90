//! Since when a lock is held, for people to see.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::engine::Moment;

/// The wall clock is looked at again after this long: looking costs as much as packing a command.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// Tells the time on the wall, to a second or so when somebody sets the clock.
#[derive(Debug, Default)]
pub(super) struct Wall {
    looked_at: AtomicU64,
    /// What the wall clock is ahead of our own, in microseconds.
    ahead_us: AtomicU64,
}

impl Wall {
    /// Seconds since 1970.
    pub(super) fn second(&self, now: Moment) -> u64 {
        self.micros(now) / 1_000_000
    }

    fn micros(&self, now: Moment) -> u64 {
        let own_us = now.as_nanos() / 1000;
        let looked_at = Moment::from_nanos(self.looked_at.load(Ordering::Acquire));
        if now.since(looked_at) >= STALE_AFTER {
            let ahead_us = now.wall_micros().wrapping_sub(own_us);
            self.ahead_us.store(ahead_us, Ordering::Relaxed);
            // Afterwards, so that whoever sees it sees the other too.
            self.looked_at.store(now.as_nanos(), Ordering::Release);
            return own_us.wrapping_add(ahead_us);
        }
        own_us.wrapping_add(self.ahead_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_wall_says() {
        let wall = Wall::default();
        let now = Moment::from_nanos(5_000_000_000);
        let first = wall.micros(now);
        assert_eq!(wall.micros(now + Duration::from_millis(3)), first + 3_000);
        let asked_anew = now.wall_micros();
        assert!(first.abs_diff(asked_anew) < 1_000_000, "{first} {asked_anew}");
    }
}
