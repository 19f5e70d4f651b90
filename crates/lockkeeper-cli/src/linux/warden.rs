//! The warden: starts the child, and lets nothing of it outlive the command or the lock.
//!
//! It is forked before anything else, has one thread, and knows nothing of locks. It holds a copy
//! of the lock's descriptor, where there is one, so the kernel frees the lock only after the
//! warden has ended. When the command hangs up, however it died, the warden first kills the child
//! and all its descendants: as child subreaper it is the parent of every orphan among them.
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
    unistd::{Pid, getpid, getppid},
};

use super::{
    descendants,
    launch::Launch,
    orders::{self, NotStarted, Order, Received},
    process::{self, Reaped, StartedWith},
};
use crate::{
    args::Hold,
    run::{FENCE, child_of},
};

/// The life of the warden. It exits with the status of the child.
pub(super) fn serve(channel: &OwnedFd, command: Pid, hold: &Hold, started_with: StartedWith) -> ! {
    match wait_for_start(channel, command, hold, started_with) {
        Ok(status) => process::leave(status),
        Err(_) => {
            // Nothing was started, and no status can say so: only a signal does.
            let _ = kill(getpid(), Signal::SIGKILL);
            process::leave(KILLED)
        }
    }
}

fn wait_for_start(
    channel: &OwnedFd,
    command: Pid,
    hold: &Hold,
    started_with: StartedWith,
) -> nix::Result<u8> {
    // Only the command's end may end us.
    SigSet::all().thread_block()?;
    prctl::set_child_subreaper(true)?;
    let family = SignalFd::with_flags(
        &SigSet::from(Signal::SIGCHLD),
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?;
    // While the command takes the lock. A zero inside a word cannot come from a command line.
    let mut launch = Launch::new(&child_of(hold)).map_err(|_| Errno::EINVAL)?;
    sleep(&[channel.as_fd()], None)?;
    let Received::Message(Order::Start { fence }, lock) = orders::receive(channel)? else {
        return Ok(0);
    };
    launch.add(FENCE, fence).map_err(|_| Errno::EINVAL)?;
    match process::start(&launch, started_with) {
        Err(error) => {
            orders::send(channel, &NotStarted { errno: error as i32 }, None)?;
            Ok(0)
        }
        Ok(child) => {
            let child_is = ChildIs::Starting;
            let watch = Watch { channel, family, command, child, child_is, stop: None };
            Ok(watch.keep(lock))
        }
    }
}

/// What the warden watches while the child runs.
#[derive(Debug)]
struct Watch<'a> {
    channel: &'a OwnedFd,
    family: SignalFd,
    command: Pid,
    child: Pid,
    child_is: ChildIs,
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildIs {
    /// It runs, but orders may wait that were given before it did.
    Starting,
    Running,
}

/// The child is being stopped.
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

const KILLED: u8 = 128 + libc::SIGKILL as u8;

impl Watch<'_> {
    /// Watches until there is nothing left to watch; answers the child's status. The lock is
    /// kept as long.
    fn keep(mut self, _lock: Option<OwnedFd>) -> u8 {
        loop {
            if let Command::HungUp = self.obey() {
                return self.end_all();
            }
            self.child_is = ChildIs::Running;
            let kill_at = self.stop.and_then(|stop| stop.kill_at);
            let fds = [self.channel.as_fd(), self.family.as_fd()];
            if sleep(&fds, kill_at).is_err() || kill_at.is_some_and(|at| at <= Instant::now()) {
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
                Ok(Received::Message(Order::Pass(signal), _)) => self.pass(signal),
                Ok(Received::Message(Order::MakeUpFor(signal), _)) => {
                    if self.child_is == ChildIs::Starting {
                        self.pass(signal);
                    }
                }
                Ok(Received::Message(Order::Stop { grace }, _)) => self.stop(grace),
                Ok(Received::Message(Order::Start { .. }, _) | Received::HangUp) | Err(_) => {
                    return Command::HungUp;
                }
            }
        }
    }

    fn end_all(&self) -> u8 {
        descendants::end_all();
        self.stop.and_then(|stop| stop.status).unwrap_or(KILLED)
    }

    fn reap(&mut self) -> Left {
        // The signal says only that there is something to ask for.
        while let Ok(Some(_)) = self.family.read_signal() {}
        loop {
            match (process::reap(), &mut self.stop) {
                (Reaped::Ended(pid, status), None) if pid == self.child => {
                    return Left::Nobody { status };
                }
                (Reaped::Ended(pid, status), Some(stop)) if pid == self.child => {
                    stop.status = Some(status);
                }
                (Reaped::Stopped(pid, by), _) if pid == self.child => self.stop_command(by),
                (Reaped::Continued(pid), _) if pid == self.child => {
                    self.signal_command(Signal::SIGCONT);
                }
                // Orphans: we are only here to end them, not to tell of them.
                (Reaped::Ended(..) | Reaped::Stopped(..) | Reaped::Continued(..), _) => {}
                (Reaped::Nothing, _) => return Left::Somebody,
                (Reaped::NoChildren, stop) => {
                    let status = stop.and_then(|stop| stop.status).unwrap_or(KILLED);
                    return Left::Nobody { status };
                }
            }
        }
    }

    /// A shell looks at the command, not at the child: when job control stops the child, the
    /// command must stop too. It does not stop by itself, because only the warden knows in which
    /// order the child stopped and went on.
    fn stop_command(&self, by: i32) {
        if [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&by) {
            self.signal_command(Signal::SIGSTOP);
        }
    }

    fn signal_command(&self, signal: Signal) {
        if getppid() == self.command {
            // It may have ended just now; then it needs no signal.
            let _ = kill(self.command, signal);
        }
    }

    fn pass(&self, signal: Signal) {
        if self.stop.is_none_or(|stop| stop.status.is_none()) {
            // Not reaped yet, so the number is still its own, and the signal can only be allowed
            // or not.
            let _ = kill(self.child, signal);
        }
    }

    fn stop(&mut self, grace: Duration) {
        let kill_at = Instant::now().checked_add(grace);
        self.stop = Some(Stop { kill_at, status: None });
        if grace.is_zero() {
            return;
        }
        for pid in descendants::of(getpid()).unwrap_or_default() {
            // Whoever is stopped must go on to see it.
            let _ = kill(pid, Signal::SIGTERM).and_then(|()| kill(pid, Signal::SIGCONT));
        }
    }
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
