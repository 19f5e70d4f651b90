//! The system calls about processes that have no safe form. All unsafe code of the command is here.
#![allow(unsafe_code, reason = "the entry, fork, exec and raw wait states exist only so")]

use std::{
    ffi::CString,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicI32, Ordering},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
    sched::{CloneFlags, clone},
    sys::{
        prctl,
        signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask},
        socket::{ControlMessageOwned, RecvMsg},
        wait::{Id, WaitPidFlag, waitid, waitpid},
    },
    unistd::{ForkResult, Pid, getpid, getppid},
};

use super::{descendants, launch::Launch};
use crate::run::Rest;

/// More than the way to exec needs, and enough for the allocator to ask the kernel for it: what
/// comes from there is not cleared byte by byte.
const STACK_BYTES: usize = 256 * 1024;

/// From which number on the child gets the lock's descriptor, if the one before is beyond its limit.
/// Scripts use up to 9, shells keep theirs from 10 on, `flock` has made 200 popular; and up to 63 the
/// kernel needs no larger table.
const LOCK_FROM: [libc::c_int; 3] = [60, 10, 3];

/// Where the program begins.
///
/// The standard library would begin with a look at the map of our memory and with handlers for a
/// stack that overflows, which takes as long as all we do until the lock is held. What else it
/// would do is done here, except that it would ignore SIGPIPE, also for the child.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(n_words: libc::c_int, words: *const *const libc::c_char) -> libc::c_int {
    use std::{
        ffi::{CStr, OsStr},
        os::unix::ffi::OsStrExt,
    };

    for fd in 0..=2 {
        // SAFETY: both calls take numbers and a text that ends with a zero, and touch no memory
        // of ours. A stream that was closed becomes an empty one, and not the next file we open.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
    let n_words = usize::try_from(n_words).unwrap_or(0);
    let words = (0..n_words).map(|i| {
        // SAFETY: the system hands over that many pointers, each to a text that ends with a zero.
        let word = unsafe { CStr::from_ptr(*words.add(i)) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    });
    crate::begin(&words.collect::<Vec<_>>()).code().into()
}

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
pub(super) fn leave(status: u8) -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(i32::from(status)) }
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
    pub(super) fn end(self) -> Rest {
        match self {
            Self::OursAlone => {
                descendants::end_all();
                Rest::Ended
            }
            Self::Mixed => Rest::MayRun,
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
///
/// The child borrows our memory until it has become another program: to copy it first, as `fork`
/// does, takes longer than all else here. It inherits the `lock`, and passes it on to its own
/// children: so the kernel keeps the lock while any of them lives, whoever else is killed.
pub(super) fn start(
    launch: &Launch,
    with: StartedWith,
    lock: Option<BorrowedFd<'_>>,
) -> nix::Result<Pid> {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(&launch.arguments), pointers(&launch.environment));
    let warden = getpid();
    let failure = AtomicI32::new(0);
    let become_child = || {
        let prepared = prepare_child(warden, with).and_then(|()| lock.map_or(Ok(()), inherit));
        let error = match prepared {
            Err(error) => error,
            Ok(()) => {
                // SAFETY: both lists end with a null pointer, and all texts in them with a zero;
                // they live in the memory of the warden, which sleeps until this call is through.
                unsafe { libc::execvpe(arguments[0], arguments.as_ptr(), environment.as_ptr()) };
                Errno::last()
            }
        };
        failure.store(error as i32, Ordering::Relaxed);
        127
    };
    // A script without an interpreter line makes the C library copy the list of arguments.
    let mut stack = vec![0; STACK_BYTES + 2 * size_of_val(&arguments[..])];
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: this process has one thread, and it sleeps until the child has left its memory. The
    // child has a stack of its own and makes system calls only: it takes no lock, allocates
    // nothing and cannot unwind. There is no signal handler that could run in it.
    let child = unsafe { clone(Box::new(become_child), &mut stack, flags, Some(libc::SIGCHLD)) }?;
    match failure.into_inner() {
        0 => Ok(child),
        number => {
            // It has ended already; nobody else may find it among the orphans.
            let _ = waitpid(child, None);
            Err(Errno::from_raw(number))
        }
    }
}

/// In the child: gives back what the command was started with, and ties it to the warden.
fn prepare_child(warden: Pid, with: StartedWith) -> nix::Result<()> {
    if with.children_ignored {
        // SAFETY: to ignore runs no code.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
    }
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != warden {
        // It died before the line above, so nothing will kill us any more.
        return Err(Errno::ESRCH);
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&with.mask), None)
}

/// In the child: keeps the lock's descriptor over the exec, under a number that disturbs nobody.
fn inherit(lock: BorrowedFd<'_>) -> nix::Result<()> {
    let mut kept = Err(Errno::EMFILE);
    for from in LOCK_FROM {
        kept = fcntl(lock, FcntlArg::F_DUPFD(from));
        if kept.is_ok() {
            break;
        }
    }
    kept.map(drop)
}

/// A descriptor of the process that has this number now.
pub(super) fn open(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes two numbers. The descriptor it answers is closed at an exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = libc::c_int::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a signal to the process of this descriptor; without one, only asks whether it is there.
pub(super) fn signal_by(process: &OwnedFd, signal: Option<Signal>) -> nix::Result<()> {
    let number = signal.map_or(0, |signal| signal as libc::c_int);
    let no_info = std::ptr::null::<libc::siginfo_t>();
    let fd = process.as_raw_fd();
    // SAFETY: without information of our own the call takes numbers only.
    Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, no_info, 0) })
        .map(drop)
}

/// What happened to one of our children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaped {
    /// It ended by itself, with this status.
    Ended(Pid, u8),
    /// A signal ended it: 128 + n for signal n.
    Killed(Pid, u8),
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
        Reaped::Killed(pid, low_byte(128 + libc::WTERMSIG(status)))
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
        assert_eq!(decode(pid, 9), Reaped::Killed(pid, 137));
        assert_eq!(decode(pid, 0x80 | 11), Reaped::Killed(pid, 139));
        assert_eq!(decode(pid, 40), Reaped::Killed(pid, 168));
        assert_eq!(decode(pid, 0x147f), Reaped::Stopped(pid, 20));
        assert_eq!(decode(pid, 0xffff), Reaped::Continued(pid));
    }
}
