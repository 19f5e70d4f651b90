//! All processes below us, and the end of them.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    thread::sleep,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getpid},
};

use super::process::{self, Reaped};

/// The longest pause between two looks at processes that do not die.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Kills every process below this one, and returns when none is left.
///
/// This process must be a child subreaper: then "no children" means "no descendants". Those that
/// we may not kill, or that the kernel holds back, are waited for: the lock stays with them.
pub(super) fn end_all() {
    let mut pause = Duration::from_millis(1);
    loop {
        // Stopped first, so that nobody forks faster than we can read the process table.
        let mut stopped = HashSet::new();
        loop {
            let Ok(found) = of(getpid()) else {
                // Without a process table: our own end makes the kernel kill the child.
                return;
            };
            let n_before = stopped.len();
            for pid in found {
                if stopped.insert(pid) {
                    signal(pid, Signal::SIGSTOP);
                }
            }
            if stopped.len() == n_before {
                break;
            }
        }
        for pid in stopped {
            signal(pid, Signal::SIGKILL);
        }
        loop {
            match process::reap() {
                Reaped::NoChildren => return,
                Reaped::Nothing => break,
                _ => {}
            }
        }
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// All descendants of `root`, as the process table shows them now.
pub(super) fn of(root: Pid) -> io::Result<Vec<Pid>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that is gone by now has no parent to ask for.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = parent_in(&String::from_utf8_lossy(&stat)) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw()];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(below.iter().copied().map(Pid::from_raw));
        next.extend(below);
    }
    Ok(found)
}

/// The parent in a line of `/proc/PID/stat`. A name may contain anything, also `) R 1`.
fn parent_in(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
}

fn signal(pid: Pid, signal: Signal) {
    // Gone, or not ours to kill: the next look tells.
    let _ = kill(pid, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_fake_a_parent() {
        assert_eq!(parent_in("42 (sh) S 7 42 42 0"), Some(7));
        assert_eq!(parent_in("42 (a) R 1 (b) S 7 42 42 0"), Some(7));
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn a_child_is_found_below_us() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        let found = of(getpid()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&pid), "{found:?}");
    }
}
