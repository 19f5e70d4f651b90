//! A claim on a lock of the native dialect.

mod full;
mod queued;
mod quick;

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use async_trait::async_trait;

use super::{
    Shared,
    names::Names,
    packing::{Numbering, PackedAsk, PackedTake, Releasing, TURNS_IF_FREE},
};
use crate::{
    engine::{
        Attempt, Claim, Grant, Lease, Moment, Quick, Released, Request, Standing, error::Result,
    },
    engines::{
        net::listener::Listener,
        redis::{
            dialects::renewals::Renewal,
            server::client::LastConnection,
            wire::{
                connection::Connection,
                hex::{hex, millis},
                reply::{Answer, Replies},
                resp::Value,
            },
        },
    },
};

/// How long a place in line lasts without being asked about again; also how long a lock is given to
/// somebody who has not yet said that it is alive. The scripts know the longest, too.
pub(super) const LONGEST_PLACE: Duration = Duration::from_secs(3);
/// How many turns of a line one grant may serve when the script gave it; as `numbers.lua` says.
const TURNS: u32 = 64;
/// A fence below this comes from a counter that was not there: it began at zero.
const SMALLEST_FENCE: i64 = 1_000_000_000_000_000;

pub(super) struct NativeClaim {
    shared: Arc<Shared>,
    request: Request,
    names: Names,
    owner: [u8; 32],
    /// The second of its first attempt.
    since: u64,
    /// The connection that was asked last.
    at: Option<Arc<Connection>>,
    last_connection: LastConnection,
    /// Those that were asked before and have not answered: what was sent there may still run.
    unanswered: Vec<Arc<Connection>>,
    stage: Stage,
    /// How often it has asked by script, and when it did so last: a message speaks of one such ask.
    n_asks: u64,
    asked_at: Moment,
    /// Where a release was sent that has not been answered.
    released_at: Option<Arc<Connection>>,
    /// Whether a grant was given back under this owner, who must not ask again.
    is_spent: bool,
    /// From its first ask on, when it waits.
    listener: Option<Arc<Listener>>,
    listens_at: Option<Arc<Connection>>,
    grant: Option<Grant>,
    /// Whether the key was wanted before, and probably will be again; then, what is sent for it.
    is_again: bool,
    packed: Option<PackedTake>,
    packed_ask: Option<PackedAsk>,
    /// All its names, once it has asked by script.
    all_words: Option<Vec<u8>>,
    /// Where the answer to the last call of the common way is, or will be; and how it asked, if it did.
    answer: Option<Arc<Answer>>,
    way: Way,
}

/// The common ways to ask.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// For a key that is free.
    Take,
    /// For one that is contended.
    Ask,
    /// Not at all: it was told of its grant.
    Heard,
    /// They do not do.
    Neither,
}

/// What the server may know of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Nothing,
    /// An attempt got no answer.
    Unsure,
    InLine,
    Holds,
}

impl NativeClaim {
    pub(super) fn new(shared: Arc<Shared>, request: Request) -> Self {
        let names = shared.prefix.names(&request.key);
        Self {
            owner: hex(request.owner),
            shared,
            names,
            request,
            since: 0,
            at: None,
            last_connection: LastConnection::default(),
            unanswered: Vec::new(),
            stage: Stage::Nothing,
            n_asks: 0,
            asked_at: Moment::from_nanos(0),
            released_at: None,
            is_spent: false,
            listener: None,
            listens_at: None,
            grant: None,
            is_again: false,
            packed: None,
            packed_ask: None,
            all_words: None,
            answer: None,
            way: Way::Take,
        }
    }

    /// How long a place of this claim lasts.
    fn place(&self) -> Duration {
        self.request.ttl.min(LONGEST_PLACE)
    }

    fn numbering(&self) -> Numbering {
        if self.shared.client.is_single() { Numbering::Counter } else { Numbering::Clock }
    }

    /// Whether the counter there was lifted, and numbers can be taken from it as it is.
    fn is_lifted_at(&self, at: &Connection) -> bool {
        match self.numbering() {
            Numbering::Counter => at.lifted.has(self.names.bucket),
            Numbering::Clock => false,
        }
    }

    fn releasing_at(&self, at: &Connection) -> Releasing {
        if self.is_in_cluster() {
            return Releasing::InCluster;
        }
        Releasing::Freely { is_lifted: self.is_lifted_at(at) }
    }

    fn is_in_cluster(&self) -> bool {
        !self.shared.client.mixes_slots()
    }

    fn granted(&mut self, last: i64) -> Grant {
        self.stage = Stage::Holds;
        let fence = u64::try_from(last).unwrap_or(0).saturating_sub(u64::from(TURNS_IF_FREE) - 1);
        Grant { fence, n_fences: TURNS_IF_FREE, lease: Lease::For(self.request.ttl) }
    }

