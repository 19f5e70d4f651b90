//! All processes below us, and the end of them.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    thread::sleep,
    time::Duration,
};

use nix::{
    sys::signal::Signal,
    unistd::{Pid, getpid},
};

use super::{
    handle::Handle,
    process::{self, Reaped},
    stat::Stat,
};

/// The longest pause between two looks at processes that do not die.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Kills every process below this one, and returns when none is left.
///
/// This process must be a child subreaper: then "no children" means "no descendants". Those that
/// we may not kill, or that the kernel holds back, are waited for: the lock stays with them.
pub(super) fn end_all() {
    let mut pause = Duration::from_millis(1);
    loop {
        // Without a process table: our own end makes the kernel kill the child.
        if stop_all().is_err() || signal_all(&[Signal::SIGKILL]).is_err() {
            return;
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

/// Stops them, so that nobody forks faster than we can read the process table.
fn stop_all() -> io::Result<()> {
    let mut stopped = HashSet::new();
    loop {
        let n_before = stopped.len();
        Table::read()?.visit_all(|process| {
            if stopped.insert(process.pid()) {
                process.signal(Signal::SIGSTOP);
            }
        });
        if stopped.len() == n_before {
            return Ok(());
        }
    }
}

/// Sends these signals, one after the other, to every process below this one.
pub(super) fn signal_all(signals: &[Signal]) -> io::Result<()> {
    Table::read()?.visit_all(|process| signals.iter().for_each(|signal| process.signal(*signal)));
    Ok(())
}

/// The process table as it was when it was read: the children of every parent. A number in it may
/// stand for another process by now.
#[derive(Debug)]
struct Table(HashMap<Pid, Vec<Pid>>);

impl Table {
    fn read() -> io::Result<Self> {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let pid = Pid::from_raw(pid);
            // A process that is gone by now has no parent to ask for.
            if let Some(stat) = Stat::of(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        Ok(Self(children))
    }

    /// Shows every process that is still below this one, parents first.
    fn visit_all(&self, mut visit: impl FnMut(&Handle)) {
        self.visit_below(getpid(), &mut Vec::new(), &mut visit);
    }

    fn visit_below(&self, parent: Pid, above: &mut Vec<Handle>, visit: &mut impl FnMut(&Handle)) {
        for &pid in self.0.get(&parent).into_iter().flatten() {
            if let Some(process) = find_below(above, pid) {
                visit(&process);
                above.push(process);
                self.visit_below(pid, above, visit);
                above.pop();
            }
        }
    }
}

/// The process with this number, if it is a child of this process or of one of those `above` it.
///
/// A number may have been given to a stranger since the table was read. So the process is held first,
/// then its parent is read again; if process and parent are both there afterwards, no number changed
/// hands meanwhile. The parent may have died since the table was read: orphans go to the next reaper
/// above.
fn find_below(above: &[Handle], pid: Pid) -> Option<Handle> {
    const N_LOOKS: usize = 3;
    let process = Handle::of(pid)?;
    for _ in 0..N_LOOKS {
        let parent = Stat::of(pid)?.parent;
        if !process.is_there() {
            return None;
        }
        if parent == getpid() {
            return Some(process);
        }
        if above.iter().rfind(|above| above.pid() == parent)?.is_there() {
            return Some(process);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn pid_of(child: &Child) -> Pid {
        Pid::from_raw(child.id().try_into().unwrap())
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A shell with a child of its own, whose number it prints.
    fn family() -> (Child, Pid) {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        (shell.stdout.take().map(first_number).map(|pid| (shell, pid))).unwrap()
    }

    fn first_number(stdout: impl io::Read) -> Pid {
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).unwrap();
        Pid::from_raw(line.trim().parse().unwrap())
    }

    fn found_in(table: &Table) -> Vec<Pid> {
        let mut found = Vec::new();
        table.visit_all(|process| found.push(process.pid()));
        found
    }

    #[test]
    fn children_and_their_children_are_found_parents_first() {
        let (shell, grandchild) = family();
        let found = found_in(&Table::read().unwrap());
        nix::sys::signal::kill(grandchild, Signal::SIGKILL).unwrap();
        let at = |pid| found.iter().position(|&found| found == pid);
        assert!(at(pid_of(&shell)).is_some() && at(pid_of(&shell)) < at(grandchild), "{found:?}");
        end(shell);
    }

    #[test]
    fn a_number_that_belongs_to_a_stranger_by_now_is_not_signalled() {
        // As the table looks when a child of ours, or a grandchild, ended after it was read and its
        // number was given to somebody else's process.
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let (shell, stranger) = family();
        let foster = pid_of(&child);
        for children in [
            HashMap::from([(getpid(), vec![Pid::from_raw(1), stranger])]),
            HashMap::from([(getpid(), vec![foster]), (foster, vec![Pid::from_raw(1), stranger])]),
        ] {
            let known: Vec<Pid> = children[&getpid()].clone();
            let found = found_in(&Table(children));
            assert!(!found.contains(&stranger) && !found.contains(&Pid::from_raw(1)), "{found:?}");
            assert_eq!(found.contains(&foster), known.contains(&foster));
        }
        nix::sys::signal::kill(stranger, Signal::SIGKILL).unwrap();
        end(shell);
        end(child);
    }

    #[test]
    fn an_orphan_is_known_by_the_reaper_above() {
        // The table still has its old parent, who is gone.
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let gone = Command::new("sleep").arg("60").spawn().unwrap();
        let above = [Handle::of(pid_of(&gone)).unwrap()];
        end(gone);
        assert!(!above[0].is_there());
        assert!(find_below(&above, pid_of(&child)).is_some());
        end(child);
    }
}
