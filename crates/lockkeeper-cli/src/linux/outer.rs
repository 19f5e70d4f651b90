//! The runs around this one: to wait for a key that one of them holds would never end.
//!
//! Each run tells its command of itself in a variable, after what the variable said before. What it
//! says is only where to look: the run must still be there, above us, and still hold the key.

use std::{fs, time::Duration};

use lockkeeper::{ErrorKind, engine::Who, without_secrets};
use nix::{
    time::{ClockId, clock_gettime},
    unistd::{Pid, getppid},
};

use super::stat::Stat;
// In the variable is a word for each run, the outermost first.
use crate::passed_on::HELD;

/// A run, as the variable has it: `PID:SEEN:ENGINE:KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    pub(super) pid: Pid,
    /// A moment at which the run was there, in ticks since the machine started: a process that has its
    /// number and began later is another.
    seen_at: u64,
    /// Differs between engines, as far as their URLs do; a URL itself may be a secret.
    engine: u64,
    key: String,
}

impl Outer {
    /// The run of process `pid`, which is there now.
    pub(super) fn new(pid: Pid, url: Option<&str>, key: &str) -> Self {
        Self { pid, seen_at: ticks(), engine: engine_of(url), key: key.to_owned() }
    }

    /// What the variable says for a command of this run.
    pub(super) fn variable(&self) -> String {
        let Self { pid, seen_at, engine, key } = self;
        let outer = std::env::var(HELD).unwrap_or_default();
        let word = format!("{pid}:{seen_at}:{engine:016x}:{}", encoded(key));
        [outer.trim(), &word].join(" ").trim_start().to_owned()
    }

    /// The runs around this process that took `key`, on whatever engine.
    pub(super) fn all_with(key: &str) -> Vec<Self> {
        let Ok(variable) = std::env::var(HELD) else { return Vec::new() };
        let mut outer: Vec<Self> = variable.split_whitespace().filter_map(Self::parse).collect();
        outer.retain(|outer| outer.key == key);
        if outer.is_empty() {
            return outer;
        }
        let above = ancestors();
        outer.retain(|outer| {
            above.iter().any(|(pid, began_at)| *pid == outer.pid && *began_at <= outer.seen_at)
        });
        outer
    }

    /// Whether it is this run that holds the key at the engine with this URL, which said this when
    /// it was asked.
    pub(super) fn holds(&self, url: Option<&str>, who: &lockkeeper::Result<Who>) -> bool {
        let by_url = self.engine == engine_of(url);
        match who {
            Ok(Who { holder: None, .. }) => false,
            Ok(Who { holder: Some(holder), .. }) => match holder.pid {
                Some(pid) => {
                    i32::try_from(pid).is_ok_and(|pid| pid == self.pid.as_raw())
                        && holder.host.as_ref().is_none_or(|host| *host == this_host())
                }
                None => by_url,
            },
            // It cannot tell who holds a lock.
            Err(error) => error.kind() == ErrorKind::Unsupported && by_url,
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.splitn(4, ':');
        Some(Self {
            pid: Pid::from_raw(parts.next()?.parse().ok()?),
            seen_at: parts.next()?.parse().ok()?,
            engine: u64::from_str_radix(parts.next()?, 16).ok()?,
            key: decoded(parts.next()?)?,
        })
    }
}

/// All processes above this one, and when each began.
fn ancestors() -> Vec<(Pid, u64)> {
    let mut above = Vec::new();
    let mut next = getppid();
    // A table that changes while we read it cannot lead us round for ever.
    while let Some(stat) = Stat::of(next).filter(|_| !above.iter().any(|(pid, _)| *pid == next)) {
        above.push((next, stat.started_at));
        next = stat.parent;
    }
    above
}

/// Now, as the process table counts: in hundredths of a second since the machine started.
fn ticks() -> u64 {
    let since_boot = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
    u64::try_from(since_boot.as_millis() / 10).unwrap_or(u64::MAX)
}

fn this_host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The same in every build (FNV-1a), and without the password.
fn engine_of(url: Option<&str>) -> u64 {
    url.map(without_secrets)
        .unwrap_or_default()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// A key as one word of plain letters.
fn encoded(key: &str) -> String {
    key.bytes().fold(String::with_capacity(key.len()), |mut word, byte| {
        match byte {
            b'%' | 0x7f.. | ..=b' ' => word += &format!("%{byte:02x}"),
            _ => word.push(byte.into()),
        }
        word
    })
}

fn decoded(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut parts = word.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use lockkeeper::engine::Party;
    use nix::unistd::getpid;

    use super::*;

    fn held_by(pid: Option<Pid>, host: Option<&str>) -> lockkeeper::Result<Who> {
        let mut holder = Party::default();
        holder.pid = pid.map(|pid| pid.as_raw().try_into().unwrap());
        holder.host = host.map(str::to_owned);
        Ok(Who { holder: Some(holder), ..Who::default() })
    }

    #[test]
    fn a_run_survives_the_way_through_the_variable() {
        for key in ["deploy", "a b\n", "100%", "%41", "🔒", ":"] {
            let outer = Outer::new(getpid(), Some("redis://me:canary@host"), key);
            let variable = outer.variable();
            assert!(!variable.contains("canary"), "{variable}");
            let word = variable.split(' ').next_back().unwrap();
            assert_eq!(Outer::parse(word), Some(outer), "{variable}");
        }
        for word in ["", "1", "1:2:3", "x:2:3:k", "1:2:3:%", "1:2:3:%zz", "1:2:3:%ff"] {
            assert_eq!(Outer::parse(word), None, "{word}");
        }
    }

    #[test]
    fn it_holds_the_key_only_if_the_engine_says_so() {
        let url = Some("redis://host");
        let outer = Outer::new(getpid(), url, "k");
        let (us, other) = (Some(getpid()), Some(getppid()));
        let host = this_host();
        assert!(outer.holds(Some("another URL"), &held_by(us, Some(&host))));
        assert!(!outer.holds(url, &held_by(us, Some("another host"))));
        assert!(!outer.holds(url, &held_by(other, Some(&host))));
        assert!(!outer.holds(url, &Ok(Who::default())));
        // An engine that does not know is believed to be the one its URL says.
        assert!(outer.holds(url, &held_by(None, None)));
        assert!(!outer.holds(None, &held_by(None, None)));
    }

    #[test]
    fn our_ancestors_begin_with_our_parent() {
        let above = ancestors();
        assert_eq!(above[0], (getppid(), Stat::of(getppid()).unwrap().started_at));
        assert!(above.iter().all(|(_, began_at)| *began_at <= ticks()), "{above:?}");
    }
}
