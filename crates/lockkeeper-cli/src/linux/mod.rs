//! Where the command stands while it waits and while its child runs (Linux).
//!
//! Three processes: the command, which takes and keeps the lock; the [`warden`], forked from it
//! before anything else; and the child, started by the warden. The command sleeps in one place,
//! on signals, on reports of the warden, and on the lock; it starts no thread for that.

mod bell;
mod descendants;
mod handle;
mod job;
mod launch;
mod orders;
mod outer;
mod process;
mod signals;
mod stat;
mod warden;

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use lockkeeper::{ErrorKind, Guard, Locks};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, raise},
        socket::{Shutdown, shutdown},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use self::{
    bell::Bell,
    orders::{NotStarted, Order, Received},
    outer::Outer,
    process::Side,
    signals::{Meaning, Sender, Signals},
    warden::Task,
};
use crate::{
    args::{Hold, OnLoss},
    exit::{Exit, Failure},
    message,
    run::{Ending, silent},
};

pub(crate) use self::signals::survive_broken_pipes;

/// The post of the command: a warden beside it, signals in its hands.
#[derive(Debug)]
pub(crate) struct Post {
    channel: OwnedFd,
    warden: Pid,
    family: process::Family,
    signals: Signals,
    bell: Arc<Bell>,
}

impl Post {
    /// Takes signals into our hands and forks the warden. No thread may exist yet.
    pub(crate) fn set_up(url: Option<&str>, hold: &Hold) -> Result<Self, Failure> {
        let set_up = || -> nix::Result<Self> {
            let (signals, started_with) = Signals::take()?;
            let family = process::become_reaper()?;
            let (ours, theirs) = orders::channel()?;
            match process::fork()? {
                Side::Warden { command } => {
                    drop(ours);
                    warden::serve(&theirs, command, Task { url, hold, started_with })
                }
                Side::Command { warden } => {
                    let bell = Arc::new(Bell::new()?);
                    Ok(Self { channel: ours, warden, family, signals, bell })
                }
            }
        };
        set_up().map_err(|error| Failure::system("start the warden", error))
    }

    /// Fails if a run around this one holds the key: it ends after us, so we would wait for ever.
    pub(crate) fn check_outer_runs(
        &self,
        locks: &Locks,
        url: Option<&str>,
        key: &str,
        limit: Option<Duration>,
    ) -> Result<(), Failure> {
        let outer = Outer::all_with(key);
        if outer.is_empty() {
            return Ok(());
        }
        let who = self.wait_at_most(limit, locks.who(key))?;
        let who = who.ok_or_else(|| silent(key, &locks.place()))?;
        match outer.iter().find(|outer| outer.holds(url, &who)) {
            None => Ok(()),
            Some(Outer { pid, .. }) => {
                let message = format!(
                    "{key:?} is held by the run this one is part of (pid {pid}), which ends only after \
                     this one; run the command without lockkeeper, or under another key"
                );
                Err(Failure::new(Exit::Refused, message))
            }
        }
    }

    /// Drives `work` to its end, unless a signal ends us first; then `work` is dropped.
    pub(crate) fn wait_for<F: Future>(&self, work: F) -> Result<F::Output, Failure> {
        let mut work = pin!(work);
        loop {
            match self.drive(work.as_mut())? {
                Driven::Done(output) => return Ok(output),
                Driven::Halted => halt(),
            }
        }
    }

