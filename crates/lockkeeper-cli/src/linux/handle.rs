//! A process that is signalled by what it is and not by its number, which may change hands.

use std::os::fd::OwnedFd;

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::process;

/// A hold on a process: it stays the same one when its number is given to another.
#[derive(Debug)]
pub(super) struct Handle {
    pid: Pid,
    /// None where the system has no such descriptors (Linux before 5.3), forbids them, or has none
    /// left: then the number must do.
    fd: Option<OwnedFd>,
}

impl Handle {
    /// Nothing, if there is no such process.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        match process::open(pid) {
            Ok(fd) => Some(Self { pid, fd: Some(fd) }),
            Err(Errno::ESRCH) => None,
            Err(_) => Some(Self { pid, fd: None }),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether its number is still its own; so it is until somebody has asked for its status.
    pub(super) fn is_there(&self) -> bool {
        self.send(None) != Err(Errno::ESRCH)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // Gone, or not ours to signal: whoever must know looks again.
        let _ = self.send(Some(signal));
    }

    fn send(&self, signal: Option<Signal>) -> nix::Result<()> {
        match &self.fd {
            Some(fd) => process::signal_by(fd, signal),
            None => kill(self.pid, signal),
        }
    }
}
