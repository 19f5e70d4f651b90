//! The warden: starts the child, and lets nothing of it outlive the command or the lock.
//!
//! It is forked before anything else, has one thread, and knows nothing of locks. It holds a copy
//! of the lock's descriptor, where there is one, so the kernel frees the lock only after the
//! warden has ended. When the command hangs up, however it died, the warden first kills the child
//! and all its descendants: as child subreaper it is the parent of every orphan among them.
//!
//! When the child has ended by itself, what it left behind is no matter of the lock. When a signal
//! ended it, or it ended after one that asked it to, what it left is its work cut off in the middle:
//! the warden asks the rest to end too, kills them after the grace, and is there until none is left.
//!
//! The child and all its descendants inherit the descriptor: if command and warden are killed
//! together, the kernel keeps the lock for them.
//!
//! It stays in the process group of the command. A group of its own would survive `kill -9` of
//! the whole group, but would also make the kernel believe that job control goes on after the
//! shell has died.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::{Pid, getpid},
};

use super::{
    descendants,
    job::Job,
    launch::Launch,
    orders::{self, NotStarted, Order, Received},
    outer::Outer,
    process::{self, Reaped, StartedWith},
    signals::asks_to_end,
};
use crate::{
    args::Hold,
    passed_on::HELD,
    run::{FENCE, child_of},
};

/// What the warden is there for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    pub(super) url: Option<&'a str>,
    pub(super) hold: &'a Hold,
    pub(super) started_with: StartedWith,
}

/// The life of the warden. It exits with the status of the child.
pub(super) fn serve(channel: &OwnedFd, command: Pid, task: Task<'_>) -> ! {
    match wait_for_start(channel, command, task) {
        Ok(status) => process::leave(status),
        Err(_) => {
            // Nothing was started, and no status can say so: only a signal does.
            let _ = kill(getpid(), Signal::SIGKILL);
            process::leave(KILLED)
        }
    }
}

fn wait_for_start(channel: &OwnedFd, command: Pid, task: Task<'_>) -> nix::Result<u8> {
    let Task { url, hold, started_with } = task;
    // Only the command's end may end us.
    SigSet::all().thread_block()?;
    prctl::set_child_subreaper(true)?;
    let heard: SigSet =
        Signal::iterator().filter(|&s| s == Signal::SIGCHLD || asks_to_end(s)).collect();
    let signals = SignalFd::with_flags(&heard, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    // While the command takes the lock. A zero inside a word cannot come from a command line.
    let mut child = child_of(hold);
    child.env(HELD, Outer::new(command, url, &hold.key).variable());
    let mut launch = Launch::new(&child).map_err(|_| Errno::EINVAL)?;
    sleep(&[channel.as_fd()], None)?;
    let Received::Message(Order::Start { fence }, lock) = orders::receive(channel)? else {
        return Ok(0);
    };
    launch.add(FENCE, fence).map_err(|_| Errno::EINVAL)?;
    match process::start(&launch, started_with, lock.as_ref().map(AsFd::as_fd)) {
        Err(error) => {
            orders::send(channel, &NotStarted { errno: error as i32 }, None)?;
            Ok(0)
        }
        Ok(child) => {
            let watch = Watch {
                channel,
                signals,
                job: Job::new(command),
                child,
                child_is: ChildIs::Starting,
                ends: Ends::ByItself,
                grace: hold.grace,
                stop: None,
            };
            Ok(watch.keep(lock))
        }
    }
}

/// What the warden watches while the child runs.
#[derive(Debug)]
struct Watch<'a> {
    channel: &'a OwnedFd,
    signals: SignalFd,
    job: Job,
    child: Pid,
    child_is: ChildIs,
    ends: Ends,
    grace: Duration,
    stop: Option<Stop>,
}

/// What the end of the child means for those it leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    ByItself,
    /// It has had a signal that asks it to end.
    WhenAsked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildIs {
    /// It runs, but orders may wait that were given before it did.
    Starting,
    Running,
    /// Its status was asked for: the number may be another's by now.
    Gone,
}

/// The child and all its descendants are being stopped.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// When patience ends; never, for a grace beyond all clocks.
    kill_at: Option<Instant>,
    /// The child's status, if it has ended: others of its descendants may still run.
    status: Option<u8>,
}

/// Whether the command is there.
#[derive(Clone, Copy, Debug)]
enum Command {
    Listens,
    HungUp,
}

/// Who is left to be watched.
#[derive(Clone, Copy, Debug)]
enum Left {
    Somebody,
    Nobody { status: u8 },
}

/// How often to look for signals to a command that we stopped. Nothing wakes us when one comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const KILLED: u8 = 128 + libc::SIGKILL as u8;

