//! Signals to the command: blocked, then read from a descriptor like everything else.

use std::os::fd::{AsFd, BorrowedFd};

use nix::{
    libc,
    sys::{
        signal::{SigSet, SigmaskHow, Signal},
        signalfd::{SfdFlags, SignalFd, siginfo},
    },
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

/// The signals we took into our hands.
#[derive(Debug)]
pub(super) struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals and opens the descriptor they are read from; also answers what the
    /// child must get back.
    pub(super) fn take() -> nix::Result<(Self, StartedWith)> {
        // A signal ignored from the start (nohup, a background job of a script) stays ignored:
        // once blocked, the kernel would hand it to us all the same.
        let taken: SigSet =
            TAKEN.into_iter().filter(|&signal| !process::is_ignored(signal)).collect();
        let mask = taken.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
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

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    signal: Signal,
    code: i32,
}

/// What a signal means to a command that still waits for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    End,
    Stop,
    Nothing,
}

impl Came {
    fn new(info: &siginfo) -> Option<Self> {
        let number = i32::try_from(info.ssi_signo).ok()?;
        Some(Self { signal: Signal::try_from(number).ok()?, code: info.ssi_code })
    }

    pub(super) fn signal(self) -> Signal {
        self.signal
    }

    /// Its number; those we take are all below 32.
    pub(super) fn number(self) -> u8 {
        self.signal as u8
    }

    /// Whether a process sent it, and not the kernel on behalf of the terminal.
    pub(super) fn by_process(self) -> bool {
        self.code != libc::SI_KERNEL
    }

    pub(super) fn meaning(self) -> Meaning {
        match self.signal {
            Signal::SIGTSTP => Meaning::Stop,
            Signal::SIGCONT | Signal::SIGWINCH | Signal::SIGTTIN | Signal::SIGTTOU => {
                Meaning::Nothing
            }
            _ => Meaning::End,
        }
    }
}
