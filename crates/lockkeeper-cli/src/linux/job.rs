//! The command as job control sees it: its warden stops it, and lets it go on.

use nix::{
    libc,
    sys::signal::Signal,
    unistd::{Pid, getppid},
};

use super::{handle::Handle, signals::asks_to_end, stat};

/// The command, which is the parent of this process.
///
/// A shell looks at the command, not at the child: when job control stops the child, the command
/// must stop too. It does not stop by itself, because only the warden knows in which order the child
/// stopped and went on.
#[derive(Debug)]
pub(super) struct Job {
    command: Pid,
    command_is: CommandIs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandIs {
    Running,
    /// We stopped it. So we must let it go on: it would keep the lock, and nobody would know why.
    Stopped,
}

impl Job {
    pub(super) fn new(command: Pid) -> Self {
        Self { command, command_is: CommandIs::Running }
    }

    /// Whether we stopped the command.
    pub(super) fn is_stopped(&self) -> bool {
        self.command_is == CommandIs::Stopped
    }

    /// The child was stopped by this signal.
    pub(super) fn child_stopped(&mut self, by: i32) {
        if [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&by) {
            self.command_is = CommandIs::Stopped;
            self.signal(Signal::SIGSTOP);
        }
    }

    /// Lets the command go on if it was us who stopped it. To one that runs, a word from us would
    /// only hide the same word from somebody else, who means the child.
    pub(super) fn go_on(&mut self) {
        if self.is_stopped() {
            self.command_is = CommandIs::Running;
            self.signal(Signal::SIGCONT);
        }
    }

    /// A stopped command does not see a signal that asks it to end. It must go on to pass it on.
    pub(super) fn go_on_if_asked_to_end(&mut self) {
        if self.is_stopped()
            && stat::signals_that_wait_for(self.command).into_iter().any(asks_to_end)
        {
            self.go_on();
        }
    }

    fn signal(&self, signal: Signal) {
        let command = Handle::of(self.command);
        // Still our parent: so the number was its own when we took hold of it.
        if let Some(command) = command.filter(|_| getppid() == self.command) {
            command.signal(signal);
        }
    }
}
