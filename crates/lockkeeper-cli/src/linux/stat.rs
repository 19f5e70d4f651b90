//! What the kernel tells of a process.

use std::fs;

use nix::{sys::signal::Signal, unistd::Pid};

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

/// The signals that a process has not seen yet and does not ignore; none, if that cannot be found out.
pub(super) fn signals_that_wait_for(pid: Pid) -> Vec<Signal> {
    signals_in(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
}

fn signals_in(status: &str) -> Vec<Signal> {
    let set = |name: &str| {
        let lines = status.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.filter_map(|bits| u64::from_str_radix(bits.trim(), 16).ok()).fold(0, |a, b| a | b)
    };
    let waiting = (set("SigPnd") | set("ShdPnd")) & !set("SigIgn");
    Signal::iterator().filter(|&signal| waiting >> (signal as u32 - 1) & 1 == 1).collect()
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
    fn signals_that_wait_are_those_of_the_thread_and_of_the_process_but_not_the_ignored() {
        let status = "Name:\tSigPnd:\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000004001\n\
                      SigBlk:\t00000000000000ff\nSigIgn:\t0000000000000001\n";
        assert_eq!(signals_in(status), [Signal::SIGINT, Signal::SIGTERM]);
        assert_eq!(signals_in("SigPnd:\tx\n"), []);
    }

    #[test]
    fn our_own_line_names_our_parent() {
        assert_eq!(Stat::of(getpid()).unwrap().parent, getppid());
    }
}
