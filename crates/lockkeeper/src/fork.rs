//! Tells whether this process is still the one it was, without a system call.
//!
//! A forked child shares open files and locks with its parent, and has none of its threads: what
//! was made before the fork must be left alone in the child.
#![allow(unsafe_code, reason = "a fork can only be noticed by a handler registered in C")]

#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that grows with every fork: it differs in a child from what it was in the parent.
pub(crate) fn generation() -> u64 {
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

#[cfg(unix)]
unsafe extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[cfg(all(test, unix))]
mod tests {
    use nix::{
        sys::wait::{WaitStatus, waitpid},
        unistd::{ForkResult, fork},
    };

    use super::*;

    #[test]
    fn a_child_is_of_another_generation() {
        let before = generation();
        // SAFETY: the child only reads an atomic number and ends.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = i32::from(generation() == before);
                // SAFETY: ends the child without running anything of the test program.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
                assert_eq!(generation(), before);
            }
        }
    }
}
