//! A folder of its own for every test, and what is needed to watch processes.

use std::{
    ffi::OsStr,
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// Long enough for any machine; only a hang takes it.
const HANG: Duration = Duration::from_secs(60);

/// Waits until `done`, or fails saying what did not happen.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + HANG;
    while !done() {
        assert!(Instant::now() < give_up_at, "waited in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// The command under test.
pub(crate) const LOCKKEEPER: &str = env!("CARGO_BIN_EXE_lockkeeper");

/// A program to be started, as if nobody had ignored a signal or set a variable of ours before. All
/// programs of these tests are started so: what is ignored is inherited, and `lockkeeper` keeps to it.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in ["LOCKKEEPER_URL", "LOCKKEEPER_URL_FROM", "LOCKKEEPER_HELD"] {
        command.env_remove(name);
    }
    lab::with_default_signals(&mut command);
    command
}

/// The command, a child in the background, one that left by a new session and a double fork, and one
/// in the foreground, where most scripts work.
const FAMILY: &str = "\
    echo $$ >> pids
    sh member.sh &
    setsid sh -c '(sh member.sh &)'
    sh member.sh
    touch went-on";
pub(crate) const N_MEMBERS: usize = 4;
const MEMBER: &str = "echo $$ >> pids; exec sleep 600";

/// Says which members still run, and that it looked.
const LOOK: &str = "\
    for pid in $(cat pids); do
        grep -qE '^State:.[^ZX]' /proc/$pid/status 2> /dev/null && echo $pid >> alive
    done
    touch looked";

/// A place with locks of its own.
pub(crate) struct Place {
    folder: TempDir,
    url: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().join("locks").display());
        Self { folder, url }
    }

    /// A place whose locks are somewhere else.
    pub(crate) fn with_locks_at(url: String) -> Self {
        Self { url, ..Self::new() }
    }

    /// A place with a command of several processes, and with one that looks whether they have ended.
    pub(crate) fn with_family() -> Self {
        let place = Self::new();
        for (name, text) in [("family.sh", FAMILY), ("member.sh", MEMBER), ("look.sh", LOOK)] {
            place.write(name, text);
        }
        place
    }

    /// Waits until so many processes have said that they run.
    pub(crate) fn until_at_work(&self, n_members: usize) {
        until("all are at work", || self.pids("pids").len() == n_members);
    }

    /// Checks that `look.sh` ran while it had the lock, and that all had ended before.
    pub(crate) fn nobody_was_seen(&self) {
        assert!(self.path("looked").exists());
        assert_eq!(self.read("alive"), "", "of {:?}", self.pids("pids"));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// The command in this place.
    pub(crate) fn lockkeeper(&self, args: &[&str]) -> Command {
        let mut command = command(LOCKKEEPER);
        command.args(["--url", &self.url]).args(args);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// The same from a shell: `exec "$0" "$@"` in the script becomes the command.
    pub(crate) fn in_shell(&self, script: &str, args: &[&str]) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script, LOCKKEEPER, "--url", &self.url]).args(args);
        shell.current_dir(self.folder.path()).stdin(Stdio::null());
        shell
    }

    /// Runs it to its end.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.lockkeeper(args).output().unwrap()
    }

    /// Starts `run KEY -- sh -c SCRIPT`; the script's `touch started` is waited for.
    pub(crate) fn start(&self, options: &[&str], script: &str) -> Running {
        let running = self.spawn(&[&["run"], options, &["k", "--", "sh", "-c", script]].concat());
        until("the command has started", || self.path("started").exists());
        running
    }

    /// A command that is running, in a process group of its own. Where there is no job control, the
    /// group of the tests has nobody who could let it go on, and the kernel does not stop such a one.
    pub(crate) fn spawn_as_job(&self, args: &[&str]) -> Running {
        let mut command = self.lockkeeper(args);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        let mut command = self.lockkeeper(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running(Some(child))
    }

    /// What a script wrote here; nothing, if it did not.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The numbers a script wrote here, one per line.
    pub(crate) fn pids(&self, name: &str) -> Vec<i32> {
        self.read(name).lines().map(|line| line.parse().unwrap()).collect()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Takes the file of the only key away behind the holder's back.
    pub(crate) fn remove_lock_file(&self) {
        let files = fs::read_dir(self.path("locks")).unwrap().map(|entry| entry.unwrap());
        let of_key = |name: &str| name.starts_with('k');
        let mut files = files.filter(|file| of_key(file.file_name().to_str().unwrap()));
        fs::remove_file(files.next().unwrap().path()).unwrap();
    }

    /// Whether the key is held right now.
    pub(crate) fn is_busy(&self) -> bool {
        match code(&self.output(&["try", "k", "--", "true"])) {
            0 => false,
            75 => true,
            other => panic!("try ended with {other}"),
        }
    }

    /// Waits until `n` stand in line for the key.
    pub(crate) fn until_waiting(&self, n: usize) {
        until("the line has grown", || self.n_waiting() == n);
    }

    pub(crate) fn n_waiting(&self) -> usize {
        let who = self.output(&["who", "k"]);
        let who = String::from_utf8(who.stdout).unwrap();
        who.lines().filter(|line| line.starts_with("waits")).count()
    }
}

/// A `lockkeeper` in the background; killed, with its child, when the test leaves it.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id().try_into().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub(crate) fn end(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

pub(crate) fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Whether a process runs; one that has ended and was not yet asked for its status does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

pub(crate) fn is_stopped(pid: i32) -> bool {
    state(pid).is_some_and(|(state, _)| state == 'T')
}

pub(crate) fn children_of(parent: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap();
    let pids = pids.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|&pid| state(pid).is_some_and(|(_, its)| its == parent)).collect()
}

/// The state letter and the parent of a process.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// The exit code; death by a signal fails the test.
pub(crate) fn code(output: &Output) -> i32 {
    assert_eq!(output.status.signal(), None, "{output:?}");
    output.status.code().unwrap()
}

/// Checks that it ended with `expected`, said one line on stderr, and nothing on stdout.
pub(crate) fn fails_with(expected: i32, output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(code(output), expected, "{said}");
    assert_eq!(output.stdout, b"", "{said}");
    assert!(said.starts_with("lockkeeper: ") && said.ends_with('\n'), "{said:?}");
    assert_eq!(said.lines().count(), 1, "{said:?}");
    assert!(!said.contains("panicked"), "{said:?}");
    said
}
