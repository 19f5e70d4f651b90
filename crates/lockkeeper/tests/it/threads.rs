//! When the system has no thread to spare.
#![cfg(target_os = "linux")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use lockkeeper::{
    ErrorKind, LONGEST_TTL,
    blocking::{Locks, block_on},
    event::{Event, Observer},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{
    distant::Distant,
    tools::{LONG, until},
};

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

/// Undoes that.
fn spare_threads_again() {
    let (_, most) = getrlimit(Resource::RLIMIT_AS).unwrap();
    setrlimit(Resource::RLIMIT_AS, most, most).unwrap();
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

/// What has happened to the key of a line.
#[derive(Clone, Default)]
struct Progress {
    is_waiting: Arc<AtomicBool>,
    is_granted: Arc<AtomicBool>,
}

impl Observer for Progress {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { .. } => self.is_waiting.store(true, Ordering::SeqCst),
            Event::Granted { key, .. } if key.as_str() == "a" => {
                self.is_granted.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

/// When the second in line comes.
#[derive(Clone, Copy)]
enum Comes {
    BeforeTheFirstWaits,
    AfterTheFirstWaits,
}

/// Runs in a process of its own: see [`a_wait_is_handed_over_when_there_is_a_thread_again`].
#[test]
fn the_part_of_the_process_that_has_threads_again() {
    if std::env::var(FOLDER).is_err() {
        return;
    }
    for second_comes in [Comes::BeforeTheFirstWaits, Comes::AfterTheFirstWaits] {
        hand_over_late(second_comes);
    }
    println!("they were handed over");
}

/// The first in line waits, and its task stands still; there is no thread for the errand when the second comes,
/// and one when the third comes.
fn hand_over_late(second_comes: Comes) {
    let (distant, progress) = (Distant::default(), Progress::default());
    let holder = block_on(distant.locks().lock("a").ttl(LONGEST_TTL).acquire()).unwrap();
    let locks = distant.locks_with(|it| it.answer_within(LONG).observe(progress.clone()));
    // The clock's thread is there from now on; the steward is not.
    let _other = block_on(locks.lock("b").ttl(LONGEST_TTL).acquire()).unwrap();
    let lock = locks.lock("a").ttl(LONGEST_TTL);
    let context = &mut Context::from_waker(Waker::noop());
    let [mut first, mut second, mut third] = [(); 3].map(|()| Box::pin(lock.acquire()));
    assert!(first.as_mut().poll(context).is_pending());
    spare_no_threads();
    if let Comes::BeforeTheFirstWaits = second_comes {
        assert!(second.as_mut().poll(context).is_pending());
    }
    // Its answer is there when it is looked for a second time.
    for _ in 0..5 {
        assert!(first.as_mut().poll(context).is_pending());
    }
    assert!(progress.is_waiting.load(Ordering::SeqCst));
    assert!(second.as_mut().poll(context).is_pending());
    spare_threads_again();
    assert!(third.as_mut().poll(context).is_pending());
    block_on(holder.release()).unwrap();
    until("a grant that nobody in line asks for", || progress.is_granted.load(Ordering::SeqCst));
}

#[test]
fn a_wait_is_handed_over_when_there_is_a_thread_again() {
    let folder = tempfile::tempdir().unwrap();
    let player = Player::start("the_part_of_the_process_that_has_threads_again", folder.path());
    assert!(player.says("they were handed over"));
}
