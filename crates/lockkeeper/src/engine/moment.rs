//! A point in time, as engines are told it.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A point on the clock that counts suspend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    boot_ns: u64,
}

impl Moment {
    /// Later than every other moment: the end of a hold that has none.
    pub const NEVER: Self = Self { boot_ns: u64::MAX };

    /// From nanoseconds since boot.
    pub const fn from_nanos(boot_ns: u64) -> Self {
        Self { boot_ns }
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.boot_ns
    }

    /// The time from `earlier` to here; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.boot_ns.saturating_sub(earlier.boot_ns))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        let ns = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Self { boot_ns: self.boot_ns.saturating_add(ns) }
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        let ns = u64::try_from(earlier.as_nanos()).unwrap_or(u64::MAX);
        Self { boot_ns: self.boot_ns.saturating_sub(ns) }
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self { boot_ns } => write!(f, "{:?} after boot", Duration::from_nanos(boot_ns)),
        }
    }
}