    /// The same for so long at most; nothing, if the time was over first. Without a limit it is `wait_for`.
    pub(crate) fn wait_at_most<F: Future>(
        &self,
        limit: Option<Duration>,
        work: F,
    ) -> Result<Option<F::Output>, Failure> {
        let mut work = pin!(work);
        let waker = Waker::from(self.bell.clone());
        let end_at = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(Some(output));
            }
            let rest = end_at.map(|at| at.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return Ok(None);
            }
            self.sleep(rest)?;
            if let Told::Stop = self.obey_signals()? {
                halt();
            }
        }
    }

    /// Drives what `join` begins: a wait in line, which is left before we stop, because a place in line
    /// whose owner is stopped halts all behind it. It begins again when we go on.
    pub(crate) fn wait_in_line<F: Future>(
        &self,
        locks: &Locks,
        mut join: impl FnMut() -> F,
    ) -> Result<F::Output, Failure> {
        loop {
            // Not in the match: what was begun must be gone before we leave the line.
            let driven = self.drive(pin!(join()))?;
            match driven {
                Driven::Done(output) => return Ok(output),
                Driven::Halted => {
                    self.see_through(locks.settle())?;
                    // Whoever told us to go on meanwhile would not tell us again.
                    if !self.is_told_to_go_on()? {
                        halt();
                    }
                }
            }
        }
    }

    /// Drives `work` until it is done, or until we are to stop; an end is a failure.
    fn drive<F: Future>(&self, mut work: Pin<&mut F>) -> Result<Driven<F::Output>, Failure> {
        let waker = Waker::from(self.bell.clone());
        loop {
            if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(Driven::Done(output));
            }
            self.sleep(None)?;
            if let Told::Stop = self.obey_signals()? {
                return Ok(Driven::Halted);
            }
        }
    }

    /// Drives `work` to its end; signals wait.
    pub(crate) fn see_through<F: Future>(&self, work: F) -> Result<F::Output, Failure> {
        let mut work = pin!(work);
        let waker = Waker::from(self.bell.clone());
        loop {
            if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(output);
            }
            self.sleep_on(&[self.bell.as_fd()], None)?;
        }
    }

    /// Has the warden run the command of `hold`, and watches over it until it has ended.
    pub(crate) fn run(&self, locks: &Locks, guard: &Guard, hold: &Hold) -> Result<Ending, Failure> {
        // What came while we asked for the lock is for us: there is no child yet.
        while let Told::Stop = self.obey_signals()? {
            halt();
        }
        let lock = descriptor_of(guard)?;
        self.tell(Order::Start { fence: guard.fence() }, lock.as_ref());
        drop(lock);

        let waker = Waker::from(self.bell.clone());
        let mut lost = pin!(guard.lost());
        let mut hold_is = HoldIs::Standing;
        loop {
            let attend_in = locks.attend();
            if hold_is == HoldIs::Standing
                && let Poll::Ready(loss) = lost.as_mut().poll(&mut Context::from_waker(&waker))
            {
                message::say(&format!("lost {:?}: {loss}", hold.key));
                hold_is = self.react_to_loss(hold);
            }
            if let Some(ending) = self.ending() {
                return Ok(match (hold_is, ending) {
                    (HoldIs::Lost, Ending::Ended(_)) => Ending::Lost,
                    (HoldIs::Given, Ending::Ended(status)) => Ending::EndedAfterLoss(status),
                    (_, ending) => ending,
                });
            }
            self.sleep(attend_in)?;
            self.pass_signals_on()?;
        }
    }

    /// How it ended, if it has. The exit of the warden is its report: it takes one wake-up less
    /// than a message followed by an exit.
    fn ending(&self) -> Option<Ending> {
        match waitpid(self.warden, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => None,
            Ok(WaitStatus::Exited(_, status)) => match orders::receive::<NotStarted>(&self.channel)
            {
                Ok(Received::Message(NotStarted { errno }, _)) => Some(Ending::NotStarted(errno)),
                _ => Some(Ending::Ended(status.to_le_bytes()[0])),
            },
            Ok(_) | Err(_) => Some(Ending::WardenGone(self.family.end())),
        }
    }

    /// Hangs up and waits until the warden has ended, and with it whatever it guards.
    pub(crate) fn dismiss(&self) {
        // Errors say that it is gone already. A zombie would stay behind wherever nobody reaps.
        let _ = shutdown(self.channel.as_raw_fd(), Shutdown::Both);
        while waitpid(self.warden, None) == Err(Errno::EINTR) {}
    }

    fn react_to_loss(&self, hold: &Hold) -> HoldIs {
        let grace = match hold.on_loss {
            OnLoss::Ignore => return HoldIs::Given,
            OnLoss::Kill => Duration::ZERO,
            OnLoss::Term => hold.grace,
        };
        self.tell(Order::Stop { grace }, None);
        HoldIs::Lost
    }

    /// Sleeps until a signal, the bell, or the end of the pause. The end of the warden comes as a
    /// signal too.
    fn sleep(&self, pause: Option<Duration>) -> Result<(), Failure> {
        self.sleep_on(&[self.signals.as_fd(), self.bell.as_fd()], pause)
    }

    fn sleep_on(&self, fds: &[BorrowedFd<'_>], pause: Option<Duration>) -> Result<(), Failure> {
        let mut waits: Vec<PollFd<'_>> =
            fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
        let pause = pause.map_or(PollTimeout::NONE, |pause| {
            // Rounded up, so that it does not wake just before the time again and again.
            PollTimeout::try_from(pause.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut waits, pause) {
            Ok(_) | Err(Errno::EINTR) => {
                self.bell.silence();
                Ok(())
            }
            Err(error) => Err(Failure::system("wait for events", error)),
        }
    }

    /// While there is no child, signals are for us.
    fn obey_signals(&self) -> Result<Told, Failure> {
        while let Some(came) = self.signals.next()? {
            match came.meaning() {
                Meaning::End => return Err(Failure::interrupted(came.number())),
                Meaning::Stop => return Ok(Told::Stop),
                Meaning::Nothing => {}
            }
        }
        Ok(Told::Nothing)
    }

    /// Whether the word to go on has come, after the one to stop.
    fn is_told_to_go_on(&self) -> Result<bool, Failure> {
        let mut goes_on = false;
        while let Some(came) = self.signals.next()? {
            match came.meaning() {
                Meaning::End => return Err(Failure::interrupted(came.number())),
                Meaning::Stop => goes_on = false,
                Meaning::Nothing => goes_on |= came.signal() == Signal::SIGCONT,
            }
        }
        Ok(goes_on)
    }

    /// What a process sent is for the child. What the terminal sent went to the whole process
    /// group: the child has it already, unless it was not there yet.
    fn pass_signals_on(&self) -> Result<(), Failure> {
        while let Some(came) = self.signals.next()? {
            match came.sender(self.warden) {
                Sender::Process => self.tell(Order::Pass(came.signal()), None),
                Sender::Terminal => self.tell(Order::MakeUpFor(came.signal()), None),
                // It tells us to go on because the child does: the child needs no second word,
                // which could come after somebody has stopped it again.
                Sender::Warden => {}
            }
        }
        Ok(())
    }

    /// A warden that cannot be told is gone, and the next look at it says so.
    fn tell(&self, order: Order, lock: Option<&OwnedFd>) {
        let _ = orders::send(&self.channel, &order, lock);
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// How far work has come.
#[derive(Debug)]
enum Driven<T> {
    Done(T),
    /// We are to stop first.
    Halted,
}

/// What signals ask of a command that has no child yet, apart from ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Stop,
}

/// Stops this process until it is told to go on. The shell waits for that; our own mask keeps SIGTSTP
/// from doing it.
fn halt() {
    // It cannot fail: the signal exists, and so do we.
    let _ = raise(Signal::SIGSTOP);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldIs {
    Standing,
    /// Lost, and the child is being stopped.
    Lost,
    /// Lost, and the user said never mind.
    Given,
}

/// The descriptor that holds the lock, if the engine has one.
fn descriptor_of(guard: &Guard) -> lockkeeper::Result<Option<OwnedFd>> {
    const PAUSE: Duration = Duration::from_millis(1);
    const N_TRIES: u32 = 1_000;
    for _ in 1..N_TRIES {
        match guard.descriptor() {
            // Out of hand for the moment of a renewal.
            Err(error) if error.kind() == ErrorKind::Other => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
    guard.descriptor()
}
