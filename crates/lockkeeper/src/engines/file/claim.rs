//! One contender at a key file, from its first attempt to its release.

use std::{future::pending, os::fd::OwnedFd, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    MAX_OPENINGS, Shared, failed,
    holds::{FIRST_CHECK, Kept},
    open_file::{Found, OpenFile, numbers::Taken},
    queue::{
        self,
        crew::Way,
        ranges::{PLACES, Tried, give_back},
        wait::{Ending, Wait, Work},
    },
};
use crate::engine::{
    Attempt, Claim, Grant, Lease, Moment, Order, Patience, Released, Request, Standing,
    error::Result,
};

/// How soon to ask again when somebody is in the middle of a short step.
const ASK_SOON: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct FileClaim {
    shared: Arc<Shared>,
    request: Request,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Away,
    InLine(InLine),
    Waiting(Arc<Wait>),
    Held(Hold),
}

#[derive(Debug)]
struct InLine {
    file: Box<OpenFile>,
    /// None while the gate is busy.
    place: Option<u64>,
    /// None before the first answer.
    way: Option<Way>,
}

#[derive(Debug)]
struct Hold {
    file: Box<OpenFile>,
    fence: u64,
    n_fences: u32,
    granted_at: Moment,
    is_recorded: bool,
    /// None before the first check: most holds are over by then.
    kept: Option<Kept>,
}

impl Hold {
    /// Whether its file was removed or replaced, as far as that is looked at. One more system call would be felt by
    /// those who hold a lock for microseconds, so only a hold that was checked before is looked at.
    fn is_gone(&self) -> bool {
        // A look that fails says nothing about the lock.
        self.kept.is_some() && self.file.is_at_path().is_ok_and(|is_ours| !is_ours)
    }
}

impl FileClaim {
    pub(super) fn new(shared: Arc<Shared>, request: Request) -> Self {
        Self { shared, request, stage: Stage::Away }
    }

    fn ask(&mut self, now: Moment) -> Result<Attempt> {
        match std::mem::replace(&mut self.stage, Stage::Away) {
            Stage::Away => self.come(now),
            Stage::InLine(mut in_line) => {
                if in_line.file.is_in_place(now)? {
                    self.step_up(in_line, now)
                } else {
                    // Its line leads nowhere any more.
                    self.come(now)
                }
            }
            Stage::Waiting(wait) => match wait.ending() {
                None => {
                    self.stage = Stage::Waiting(wait);
                    Ok(busy(None))
                }
                Some(Ending::Won(file)) => self.settle(file, now),
                Some(Ending::Stopped(file)) => {
                    file.unlock()?;
                    self.come_with(file, now)
                }
                Some(Ending::Failed(error)) => Err(error),
            },
            Stage::Held(hold) => {
                let attempt = granted(hold.fence, hold.n_fences);
                self.stage = Stage::Held(hold);
                Ok(attempt)
            }
        }
    }

    fn come(&mut self, now: Moment) -> Result<Attempt> {
        let file = match self.shared.pool.take(&self.request.key) {
            Some(file) => file,
            None => self.shared.open(&self.request.key, now)?,
        };
        self.come_with(file, now)
    }

    /// The quick way: lock, look, take a number.
    fn come_with(&mut self, mut file: Box<OpenFile>, now: Moment) -> Result<Attempt> {
        for _ in 0..MAX_OPENINGS {
            let is_ahead = match file.try_lock()? {
                Tried::Taken => match file.look(self.request.order, now)? {
                    Found::Ready => return self.hold(file, now),
                    Found::Line => {
                        file.unlock()?;
                        true
                    }
                    Found::Gone => false,
                },
                Tried::Busy => file.is_in_place(now)?,
            };
            if is_ahead {
                return self.wait_or_leave(file, now);
            }
            // Closed before it is opened anew: it may not be locked while we look at the other.
            drop(file);
            file = self.shared.open(&self.request.key, now)?;
        }
        Ok(busy(Some(ASK_SOON)))
    }

    fn wait_or_leave(&mut self, mut file: Box<OpenFile>, now: Moment) -> Result<Attempt> {
        if self.request.patience == Patience::Tries {
            self.shared.keep(file);
            return Ok(busy(None));
        }
        if !file.may_be_joined()? {
            self.shared.keep(file);
            return Ok(busy(Some(ASK_SOON)));
        }
        self.step_up(InLine { file, place: None, way: None }, now)
    }

    /// Joins the line if we are not in it, and takes the lock if it is our turn.
    fn step_up(&mut self, mut in_line: InLine, now: Moment) -> Result<Attempt> {
        if in_line.place.is_none() {
            let joined = queue::join(in_line.file.file());
            in_line.place = joined.map_err(|error| failed("join the line", error))?;
        }
        if self.is_our_turn(&in_line)? && in_line.file.try_lock()? == Tried::Taken {
            give_back(in_line.file.file(), PLACES)
                .map_err(|errno| failed("leave the line", errno.into()))?;
            return self.settle(in_line.file, now);
        }
        let way = self.shared.crew.way(in_line.way.take());
        let retry_in = way.retry_in();
        in_line.way = Some(way);
        self.stage = Stage::InLine(in_line);
        Ok(busy(retry_in))
    }

    fn is_our_turn(&self, in_line: &InLine) -> Result<bool> {
        match in_line.place {
            _ if self.request.order == Order::Barging => Ok(true),
            None => Ok(false),
            Some(place) => {
                let before = queue::before(in_line.file.file(), place);
                Ok(before.map_err(|errno| failed("look at the line", errno.into()))?.is_none())
            }
        }
    }

