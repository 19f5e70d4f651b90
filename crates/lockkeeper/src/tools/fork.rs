//! Tells whether this process is still the one it was, without a system call.
//!
//! A forked child shares open files and locks with its parent, and has none of its threads: what
//! was made before the fork must be left alone in the child.
#![allow(unsafe_code, reason = "a fork can only be noticed by a handler registered in C")]

#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The process in which something was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(u64);

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        Self(generation())
    }

    /// Whether we are still in that process, not in a child forked from it.
    pub(crate) fn is_here(self) -> bool {
        generation() == self.0
    }
}

/// Leaves something alone that is the parent's: in a child it is not even dropped.
pub(crate) fn leave<T>(parents: T) {
    let _ = std::mem::ManuallyDrop::new(parents);
}

/// A number that grows with every fork: it differs in a child from what it was in the parent.
fn generation() -> u64 {
    #[cfg(unix)]
    register();
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(unix)]
fn register() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        // SAFETY: the handler does nothing but one atomic addition, which is safe after a fork,
        // and a function is never freed. Failing to register needs memory exhausted at start-up;
        // then forks go unnoticed, as they do in every program without the handler.
        let _ = unsafe { nix::libc::pthread_atfork(None, None, Some(count)) };
    });
}

/// Elsewhere nobody forks.
#[cfg(not(unix))]
fn generation() -> u64 {
    0
}

#[cfg(unix)]
unsafe extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Forks, and tells whether `check` holds in the child.
#[cfg(all(test, unix))]
pub(crate) fn holds_in_child(check: impl FnOnce() -> bool) -> bool {
    use nix::{
        sys::wait::{WaitStatus, waitpid},
        unistd::{ForkResult, fork},
    };
    // SAFETY: the check takes no lock that another thread may have had, and memory can be
    // allocated after a fork with the C libraries we test with.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let code = i32::from(!check());
            // SAFETY: ends the child without running anything else of the test program.
            unsafe { nix::libc::_exit(code) }
        }
        Ok(ForkResult::Parent { child }) => {
            waitpid(child, None) == Ok(WaitStatus::Exited(child, 0))
        }
        Err(_) => false,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_of_another_generation() {
        let before = generation();
        assert!(holds_in_child(|| generation() != before));
        assert!(!holds_in_child(|| generation() == before));
        assert_eq!(generation(), before);
    }
}
