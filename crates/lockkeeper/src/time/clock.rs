//! The only file that reads time.
//!
//! Leases are counted on `CLOCK_BOOTTIME`, which goes on while the machine sleeps: a hold must not
//! look younger after a suspend than the server thinks it is. Wall clocks decide nothing.

use std::{
    ops::Add,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

pub use crate::engine::Moment;
use crate::tools::sync::locked;

impl Moment {
    /// The same moment on the wall clock, in microseconds since 1970: for people to read and for
    /// numbers to start from, never to decide by.
    pub fn wall_micros(self) -> u64 {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ago = boot_now().since(self);
        u64::try_from(wall.saturating_sub(ago).as_micros()).unwrap_or(u64::MAX)
    }
}

/// A moment known to some milliseconds, on a clock that may stand still during suspend: only good
/// for telling how long something took, among its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rough(Moment);

impl Add<Duration> for Rough {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0 + later)
    }
}

/// Where moments come from: the system, or a test that moves time by hand.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<ByHand>>);

#[derive(Debug, Default)]
struct ByHand {
    now_ns: AtomicU64,
    sleepers: Mutex<Vec<std::sync::Weak<Sleeper>>>,
}

impl Clock {
    /// A clock that stands still until [`advance`](Self::advance) is called.
    pub fn by_hand() -> Self {
        let by_hand = ByHand::default();
        by_hand.now_ns.store(1_000_000_000, Ordering::Relaxed);
        Self(Some(Arc::new(by_hand)))
    }

    /// Now.
    pub fn now(&self) -> Moment {
        match &self.0 {
            None => boot_now(),
            Some(by_hand) => Moment::from_nanos(by_hand.now_ns.load(Ordering::SeqCst)),
        }
    }

    /// Now, to some milliseconds, for a fraction of the cost.
    pub(crate) fn rough(&self) -> Rough {
        match &self.0 {
            None => rough_now(),
            Some(_) => Rough(self.now()),
        }
    }

    /// Moves a clock made [by hand](Self::by_hand) forward; the system's clock takes no orders.
    pub fn advance(&self, by: Duration) {
        let Some(by_hand) = &self.0 else { return };
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        by_hand.now_ns.fetch_add(ns, Ordering::SeqCst);
        locked(&by_hand.sleepers)
            .retain(|sleeper| sleeper.upgrade().inspect(|sleeper| sleeper.nudge()).is_some());
    }

    pub(crate) fn sleeper(&self) -> Arc<Sleeper> {
        let sleeper = Arc::new(Sleeper { clock: self.clone(), bed: Bed::new(self.0.is_none()) });
        if let Some(by_hand) = &self.0 {
            locked(&by_hand.sleepers).push(Arc::downgrade(&sleeper));
        }
        sleeper
    }
}

/// Lets one thread sleep until a moment or until it is nudged.
#[derive(Debug)]
pub(crate) struct Sleeper {
    clock: Clock,
    bed: Bed,
}

impl Sleeper {
    /// Sleeps until `until`, a nudge, or for no reason at all.
    pub(crate) fn sleep(&self, until: Moment) {
        if self.clock.0.is_some() {
            // Time moves by hand only, and whoever moves it nudges.
            if until > self.clock.now() {
                self.bed.sleep(Moment::NEVER);
            }
        } else {
            self.bed.sleep(until);
        }
    }

    pub(crate) fn nudge(&self) {
        self.bed.nudge();
    }
}

#[derive(Debug)]
enum Bed {
    #[cfg(target_os = "linux")]
    Timer(linux::Timer),
    Condvar(Mutex<bool>, Condvar),
}