impl Watch<'_> {
    /// Watches until there is nothing left to watch; answers the child's status. The lock is
    /// kept as long.
    fn keep(mut self, _lock: Option<OwnedFd>) -> u8 {
        loop {
            if let Command::HungUp = self.obey() {
                return self.end_all();
            }
            if self.child_is == ChildIs::Starting {
                self.child_is = ChildIs::Running;
            }
            self.job.go_on_if_asked_to_end();
            let kill_at = self.stop.and_then(|stop| stop.kill_at);
            let look_at = self.job.is_stopped().then(|| Instant::now() + LOOK_EVERY);
            let fds = [self.channel.as_fd(), self.signals.as_fd()];
            let wake_at = [kill_at, look_at].into_iter().flatten().min();
            if sleep(&fds, wake_at).is_err() || kill_at.is_some_and(|at| at <= Instant::now()) {
                return self.end_all();
            }
            if let Left::Nobody { status } = self.reap() {
                return status;
            }
        }
    }

    /// Takes all orders that wait.
    fn obey(&mut self) -> Command {
        loop {
            match orders::receive(self.channel) {
                Ok(Received::Nothing) => return Command::Listens,
                Ok(Received::Message(Order::Pass(signal), _)) => {
                    self.signal_child(signal);
                    self.end_when_asked(signal);
                }
                Ok(Received::Message(Order::MakeUpFor(signal), _)) => {
                    if self.child_is == ChildIs::Starting {
                        self.signal_child(signal);
                    }
                    self.end_when_asked(signal);
                }
                Ok(Received::Message(Order::Stop { grace }, _)) => {
                    self.stop(grace, None);
                    ask_all_to_end(grace);
                }
                Ok(Received::Message(Order::Start { .. }, _) | Received::HangUp) | Err(_) => {
                    return Command::HungUp;
                }
            }
        }
    }

    fn end_all(&mut self) -> u8 {
        self.job.go_on();
        descendants::end_all();
        self.stop.and_then(|stop| stop.status).unwrap_or(KILLED)
    }

    fn reap(&mut self) -> Left {
        self.hear();
        let mut is_left_alone = false;
        loop {
            let reaped = process::reap();
            if let Reaped::Ended(pid, _) | Reaped::Killed(pid, _) = reaped
                && pid == self.child
            {
                self.child_is = ChildIs::Gone;
                self.job.go_on();
            }
            match reaped {
                Reaped::Ended(pid, status) | Reaped::Killed(pid, status)
                    if pid == self.child && self.stop.is_some() =>
                {
                    self.stop(self.grace, Some(status));
                }
                Reaped::Ended(pid, status) if pid == self.child => {
                    // What the whole process group got, we got before the child could end of it.
                    self.hear();
                    if self.ends == Ends::ByItself {
                        return Left::Nobody { status };
                    }
                    self.stop(self.grace, Some(status));
                    is_left_alone = true;
                }
                Reaped::Killed(pid, status) if pid == self.child => {
                    self.stop(self.grace, Some(status));
                    is_left_alone = true;
                }
                Reaped::Stopped(pid, by) if pid == self.child => self.job.child_stopped(by),
                Reaped::Continued(pid) if pid == self.child => self.job.go_on(),
                // Orphans: we are only here to end them, not to tell of them.
                Reaped::Ended(..)
                | Reaped::Killed(..)
                | Reaped::Stopped(..)
                | Reaped::Continued(..) => {}
                Reaped::Nothing => {
                    if is_left_alone {
                        ask_all_to_end(self.grace);
                    }
                    return Left::Somebody;
                }
                Reaped::NoChildren => {
                    let status = self.stop.and_then(|stop| stop.status).unwrap_or(KILLED);
                    return Left::Nobody { status };
                }
            }
        }
    }

    /// Takes note of signals to the whole process group. That a child ended needs no note: it is
    /// asked for.
    fn hear(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            if let Ok(Ok(signal)) = i32::try_from(info.ssi_signo).map(Signal::try_from) {
                self.note(signal);
            }
        }
    }

    fn note(&mut self, signal: Signal) {
        if asks_to_end(signal) {
            self.ends = Ends::WhenAsked;
        }
    }

    /// The child has got this signal. If it asks the child to end, a stopped child must go on to see
    /// it; to one that runs, this is no news.
    fn end_when_asked(&mut self, signal: Signal) {
        self.note(signal);
        if asks_to_end(signal) {
            self.signal_child(Signal::SIGCONT);
        }
    }

    fn signal_child(&self, signal: Signal) {
        if self.child_is != ChildIs::Gone {
            // Not reaped yet, so the number is still its own, and the signal can only be allowed
            // or not.
            let _ = kill(self.child, signal);
        }
    }

    /// From now on all must end, within the shortest grace that was given.
    fn stop(&mut self, grace: Duration, status: Option<u8>) {
        let kill_at = Instant::now().checked_add(grace);
        let before = self.stop.unwrap_or(Stop { kill_at, status });
        let kill_at = [before.kill_at, kill_at].into_iter().flatten().min();
        self.stop = Some(Stop { kill_at, status: before.status.or(status) });
    }
}

/// Asks all descendants to end, if they have time to.
fn ask_all_to_end(grace: Duration) {
    if grace.is_zero() {
        return;
    }
    // Whoever is stopped must go on to see it. Without a process table, the grace is all they get.
    let _ = descendants::signal_all(&[Signal::SIGTERM, Signal::SIGCONT]);
}

/// Sleeps until one of `fds` has something to say, or until `at`.
fn sleep(fds: &[std::os::fd::BorrowedFd<'_>], at: Option<Instant>) -> nix::Result<()> {
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    let pause = match at {
        None => PollTimeout::NONE,
        Some(at) => {
            let rest = at.saturating_duration_since(Instant::now());
            // Rounded up, so that it does not wake just before the time again and again.
            PollTimeout::try_from(rest.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        }
    };
    match poll(&mut fds, pause) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error),
    }
}
