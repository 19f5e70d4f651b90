//! More than one process: forks, and descriptors that outlive a holder.
#![allow(unsafe_code, reason = "these tests fork")]
#![cfg(target_os = "linux")]

use std::{
    os::fd::AsRawFd,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use lockkeeper::{ErrorKind, Loss, blocking::Locks};
use nix::{
    sys::{
        resource::{Resource, setrlimit},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};

use crate::tools::{LONG, poll_once};

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
        ForkResult::Parent { child } => end_of(child) == WaitStatus::Exited(child, 0),
    }
}

/// Waits for the child; one that hangs is killed.
fn end_of(child: Pid) -> WaitStatus {
    let start = Instant::now();
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive if start.elapsed() > LONG => {
                kill(child, Signal::SIGKILL).unwrap();
            }
            WaitStatus::StillAlive => thread::sleep(Duration::from_millis(1)),
            end => return end,
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

/// Forks again and again while other threads use the same locks: their mutexes are locked for ever in some
/// of the children.
fn hold_in_children_of_a_busy_process(
    locks: &lockkeeper::Locks,
    prepare: impl Fn() -> Box<dyn FnOnce() -> bool>,
) {
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let (locks, is_over) = (locks.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                let mut context = Context::from_waker(Waker::noop());
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let lock = locks.lock(&format!("{thread} {}", n % 5_000));
                    let mut wait = Box::pin(lock.acquire_within(LONG));
                    let _ = Pin::new(&mut wait).as_mut().poll(&mut context);
                    // A limit of its own, entered and left again.
                    let busy = locks.lock("busy");
                    let mut wait = Box::pin(busy.acquire_within(LONG));
                    assert!(wait.as_mut().poll(&mut context).is_pending());
                }
            })
        })
        .collect();
    for n in 0..100 {
        let check = prepare();
        assert!(in_a_child(check), "child {n}");
    }
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_forked_child_is_refused_and_never_hangs() {
    let (_folder, locks) = files();
    let locks = locks.as_async().clone();
    let busy = Arc::new(lockkeeper::blocking::block_on(locks.lock("busy").acquire()).unwrap());
    hold_in_children_of_a_busy_process(&locks, || {
        let (locks, busy) = (locks.clone(), Arc::clone(&busy));
        let pending = locks.lock("busy");
        let mut wait: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(async move { pending.acquire_within(LONG).await });
        let mut context = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        Box::new(move || {
            let refused = |error: lockkeeper::Error| error.kind() == ErrorKind::Refused;
            drop(wait);
            let is_refused = lockkeeper::blocking::block_on(async {
                let lost = matches!(busy.lost().await, Loss::TakenAway(_));
                let unprotected = busy.protect(async {}).await.is_err();
                let no_wait = locks.lock("a").acquire().await.is_err_and(refused);
                let no_try = locks.lock("busy").try_acquire().await.is_err_and(refused);
                let no_look = locks.who("busy").await.is_err_and(refused);
                lost && unprotected && no_wait && no_try && no_look
            });
            let no_copy = busy.descriptor().is_err();
            is_refused && no_copy && !busy.is_held() && locks.attend().is_none()
        })
    });
    assert!(busy.is_held());
}

#[test]
fn a_wait_that_is_polled_in_a_forked_child_is_refused() {
    let (_folder, locks) = files();
    let locks = locks.as_async().clone();
    let _busy = lockkeeper::blocking::block_on(locks.lock("busy").acquire()).unwrap();
    let lock = locks.lock("busy");
    let mut wait = Box::pin(lock.acquire());
    assert!(lockkeeper::blocking::block_on(poll_once(&mut wait)).is_none());
    assert!(in_a_child(|| {
        let answer = lockkeeper::blocking::block_on(wait.as_mut());
        answer.is_err_and(|error| error.kind() == ErrorKind::Refused)
    }));
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
    assert!(locks.lock("a").acquire_within(LONG).is_ok());
}

#[test]
fn a_guard_that_is_dropped_frees_the_lock_though_a_duplicate_of_its_descriptor_is_open() {
    let (folder, locks) = files();
    let url = format!("file://{}", folder.path().display());
    let stranger = Locks::connect(&url).unwrap();
    for is_dropped in [false, true] {
        let guard = locks.lock("a").acquire().unwrap();
        let _kept = guard.descriptor().unwrap().unwrap();
        assert!(stranger.lock("a").try_acquire().unwrap().is_none());
        match is_dropped {
            true => drop(guard),
            false => guard.release().unwrap(),
        }
        assert!(stranger.lock("a").try_acquire().unwrap().is_some(), "the duplicate kept it");
    }
}

#[test]
fn a_duplicate_of_the_descriptor_has_no_part_in_the_next_hold() {
    let (folder, _) = files();
    let url = format!("file://{}", folder.path().display());
    let (reader, writer) = std::io::pipe().unwrap();
    // The holder gives the lock back, takes it again and dies; a child of its own still has the first duplicate.
    assert!(in_a_child(|| {
        let locks = Locks::connect(&url).unwrap();
        let guard = locks.lock("a").acquire().unwrap();
        let kept = guard.descriptor().unwrap();
        guard.release().unwrap();
        // SAFETY: as in `in_a_child`.
        if let ForkResult::Child = unsafe { fork() }.unwrap() {
            nix::unistd::close(writer.as_raw_fd()).unwrap();
            let _ = std::io::Read::read(&mut &reader, &mut [0]);
            drop(kept);
            // SAFETY: as in `in_a_child`.
            unsafe { nix::libc::_exit(0) }
        }
        let _guard = std::mem::ManuallyDrop::new(locks.lock("a").acquire().unwrap());
        true
    }));
    let locks = Locks::connect(&url).unwrap();
    assert!(locks.lock("a").try_acquire().unwrap().is_some(), "an old duplicate kept it");
    drop((reader, writer));
}

#[test]
fn what_an_engine_made_is_not_dropped_in_a_forked_child() {
    let distant = crate::distant::Distant::default();
    let locks = distant.locks();
    let held = lockkeeper::blocking::block_on(distant.locks().lock("busy").acquire()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let pending = locks.lock("busy");
    let mut wait: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(async move { pending.acquire().await.map(drop) });
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let mut parents = Some((wait, locks));
    let n_under_way = distant.wire.attempts.n_under_way();
    assert_eq!(n_under_way, 1);
    assert!(in_a_child(|| {
        drop(parents.take());
        distant.wire.attempts.n_under_way() == n_under_way
    }));
    let (wait, _locks) = parents.take().unwrap();
    drop(wait);
    drop(held);
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
