//! The system calls about processes that have no safe form. All unsafe code of the command is here.
#![allow(unsafe_code, reason = "fork, the hook before exec and raw wait states exist only so")]

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
};

use nix::{
    errno::Errno,
    libc,
    sys::{
        prctl,
        signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask},
        socket::{ControlMessageOwned, RecvMsg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{ForkResult, Pid, getpid, getppid},
};

use super::descendants;

/// Which of the two we are after [`fork`].
#[derive(Debug)]
pub(super) enum Side {
    Command {
        /// The process we forked.
        warden: Pid,
    },
    Warden {
        /// The process that forked us.
        command: Pid,
    },
}

/// Forks. No other thread may exist.
pub(super) fn fork() -> nix::Result<Side> {
    let command = getpid();
    // SAFETY: the command has not started a thread yet, so nobody can hold a lock of the
    // allocator or of anything else in the copy.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Side::Command { warden: child }),
        ForkResult::Child => Ok(Side::Warden { command }),
    }
}

/// Ends this process at once; nothing buffered or registered by the other side runs twice.
pub(super) fn leave() -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(0) }
}

/// Whether all children of this process come from our own fork.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    OursAlone,
    /// The process that became lockkeeper had children before. They are not ours to kill.
    Mixed,
}

/// Makes orphans among our descendants our children, if we can tell them from others.
pub(super) fn become_reaper() -> nix::Result<Family> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    if waitid(Id::All, look) == Err(Errno::ECHILD) {
        prctl::set_child_subreaper(true)?;
        Ok(Family::OursAlone)
    } else {
        Ok(Family::Mixed)
    }
}

impl Family {
    /// Kills what the warden left to us. In a mixed family the kernel kills the child alone.
    pub(super) fn end(self) {
        if let Self::OursAlone = self {
            descendants::end_all();
        }
    }
}

/// What a process finds in its signal table and passes on: the child must get the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartedWith {
    mask: SigSet,
    children_ignored: bool,
}

impl StartedWith {
    /// Remembers; from here on, ended children stay until somebody asks for their status.
    pub(super) fn new(mask: SigSet) -> nix::Result<Self> {
        let children_ignored = is_ignored(Signal::SIGCHLD);
        if children_ignored {
            // SAFETY: the default action runs no code.
            unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
        }
        Ok(Self { mask, children_ignored })
    }
}

/// Whether this signal is ignored.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes to the place it is given, which has the
    // right size; all zeroes, should it fail, is the default action.
    let action = unsafe {
        libc::sigaction(signal as libc::c_int, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Starts the child of the warden, which is this process.
pub(super) fn start(command: &mut Command, with: StartedWith) -> io::Result<Pid> {
    let warden = getpid();
    let before_exec = move || {
        if with.children_ignored {
            // SAFETY: to ignore runs no code.
            unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
        }
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != warden {
            // It died before the line above, so nothing will kill us any more.
            return Err(Errno::ESRCH.into());
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&with.mask), None)?;
        Ok(())
    };
    // SAFETY: the hook makes system calls only; it takes no lock and allocates nothing.
    let child = unsafe { command.pre_exec(before_exec) }.spawn()?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// What happened to one of our children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaped {
    /// It ended: its status, or 128 + n for signal n.
    Ended(Pid, u8),
    /// This signal stopped it.
    Stopped(Pid, i32),
    Continued(Pid),
    /// Nothing new; there are children.
    Nothing,
    NoChildren,
}

/// Asks for news of any child, without waiting.
pub(super) fn reap() -> Reaped {
    let mut status = 0;
    let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
    // Not the safe form: that one loses the status of a child killed by a real-time signal.
    // SAFETY: the call writes to a place that outlives it.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    match pid {
        0 => Reaped::Nothing,
        ..0 => Reaped::NoChildren,
        _ => decode(Pid::from_raw(pid), status),
    }
}

fn decode(pid: Pid, status: i32) -> Reaped {
    let low_byte = |number: i32| number.to_le_bytes()[0];
    if libc::WIFEXITED(status) {
        Reaped::Ended(pid, low_byte(libc::WEXITSTATUS(status)))
    } else if libc::WIFSIGNALED(status) {
        Reaped::Ended(pid, low_byte(128 + libc::WTERMSIG(status)))
    } else if libc::WIFSTOPPED(status) {
        Reaped::Stopped(pid, libc::WSTOPSIG(status))
    } else {
        Reaped::Continued(pid)
    }
}

/// The descriptor that came with a message, if one did.
pub(super) fn descriptor_in(received: &RecvMsg<'_, '_, ()>) -> Option<OwnedFd> {
    let mut messages = received.cmsgs().ok()?;
    let fd = messages.find_map(|message| match message {
        ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
        _ => None,
    })?;
    // SAFETY: the kernel has just made it for this process, and nobody else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_states_become_exit_codes() {
        let pid = Pid::from_raw(7);
        assert_eq!(decode(pid, 0x2a00), Reaped::Ended(pid, 42));
        assert_eq!(decode(pid, 9), Reaped::Ended(pid, 137));
        assert_eq!(decode(pid, 0x80 | 11), Reaped::Ended(pid, 139));
        assert_eq!(decode(pid, 40), Reaped::Ended(pid, 168));
        assert_eq!(decode(pid, 0x147f), Reaped::Stopped(pid, 20));
        assert_eq!(decode(pid, 0xffff), Reaped::Continued(pid));
    }
}
