//! Gets a thread out of a lock call it is blocked in.
//!
//! Two things are needed, for the thread may be inside the call or just before it: its descriptor
//! is replaced by one on which the call fails, and a signal ends a call that has begun.
#![allow(unsafe_code, reason = "real-time signals and dup3 have no safe interface")]

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
    ptr,
    sync::OnceLock,
};

use nix::{errno::Errno, libc};

/// A real-time signal that nobody else uses, with a handler that does nothing.
#[derive(Debug)]
pub(super) struct Interrupt {
    signal: libc::c_int,
}

/// A thread of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread(libc::pid_t);

impl Interrupt {
    /// The one of this process; `None` if every real-time signal is in use.
    pub(super) fn get() -> Option<&'static Self> {
        static INTERRUPT: OnceLock<Option<Interrupt>> = OnceLock::new();
        INTERRUPT.get_or_init(Self::install).as_ref()
    }

    /// Programs count up from the lowest real-time signal, so the search goes down.
    fn install() -> Option<Self> {
        let signal =
            (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|signal| is_unused(*signal))?;
        // SAFETY: all zeros is a valid sigaction: no flags (above all no SA_RESTART, so that the
        // call ends), nothing masked.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(libc::c_int) = do_nothing;
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: the handler is a function of the right type that touches nothing.
        let result = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
        (result == 0).then_some(Self { signal })
    }

    /// Makes the calling thread one that can be interrupted, and keeps the program's own signals
    /// away from it.
    pub(super) fn prepare_thread(&self) -> Thread {
        // SAFETY: the set is filled before it is used; masks concern the calling thread alone.
        unsafe {
            let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigfillset(signals.as_mut_ptr());
            libc::sigdelset(signals.as_mut_ptr(), self.signal);
            libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), ptr::null_mut());
            Thread(libc::gettid())
        }
    }

    /// Ends the call the thread is blocked in.
    pub(super) fn send(&self, thread: Thread) {
        // SAFETY: takes numbers only. The caller sends while the thread serves it, so it lives,
        // and the signal can be delivered; a handler that does nothing harms nobody anyway.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, self.signal) };
    }
}

/// Lets `descriptor` be a copy of `blind` from now on, for threads that use it too.
pub(super) fn replace(descriptor: impl AsFd, blind: impl AsFd) -> nix::Result<()> {
    let (old, new) = (blind.as_fd().as_raw_fd(), descriptor.as_fd().as_raw_fd());
    // SAFETY: both are open for the whole call, and the owner of `descriptor` goes on to own what
    // is behind that number now.
    Errno::result(unsafe { libc::dup3(old, new, libc::O_CLOEXEC) }).map(drop)
}

extern "C" fn do_nothing(_: libc::c_int) {}

fn is_unused(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only fills in the present one.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_DFL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_is_a_real_time_one_and_now_in_use() {
        let interrupt = Interrupt::get().unwrap();
        assert!((libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&interrupt.signal));
        assert!(!is_unused(interrupt.signal));
        let me = interrupt.prepare_thread();
        // A handler that did anything, or none at all, would end the process.
        interrupt.send(me);
    }
}
