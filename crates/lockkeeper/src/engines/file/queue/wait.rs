//! One claim's wait, done by a thread that blocks in the kernel.

use std::{
    fs::File,
    future::poll_fn,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

use nix::errno::Errno;

use super::{
    before,
    crew::Permit,
    join_with_gate,
    ranges::{Bytes, GATE, LOCK, PLACES, give_back, take, watch},
};
use crate::{
    engine::error::{Error, Result},
    engines::file::{
        failed,
        folder::Folder,
        interrupt::{self, Interrupt, Thread},
        open_file::OpenFile,
    },
    tools::sync::{keep_waker, locked, wake},
};

/// A wait, shared by the claim and the thread that serves it.
#[derive(Debug)]
pub(in super::super) struct Wait {
    /// A duplicate of the file's descriptor, for the blocking calls alone: stopping replaces it.
    blocking: OwnedFd,
    folder: Arc<Folder>,
    interrupt: &'static Interrupt,
    is_stopped: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    waker: Option<Waker>,
    is_abandoned: bool,
}

#[derive(Debug)]
enum Stage {
    Asked(Work),
    Serving(Thread),
    Ended(Ending),
    Fetched,
}

/// What a thread is given.
#[derive(Debug)]
pub(in super::super) struct Work {
    pub(in super::super) file: Box<OpenFile>,
    /// Our place in line, or none yet because the gate was busy.
    pub(in super::super) place: Option<u64>,
    pub(in super::super) permit: Permit,
}

/// How a wait ended.
#[derive(Debug)]
pub(in super::super) enum Ending {
    /// The lock is ours, and our place is left.
    Won(Box<OpenFile>),
    /// As asked; some bytes may be ours still.
    Stopped(Box<OpenFile>),
    Failed(Error),
}

enum Halt {
    Stopped,
    Failed(io::Error),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

impl Wait {
    pub(in super::super) fn new(work: Work, blocking: OwnedFd, folder: Arc<Folder>) -> Self {
        Self {
            blocking,
            folder,
            interrupt: work.permit.interrupt(),
            is_stopped: AtomicBool::new(false),
            state: Mutex::new(State {
                stage: Stage::Asked(work),
                waker: None,
                is_abandoned: false,
            }),
        }
    }

    /// Takes the work back, because no thread could be had.
    pub(in super::super) fn into_work(self) -> Option<Work> {
        match self.state.into_inner().ok()?.stage {
            Stage::Asked(work) => Some(work),
            Stage::Serving(_) | Stage::Ended(_) | Stage::Fetched => None,
        }
    }

    /// Fetches the ending, once there is one.
    pub(in super::super) fn ending(&self) -> Option<Ending> {
        let mut state = locked(&self.state);
        match std::mem::replace(&mut state.stage, Stage::Fetched) {
            Stage::Ended(ending) => Some(ending),
            other => {
                state.stage = other;
                None
            }
        }
    }

    /// Ends when there is an ending to fetch.
    pub(in super::super) async fn ended(&self) {
        poll_fn(|context| {
            let state = locked(&self.state);
            if matches!(state.stage, Stage::Ended(_) | Stage::Fetched) {
                return Poll::Ready(());
            }
            keep_waker(state, |state| &mut state.waker, context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Makes the thread come to an end, which it tells in the usual way.
    pub(in super::super) fn stop(&self) -> Result<()> {
        self.is_stopped.store(true, Ordering::SeqCst);
        let state = locked(&self.state);
        if let Stage::Serving(thread) = state.stage {
            let replaced = interrupt::replace(&self.blocking, self.folder.blind());
            self.interrupt.send(thread);
            replaced.map_err(|errno| failed("stop waiting", errno.into()))?;
        }
        Ok(())
    }

    /// Leaves everything to the thread: it closes the file, which frees what it had of it.
    pub(in super::super) fn abandon(&self) {
        let ended = {
            let mut state = locked(&self.state);
            state.is_abandoned = true;
            match std::mem::replace(&mut state.stage, Stage::Fetched) {
                Stage::Ended(ending) => Some(ending),
                other => {
                    state.stage = other;
                    None
                }
            }
        };
        drop(ended);
        // Nobody is left to tell; a thread that cannot be stopped ends when its turn comes.
        let _ = self.stop();
    }

    /// The thread's part.
    pub(super) fn serve(&self, thread: Thread) {
        let Work { file, place, permit } = {
            let mut state = locked(&self.state);
            match std::mem::replace(&mut state.stage, Stage::Serving(thread)) {
                Stage::Asked(work) => work,
                other => {
                    state.stage = other;
                    return;
                }
            }
        };
        let ending = match self.stand_in_line(file.file(), place) {
            Ok(()) => Ending::Won(file),
            Err(Halt::Stopped) => Ending::Stopped(file),
            Err(Halt::Failed(error)) => Ending::Failed(failed("wait in line", error)),
        };
        drop(permit);
        let (waker, left_over) = {
            let mut state = locked(&self.state);
            let (stage, left_over) = if state.is_abandoned {
                (Stage::Fetched, Some(ending))
            } else {
                (Stage::Ended(ending), None)
            };
            state.stage = stage;
            (state.waker.take(), left_over)
        };
        drop(left_over);
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    fn stand_in_line(&self, file: &File, place: Option<u64>) -> std::result::Result<(), Halt> {
        let place = match place {
            Some(place) => place,
            None => {
                self.block(|| take(&self.blocking, GATE))?;
                join_with_gate(file)?
            }
        };
        while let Some(before) = before(file, place)? {
            self.block(|| watch(&self.blocking, Bytes::place(before)))?;
            give_back(file, Bytes::place(before))?;
        }
        self.block(|| take(&self.blocking, LOCK))?;
        // Only now: whoever is next sees the lock taken when it sees our place free.
        give_back(file, PLACES)?;
        Ok(())
    }

    fn block(&self, call: impl Fn() -> nix::Result<()>) -> std::result::Result<(), Halt> {
        loop {
            if self.is_stopped.load(Ordering::SeqCst) {
                return Err(Halt::Stopped);
            }
            match call() {
                Ok(()) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(_) if self.is_stopped.load(Ordering::SeqCst) => return Err(Halt::Stopped),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