    /// The lock was won in line: all that is left is a number.
    fn settle(&mut self, mut file: Box<OpenFile>, now: Moment) -> Result<Attempt> {
        match file.look(Order::Barging, now)? {
            Found::Ready => self.hold(file, now),
            // Its line is no more either; come again.
            Found::Gone | Found::Line => Ok(busy(Some(Duration::ZERO))),
        }
    }

    fn hold(&mut self, mut file: Box<OpenFile>, now: Moment) -> Result<Attempt> {
        let request = &self.request;
        let taken = self.shared.with_descriptors(|| file.take_number(request, now))?;
        let Taken { fence, n_fences, is_recorded } = taken;
        let hold = Hold { file, fence, n_fences, granted_at: now, is_recorded, kept: None };
        self.stage = Stage::Held(hold);
        Ok(granted(fence, n_fences))
    }

    /// Lets a thread wait for us, if we have a right to one. Answers whether all is as the last answer
    /// said: a claim that cannot have a thread must say so, or it would be asked too late.
    fn start_waiting(&mut self) -> bool {
        match std::mem::replace(&mut self.stage, Stage::Away) {
            Stage::InLine(InLine { file, place, way: Some(Way::Thread(permit)) }) => {
                self.stage = self.wait_by_thread(Work { file, place, permit });
                matches!(self.stage, Stage::Waiting(_))
            }
            other => {
                self.stage = other;
                true
            }
        }
    }

    fn wait_by_thread(&self, work: Work) -> Stage {
        let back_in_line = |Work { file, place, .. }| {
            Stage::InLine(InLine { file, place, way: Some(self.shared.crew.alone()) })
        };
        let blocking = self.shared.with_descriptors(|| work.file.duplicate());
        let Ok(blocking) = blocking else { return back_in_line(work) };
        let (folder, interrupt) = (Arc::clone(work.file.folder()), work.permit.interrupt());
        let wait = Arc::new(Wait::new(work, blocking, folder));
        match self.shared.crew.serve(&wait, interrupt) {
            Ok(()) => Stage::Waiting(wait),
            Err(_) => {
                Arc::into_inner(wait).and_then(Wait::into_work).map_or(Stage::Away, back_in_line)
            }
        }
    }

    fn check(&mut self, now: Moment) -> Result<Standing> {
        let Stage::Held(hold) = &mut self.stage else {
            return Ok(Standing::Lost("the lock is not held".into()));
        };
        if !hold.file.check_place(now)? {
            return Ok(Standing::Lost(format!(
                "its file was removed or replaced in {}; keep others from cleaning up there",
                hold.file.folder().path().display()
            )));
        }
        if !hold.is_recorded {
            // What `who` shows is no reason to give up a hold; the next check tries again.
            hold.is_recorded =
                hold.file.write_down(&self.request, hold.fence, hold.granted_at).is_ok();
        }
        let kept = hold.kept.get_or_insert_with(|| self.shared.holds.keep());
        Ok(Standing::Held(Lease::WithSession { check_every: kept.check_every() }))
    }
}

#[async_trait]
impl Claim for FileClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        self.shared.check_process()?;
        self.ask(now)
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        self.shared.check_process()?;
        self.check(now)
    }

    async fn release(&mut self, _now: Moment) -> Result<Released> {
        if self.shared.check_process().is_err() {
            return Ok(Released::Done);
        }
        if let Stage::Waiting(wait) = &self.stage {
            wait.stop()?;
            wait.ended().await;
        }
        let file = match std::mem::replace(&mut self.stage, Stage::Away) {
            Stage::Away => return Ok(Released::Done),
            Stage::InLine(in_line) => in_line.file,
            Stage::Held(hold) if hold.is_gone() => {
                hold.file.unlock()?;
                return Ok(Released::NotOurs);
            }
            Stage::Held(hold) => hold.file,
            Stage::Waiting(wait) => match wait.ending() {
                Some(Ending::Won(file) | Ending::Stopped(file)) => file,
                Some(Ending::Failed(_)) | None => return Ok(Released::Done),
            },
        };
        // If it fails the file is closed, which frees the lock as well.
        file.unlock()?;
        self.shared.keep(file);
        Ok(Released::Done)
    }

    async fn changed(&mut self) {
        if self.shared.check_process().is_ok() {
            if !self.start_waiting() {
                return;
            }
            if let Stage::Waiting(wait) = &self.stage {
                wait.ended().await;
                return;
            }
        }
        pending::<()>().await;
    }

    fn descriptor(&self) -> Result<Option<OwnedFd>> {
        self.shared.check_process()?;
        match &self.stage {
            Stage::Held(hold) => self.shared.with_descriptors(|| hold.file.hand_out()).map(Some),
            Stage::Away | Stage::InLine(_) | Stage::Waiting(_) => Ok(None),
        }
    }
}

impl Drop for FileClaim {
    fn drop(&mut self) {
        let is_child = self.shared.check_process().is_err();
        match std::mem::replace(&mut self.stage, Stage::Away) {
            // In a forked child these are the parent's, and their descriptors may be others by now.
            Stage::InLine(InLine { file, .. }) | Stage::Held(Hold { file, .. }) if is_child => {
                Box::leak(file);
            }
            Stage::Waiting(wait) if is_child => drop(Arc::into_raw(wait)),
            Stage::Waiting(wait) => wait.abandon(),
            Stage::Away | Stage::InLine(_) | Stage::Held(_) => {}
        }
    }
}

fn granted(fence: u64, n_fences: u32) -> Attempt {
    let lease = Lease::WithSession { check_every: FIRST_CHECK };
    Attempt::Granted(Grant { fence, n_fences, lease })
}

fn busy(retry_in: Option<Duration>) -> Attempt {
    Attempt::Busy { retry_in }
}
