//! Signals to the command: blocked, then read from a descriptor like everything else.

use std::os::fd::{AsFd, BorrowedFd};

use nix::{
    libc,
    sys::{
        signal::{SigSet, SigmaskHow, Signal},
        signalfd::{SfdFlags, SignalFd, siginfo},
    },
    unistd::Pid,
};

use super::process::{self, StartedWith};
use crate::exit::Failure;

const TAKEN: [Signal; 11] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCONT,
];

/// Whether this signal asks a command to end; others that we pass on have meanings of their own.
pub(super) fn asks_to_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT)
}

/// The signals we took into our hands.
#[derive(Debug)]
pub(super) struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals and opens the descriptor they are read from; also answers what the
    /// child must get back.
    pub(super) fn take() -> nix::Result<(Self, StartedWith)> {
        // A signal ignored from the start (nohup, a background job of a script) stays ignored:
        // once blocked, the kernel would hand it to us all the same.
        let mut taken: SigSet =
            TAKEN.into_iter().filter(|&signal| !process::is_ignored(signal)).collect();
        // How the warden's end is told. Blocked, it does not disturb any thread of the library.
        taken.add(Signal::SIGCHLD);
        let mut blocked = taken;
        blocked.add(Signal::SIGPIPE);
        let mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&taken, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok((Self(fd), StartedWith::new(mask)?))
    }

    /// The next signal, if one has come.
    pub(super) fn next(&self) -> Result<Option<Came>, Failure> {
        match self.0.read_signal() {
            Ok(info) => Ok(info.and_then(|info| Came::new(&info))),
            Err(error) => Err(Failure::system("read signals", error)),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// From here on, writing to a reader who left is an error and no end. Blocked, not ignored: a
/// child would inherit that for good.
pub(crate) fn survive_broken_pipes() {
    // It cannot fail with a set that is valid.
    let _ = SigSet::from(Signal::SIGPIPE).thread_block();
}

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    signal: Signal,
    code: i32,
    /// The process that sent it, if one did.
    by: Option<Pid>,
}

/// What a signal means to a command that still waits for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    End,
    Stop,
    Nothing,
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Process,
    /// The kernel, on behalf of the terminal.
    Terminal,
    /// The warden, so that we go on when the child does; or the kernel, when the warden ended.
    Warden,
}

impl Came {
    fn new(info: &siginfo) -> Option<Self> {
        let number = i32::try_from(info.ssi_signo).ok()?;
        let by = i32::try_from(info.ssi_pid).ok().map(Pid::from_raw);
        Some(Self { signal: Signal::try_from(number).ok()?, code: info.ssi_code, by })
    }

    pub(super) fn signal(self) -> Signal {
        self.signal
    }

    /// Its number; those we take are all below 32.
    pub(super) fn number(self) -> u8 {
        self.signal as u8
    }

    pub(super) fn sender(self, warden: Pid) -> Sender {
        match (self.signal, self.code) {
            (Signal::SIGCHLD, _) => Sender::Warden,
            (_, libc::SI_KERNEL) => Sender::Terminal,
            _ if self.by == Some(warden) => Sender::Warden,
            _ => Sender::Process,
        }
    }

    pub(super) fn meaning(self) -> Meaning {
        match self.signal {
            Signal::SIGTSTP => Meaning::Stop,
            Signal::SIGCHLD
            | Signal::SIGCONT
            | Signal::SIGTTIN
            | Signal::SIGTTOU
            | Signal::SIGWINCH => Meaning::Nothing,
            _ => Meaning::End,
        }
    }
}