impl Bed {
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "no such timer there"))]
    fn new(with_timer: bool) -> Self {
        // Without descriptors to spare, the other bed still works; it only oversleeps a suspend.
        #[cfg(target_os = "linux")]
        if let (true, Ok(timer)) = (with_timer, linux::Timer::new()) {
            return Self::Timer(timer);
        }
        Self::Condvar(Mutex::new(false), Condvar::new())
    }

    fn sleep(&self, until: Moment) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Timer(timer) => timer.sleep(until),
            Self::Condvar(nudged, condvar) => {
                let pause = until.since(boot_now());
                let guard = locked(nudged);
                let result = condvar.wait_timeout_while(guard, pause, |nudged| !*nudged);
                *result.unwrap_or_else(std::sync::PoisonError::into_inner).0 = false;
            }
        }
    }

    fn nudge(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Timer(timer) => timer.nudge(),
            Self::Condvar(nudged, condvar) => {
                *locked(nudged) = true;
                condvar.notify_one();
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn boot_now() -> Moment {
    linux::read(nix::time::ClockId::CLOCK_BOOTTIME)
}

#[cfg(target_os = "linux")]
fn rough_now() -> Rough {
    Rough(linux::read(nix::time::ClockId::CLOCK_MONOTONIC_COARSE))
}

#[cfg(not(target_os = "linux"))]
fn rough_now() -> Rough {
    Rough(boot_now())
}

/// Elsewhere: monotonic, which may stand still during suspend. The platform notes say so.
#[cfg(not(target_os = "linux"))]
fn boot_now() -> Moment {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed() + Duration::from_secs(1);
    Moment::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{os::fd::AsFd, time::Duration};

    use nix::{
        poll::{PollFd, PollFlags, PollTimeout, poll},
        sys::{
            eventfd::{EfdFlags, EventFd},
            time::TimeSpec,
            timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
        },
    };

    use super::Moment;

    pub(super) fn read(clock: nix::time::ClockId) -> Moment {
        let now = nix::time::clock_gettime(clock).map(Duration::from).unwrap_or_default();
        Moment::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    }

    /// A timer on the clock that counts suspend (it fires right after waking up), and an event to
    /// interrupt it.
    #[derive(Debug)]
    pub(super) struct Timer {
        timer: TimerFd,
        nudged: EventFd,
    }

    impl Timer {
        pub(super) fn new() -> nix::Result<Self> {
            Ok(Self {
                timer: TimerFd::new(
                    ClockId::CLOCK_BOOTTIME,
                    TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
                )?,
                nudged: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            })
        }

        pub(super) fn sleep(&self, until: Moment) {
            if until == Moment::NEVER {
                // Failing to disarm costs one early wake-up.
                let _ = self.timer.unset();
            } else {
                // Zero would disarm the timer; one nanosecond after boot is as good as now.
                let at = Duration::from_nanos(until.as_nanos().max(1));
                let at = Expiration::OneShot(TimeSpec::from_duration(at));
                if self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_err() {
                    return;
                }
            }
            let mut waits = [
                PollFd::new(self.timer.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.nudged.as_fd(), PollFlags::POLLIN),
            ];
            // An interrupted sleep is an early one, which the caller takes anyway.
            let _ = poll(&mut waits, PollTimeout::NONE);
            // Nothing to read is fine: the event may not have been the reason.
            let _ = self.nudged.read();
        }

        pub(super) fn nudge(&self) {
            // The counter cannot overflow in practice, and then it is readable anyway.
            let _ = self.nudged.write(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Moment::NEVER + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::from_nanos(5) - Duration::from_secs(1), Moment::from_nanos(0));
        assert_eq!(Moment::from_nanos(5).since(Moment::from_nanos(9)), Duration::ZERO);
    }

    #[test]
    fn a_nudge_before_the_sleep_is_not_lost() {
        for clock in [Clock::default(), Clock::by_hand()] {
            let sleeper = clock.sleeper();
            sleeper.nudge();
            sleeper.sleep(Moment::NEVER);
        }
    }

    #[test]
    fn a_sleep_ends_at_its_moment() {
        let clock = Clock::default();
        let until = clock.now() + Duration::from_millis(20);
        let sleeper = clock.sleeper();
        while clock.now() < until {
            sleeper.sleep(until);
        }
        assert!(clock.now() >= until);
    }
}
