//! Where the command stands on systems other than Linux: plainly beside its child.
//!
//! There is no warden here. If lockkeeper is killed, the child runs on; signals are not passed
//! on; a lost lock kills the child at once, and only the child.

use std::{
    pin::pin,
    process::ExitStatus,
    task::{Context, Poll, Waker},
    thread::sleep,
    time::Duration,
};

use lockkeeper::{Guard, Locks, blocking::block_on};

use crate::{
    args::Hold,
    exit::Failure,
    message,
    run::{Ending, FENCE, child_of},
};

/// The standard library has seen to it.
pub(crate) fn survive_broken_pipes() {}

/// How often the child and the lock are looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// The post of the command.
#[derive(Debug)]
pub(crate) struct Post;

#[allow(clippy::unused_self, reason = "the post on Linux has much to keep")]
impl Post {
    pub(crate) fn set_up(_url: Option<&str>, _hold: &Hold) -> Result<Self, Failure> {
        Ok(Self)
    }

    /// Drives `work` to its end.
    pub(crate) fn wait_for<F: Future>(&self, work: F) -> Result<F::Output, Failure> {
        Ok(block_on(work))
    }

    /// The same: only the library's own limits hold here.
    pub(crate) fn wait_at_most<F: Future>(
        &self,
        _limit: Option<Duration>,
        work: F,
    ) -> Result<Option<F::Output>, Failure> {
        Ok(Some(block_on(work)))
    }

    /// The same: nothing ends us first here.
    pub(crate) fn see_through<F: Future>(&self, work: F) -> Result<F::Output, Failure> {
        Ok(block_on(work))
    }

    /// Drives what `join` begins.
    pub(crate) fn wait_in_line<F: Future>(
        &self,
        _locks: &Locks,
        mut join: impl FnMut() -> F,
    ) -> Result<F::Output, Failure> {
        Ok(block_on(join()))
    }

    /// Nothing tells here which runs are around this one.
    pub(crate) fn check_outer_runs(
        &self,
        _locks: &Locks,
        _url: Option<&str>,
        _key: &str,
        _limit: Option<Duration>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs the command of `hold` until it has ended, or the lock is lost.
    pub(crate) fn run(&self, locks: &Locks, guard: &Guard, hold: &Hold) -> Result<Ending, Failure> {
        let mut child = match child_of(hold).env(FENCE, guard.fence().to_string()).spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Ending::NotStarted(error.raw_os_error().unwrap_or(0))),
        };
        let mut lost = pin!(guard.lost());
        let mut context = Context::from_waker(Waker::noop());
        let mut watches_lock = true;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if watches_lock => return Ok(Ending::Ended(code_of(status))),
                Ok(Some(status)) => return Ok(Ending::EndedAfterLoss(code_of(status))),
                Ok(None) => {}
                Err(error) => return Err(Failure::system("wait for the command", error)),
            }
            // When it wants to be called again does not matter: the pause is shorter.
            let _ = locks.attend();
            if watches_lock && let Poll::Ready(loss) = lost.as_mut().poll(&mut context) {
                message::say(&format!("lost {:?}: {loss}", hold.key));
                watches_lock = false;
                if hold.on_loss.stops() {
                    // An error says that it has ended already.
                    let _ = child.kill().and_then(|()| child.wait());
                    return Ok(Ending::Lost);
                }
            }
            sleep(PAUSE);
        }
    }

    pub(crate) fn dismiss(&self) {}
}

/// The status, or 128 + n for signal n.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal.to_le_bytes()[0];
    }
    status.code().unwrap_or(1).to_le_bytes()[0]
}
