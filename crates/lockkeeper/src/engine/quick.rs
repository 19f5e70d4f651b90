//! The quick way: an optional part of a claim. An engine author can ignore it.

use std::task::{Context, Poll};

use super::{Attempt, Moment, Released, Request, error::Result};

/// The quick way of a claim: one question and its answer without a future on the heap, and a claim that
/// serves request after request.
///
/// It changes nothing that can be seen from outside: whatever is asked the quick way could have been asked
/// by [`attempt`](super::Claim::attempt) or [`release`](super::Claim::release), and the same rules hold. So it
/// pays only where a call costs little more than its future: with Redis it is a fifth of the time of a cycle.
pub trait Quick: Send {
    /// Sends an attempt, if a single question will do right now. Then
    /// [`poll_attempt`](Self::poll_attempt) has the answer; otherwise nothing was sent.
    fn send_attempt(&mut self, _now: Moment) -> bool {
        false
    }

    /// The answer to an attempt that was sent the quick way; `None` if that did not do, and it takes an
    /// [`attempt`](super::Claim::attempt) to know. Whoever gives up waiting may go on with any other call.
    fn poll_attempt(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Attempt>>> {
        Poll::Ready(Ok(None))
    }

    /// Sends the release of a lock that is held, if a single question will do right now.
    fn send_release(&mut self, _now: Moment) -> bool {
        false
    }

    /// The answer to a release that was sent the quick way; `None` if that did not do, and it takes a
    /// [`release`](super::Claim::release) to know.
    fn poll_release(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Released>>> {
        Poll::Ready(Ok(None))
    }

    /// Whether the claim can serve another request for the same key, as things stand.
    fn is_reusable(&self) -> bool {
        false
    }

    /// Takes up another request for the same key, as a new claim would: keys that are wanted again and
    /// again need not be looked at anew each time.
    ///
    /// # Errors
    /// With the request, if the claim cannot do that.
    fn reuse(&mut self, request: Request) -> Result<(), Request> {
        Err(request)
    }
}
