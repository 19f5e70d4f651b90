//! More than one process: forks, and descriptors that outlive a holder.
#![allow(unsafe_code, reason = "these tests fork")]
#![cfg(target_os = "linux")]

use std::{
    os::fd::AsRawFd,
    panic::{AssertUnwindSafe, catch_unwind},
};

use lockkeeper::{ErrorKind, blocking::Locks};
use nix::{
    sys::resource::{Resource, setrlimit},
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};

fn files() -> (tempfile::TempDir, Locks) {
    let folder = tempfile::tempdir().unwrap();
    let locks = Locks::connect(&format!("file://{}", folder.path().display())).unwrap();
    (folder, locks)
}

/// Runs `body` in a forked child; its answer is whether all was well there.
fn in_a_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs code of ours only, takes no lock of another thread of this program that
    // it could find locked for ever, and ends without running anything of the test program.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // A thread of a test that panics ends its process with 0, when that is a child.
            let is_well = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            let code = i32::from(!is_well);
            // SAFETY: as above.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            waitpid(child, None).unwrap() == WaitStatus::Exited(child, 0)
        }
    }
}

#[test]
fn a_guard_is_inert_in_a_forked_child() {
    let (_folder, locks) = files();
    let guard = locks.lock("a").acquire().unwrap();
    let mut copy = Some(guard);
    assert!(in_a_child(|| {
        let guard = copy.take().unwrap();
        let inert = !guard.is_held();
        drop(guard);
        inert
    }));
    let guard = copy.take().unwrap();
    assert!(guard.is_held());
    let stranger = Locks::connect(&format!("file://{}", _folder.path().display())).unwrap();
    assert!(stranger.lock("a").try_acquire().unwrap().is_none(), "the child released it");
    guard.release().unwrap();
    assert!(stranger.lock("a").try_acquire().unwrap().is_some());
}

#[test]
fn locks_opened_before_a_fork_are_refused_in_the_child_and_new_ones_work() {
    let (folder, locks) = files();
    let url = format!("file://{}", folder.path().display());
    let guard = locks.lock("a").acquire().unwrap();
    assert!(in_a_child(|| {
        let refused = locks.lock("b").acquire().unwrap_err().kind() == ErrorKind::Refused;
        let own = Locks::connect(&url).unwrap();
        let busy = own.lock("a").try_acquire().unwrap().is_none();
        let free = own.lock("b").try_acquire().unwrap().is_some();
        refused && busy && free
    }));
    assert!(guard.is_held());
}

#[test]
fn a_duplicate_of_the_descriptor_keeps_the_lock_after_the_holder_died() {
    let (folder, _) = files();
    let url = format!("file://{}", folder.path().display());
    let (reader, writer) = std::io::pipe().unwrap();
    // The holder dies with its guard; a child of its own keeps the descriptor until the pipe closes.
    assert!(in_a_child(|| {
        let locks = Locks::connect(&url).unwrap();
        let guard = locks.lock("a").acquire().unwrap();
        let kept = guard.descriptor().unwrap();
        // SAFETY: as in `in_a_child`.
        if let ForkResult::Child = unsafe { fork() }.unwrap() {
            // Its copy of the writing end would keep the pipe open for ever.
            nix::unistd::close(writer.as_raw_fd()).unwrap();
            let _ = std::io::Read::read(&mut &reader, &mut [0]);
            drop(kept);
            // SAFETY: as in `in_a_child`.
            unsafe { nix::libc::_exit(0) }
        }
        // The process ends here without a word; nothing is dropped.
        let _guard = std::mem::ManuallyDrop::new(guard);
        true
    }));
    let locks = Locks::connect(&url).unwrap();
    assert!(locks.lock("a").try_acquire().unwrap().is_none());
    drop((reader, writer));
    assert!(locks.lock("a").acquire_within(crate::tools::LONG).is_ok());
}

/// A process has few descriptors and goes round many keys, whose files stay open for the next time.
#[test]
fn unused_files_are_closed_when_there_are_no_more_descriptors() {
    const N_DESCRIPTORS: u64 = 24;
    let (folder, _) = files();
    let url = format!("file://{}", folder.path().display());
    assert!(in_a_child(|| {
        let locks = Locks::connect(&url).unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let numbers = open.map(|entry| entry.unwrap().file_name().to_string_lossy().parse::<i32>());
        let highest = numbers.map(Result::unwrap).max().unwrap();
        // The numbers below it that are free are taken, so that there are as many left as we say.
        let null = || std::fs::File::open("/dev/null").unwrap();
        let _taken: Vec<_> =
            std::iter::repeat_with(null).take_while(|file| file.as_raw_fd() < highest).collect();
        let most = u64::try_from(highest).unwrap() + N_DESCRIPTORS;
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let held: Vec<_> =
            (0..4).map(|number| locks.lock(&format!("held {number}")).acquire().unwrap()).collect();
        for number in 0..250 {
            locks.lock(&format!("key {number}")).acquire().unwrap().release().unwrap();
        }
        let copies: Vec<_> = held.iter().map(|guard| guard.descriptor().unwrap()).collect();
        locks.who("held 0").unwrap().holder.is_some() && copies.len() == held.len()
    }));
}
