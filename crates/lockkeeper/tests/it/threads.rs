//! When the system has no thread to spare.
#![cfg(target_os = "linux")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use lockkeeper::{ErrorKind, blocking::Locks};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::tools::{LONG, until};

/// Names the folder of locks in the process that has no room for another thread.
const FOLDER: &str = "LOCKKEEPER_TEST_NO_THREADS";

/// A stack as small as those of the threads that wait for files.
const SMALL_STACK: usize = 256 * 1024;

/// Leaves this process room for small things, not for the stack of another thread.
fn spare_no_threads() {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let (_, most) = getrlimit(Resource::RLIMIT_AS).unwrap();
    setrlimit(Resource::RLIMIT_AS, pages * 4096 + 1024 * 1024, most).unwrap();
    let small = || {
        thread::Builder::new().stack_size(SMALL_STACK).spawn(|| {
            loop {
                thread::park();
            }
        })
    };
    let n_more = (0..100).take_while(|_| small().is_ok()).count();
    assert!(n_more < 100, "there is room for threads, so this shows nothing");
}

fn locks_in(folder: &Path) -> Locks {
    Locks::connect(&format!("file://{}", folder.display())).unwrap()
}

/// A process of its own that plays this part, and what it says.
struct Player {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Player {
    fn start(part: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("threads::{part}"), "--nocapture", "--test-threads", "1"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let lines = stdout.lines().map_while(std::result::Result::ok);
            lines.for_each(|line| drop(say.send(line)));
        });
        Self { child, said }
    }

    /// Whether it says so, in the end.
    fn says(&self, what: &str) -> bool {
        let said = std::iter::from_fn(|| self.said.recv_timeout(LONG).ok());
        said.into_iter().any(|line| line.contains(what))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs in a process of its own: see [`without_threads_one_who_waits_is_told_and_keeps_no_place`].
#[test]
fn the_part_of_the_process_without_threads() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let locks = locks_in(folder.as_ref());
    spare_no_threads();
    for limit in [None, Some(LONG)] {
        let lock = locks.lock("a");
        let error = limit.map_or_else(|| lock.acquire(), |limit| lock.acquire_within(limit));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        // The message says what happened to what.
        assert!(
            error.to_string().starts_with("cannot take \"a\" on file: cannot start"),
            "{error}"
        );
    }
    assert!(locks.lock("a").try_acquire().unwrap().is_none(), "one attempt needs no thread");
    println!("it was told");
    // It goes on living: nobody else may depend on its end.
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn without_threads_one_who_waits_is_told_and_keeps_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let locks = locks_in(folder.path());
    let guard = locks.lock("a").acquire().unwrap();
    let player = Player::start("the_part_of_the_process_without_threads", folder.path());
    assert!(player.says("it was told"));
    drop(guard);
    let served = locks_in(folder.path()).lock("a").acquire_within(Duration::from_secs(5));
    assert!(served.is_ok(), "{served:?}");
}

/// Runs in a process of its own: see [`without_a_thread_of_its_own_a_wait_asks_now_and_then`].
#[test]
fn the_part_of_the_process_with_one_waiting_thread() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let locks = locks_in(folder.as_ref());
    let other = locks.lock("b");
    thread::spawn(move || other.acquire_within(10 * LONG).map(drop));
    until("the other one to wait", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).any(|name| name.trim() == "lockkeeper-wait")
    });
    spare_no_threads();
    println!("it waits");
    let guard = locks.lock("a").acquire().unwrap();
    assert!(guard.is_held());
    println!("it was served");
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn without_a_thread_of_its_own_a_wait_asks_now_and_then() {
    let folder = tempfile::tempdir().unwrap();
    let locks = locks_in(folder.path());
    let [guard, _other] = ["a", "b"].map(|key| locks.lock(key).acquire().unwrap());
    let player = Player::start("the_part_of_the_process_with_one_waiting_thread", folder.path());
    assert!(player.says("it waits"));
    until("it to stand in line", || !locks.who("a").unwrap().line.is_empty());
    drop(guard);
    // One who is in line already is asked long before the pause of those who are told.
    let start = std::time::Instant::now();
    assert!(player.says("it was served"));
    assert!(start.elapsed() < Duration::from_secs(5), "it hung for {:?}", start.elapsed());
}
