//! What the kernel tells of a process in one line.

use std::fs;

use nix::unistd::Pid;

/// The parts of `/proc/PID/stat` that we need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: Pid,
    /// In ticks since the machine started: with the number, it names a process for good.
    pub(super) started_at: u64,
}

impl Stat {
    /// Nothing, if there is no such process.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&line))
    }

    /// A name may contain anything, also `) R 1`.
    fn parse(line: &str) -> Option<Self> {
        let (_, after_name) = line.rsplit_once(") ")?;
        let mut words = after_name.split(' ');
        let parent = Pid::from_raw(words.nth(1)?.parse().ok()?);
        Some(Self { parent, started_at: words.nth(17)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::{getpid, getppid};

    use super::*;

    #[test]
    fn a_name_cannot_fake_a_parent() {
        let rest = "7 42 42 0 -1 4 1 1 1 1 1 1 1 1 20 0 1 0 8765 1 1";
        let expected = Stat { parent: Pid::from_raw(7), started_at: 8765 };
        assert_eq!(Stat::parse(&format!("42 (sh) S {rest}")), Some(expected));
        assert_eq!(Stat::parse(&format!("42 (a) R 1 (b) S {rest}")), Some(expected));
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn our_own_line_names_our_parent() {
        assert_eq!(Stat::of(getpid()).unwrap().parent, getppid());
    }
}