    /// Notes that the lock is released, or the place in line given up: as `release.lua` answers.
    fn released(&mut self, released: i64) -> Released {
        let was_granted = std::mem::replace(&mut self.stage, Stage::Nothing) == Stage::Holds;
        self.at = None;
        let at = self.released_at.take();
        if released == 2 {
            self.shared.contended.add(self.names.bucket);
            // Whoever got it has numbers of a counter that the script has lifted, if nobody had before.
            at.inspect(|at| at.lifted.add(self.names.bucket));
        }
        if released == 0 && was_granted { Released::NotOurs } else { Released::Done }
    }
}

/// The last reply, if it is a number.
fn number(replies: &[Value]) -> Option<i64> {
    match replies {
        [.., Value::Int(number)] => Some(*number),
        _ => None,
    }
}

#[async_trait]
impl Claim for NativeClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        if self.send_attempt(now)
            && let Some(answer) = poll_fn(|context| self.poll_attempt(context)).await?
        {
            return Ok(answer);
        }
        // Apart, so that the common way is not burdened with what the others keep.
        Box::pin(self.attempt_by_all_means(now)).await
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        // The lock may have been handed over to it, but it has not asked yet.
        if self.stage != Stage::Holds {
            return Ok(Standing::Lost("it was not granted".into()));
        }
        let renewal = Renewal {
            slot: self.names.slot,
            lock: self.names.lock().to_vec(),
            owner: self.owner.to_vec(),
            ttl_ms: millis(self.request.ttl),
        };
        if self.shared.renewals.renew(&self.shared.client, renewal, now).await? {
            return Ok(Standing::Held(Lease::For(self.request.ttl)));
        }
        Ok(Standing::Lost("the server has another holder, or none".into()))
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.request.ttl = ttl;
        // What was packed has the ttl in it.
        (self.packed, self.packed_ask) = (None, None);
        true
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        self.listen_nowhere();
        if self.stage == Stage::Nothing && self.unanswered.is_empty() {
            return Ok(Released::Done);
        }
        if self.send_release(now)
            && let Some(released) = poll_fn(|context| self.poll_release(context)).await?
        {
            return Ok(released);
        }
        Box::pin(self.release_by_all_means(now)).await
    }

    async fn changed(&mut self) {
        match &self.listener {
            Some(listener) => listener.rung().await,
            None => std::future::pending().await,
        }
    }

    fn quick(&mut self) -> Option<&mut dyn Quick> {
        Some(self)
    }
}

impl Quick for NativeClaim {
    fn send_attempt(&mut self, now: Moment) -> bool {
        if self.since == 0 {
            self.since = self.shared.wall.second(now);
        }
        // Whether replicas know of a grant is not known so.
        if self.shared.client.waits_for_replicas() {
            return false;
        }
        match (self.stage, self.way) {
            (Stage::InLine, _) => self.hear(now),
            (Stage::Nothing, Way::Take | Way::Ask | Way::Heard) => {
                let is_contended = self.shared.contended.has(self.names.bucket);
                if is_contended { self.ask_at_once(now) } else { self.take_at_once(now) }
            }
            _ => false,
        }
    }

    fn poll_attempt(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Attempt>>> {
        let attempt = ready!(match self.way {
            Way::Take => self.poll_take(context),
            Way::Ask => self.poll_ask(context),
            Way::Heard => Poll::Ready(Ok(self.grant.clone().map(Attempt::Granted))),
            Way::Neither => Poll::Ready(Ok(None)),
        })?;
        if let Some(Attempt::Granted(grant)) = &attempt {
            self.grant = Some(grant.clone());
        }
        Poll::Ready(Ok(attempt))
    }

    fn send_release(&mut self, now: Moment) -> bool {
        // First of all: others may wait for it.
        let is_sent = self.release_at_once(now);
        self.listen_nowhere();
        is_sent
    }

    fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Released>>> {
        let Some(answer) = &self.answer else { return Poll::Ready(Ok(None)) };
        let read = |replies: &mut Replies| number(replies);
        Poll::Ready(Ok(match ready!(answer.poll(context, read))? {
            Some(released @ 1..) => Some(self.released(released)),
            // It has answered; but one of many is not told more than that it is not simply released.
            _ => {
                self.released_at = None;
                None
            }
        }))
    }

    fn is_reusable(&self) -> bool {
        self.stage == Stage::Nothing
            && self.unanswered.is_empty()
            && self.released_at.is_none()
            && self.listens_at.is_none()
    }

    fn reuse(&mut self, request: Request) -> Result<(), Request> {
        if !self.is_reusable() {
            return Err(request);
        }
        let known = &self.request;
        if known.ttl != request.ttl || !Arc::ptr_eq(&known.label, &request.label) {
            (self.packed, self.packed_ask) = (None, None);
        }
        self.owner = hex(request.owner);
        self.request = request;
        self.is_spent = false;
        self.since = 0;
        self.n_asks = 0;
        self.listener.take_if(|listener| !Listener::forget_all(listener));
        self.grant = None;
        self.is_again = true;
        self.way = Way::Take;
        Ok(())
    }
}

impl Drop for NativeClaim {
    fn drop(&mut self) {
        self.listen_nowhere();
    }
}

impl fmt::Debug for NativeClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeClaim")
            .field("key", &self.request.key)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}
