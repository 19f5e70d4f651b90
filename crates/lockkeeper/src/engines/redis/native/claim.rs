//! A claim on a lock of the native dialect.

mod at_once;
mod in_line;

use std::{fmt, future::poll_fn, sync::Arc, time::Duration};

use async_trait::async_trait;

use self::at_once::Set;
use super::{
    super::{
        call::Call,
        connection::Connection,
        digits::Digits,
        ear::Ear,
        refusal::{first_error, no_error, strange},
        renewals::Renewal,
        replicas::given_back,
        reply::{Answer, Replies},
        resp::Value,
        words::{hex, millis},
    },
    LIFT, RELEASE, Shared,
    names::Names,
    packing::{PackedTake, TURNS_IF_FREE},
};
use crate::{
    engine::{Attempt, Claim, Grant, Lease, Moment, Request, Standing},
    error::Result,
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
    /// Those that were asked before and have not answered: what was sent there may still run.
    unanswered: Vec<Arc<Connection>>,
    stage: Stage,
    /// How often it has asked by script, and when it did so last: a message speaks of one such ask.
    n_asks: u64,
    asked_at: Moment,
    /// Where a release was sent that has not been answered.
    released_at: Option<Arc<Connection>>,
    /// From its first ask on, when it waits.
    ear: Option<Arc<Ear>>,
    listens_at: Option<Arc<Connection>>,
    grant: Option<Grant>,
    /// Whether the key was wanted before, and probably will be again; then, what is sent for it.
    is_again: bool,
    packed: Option<PackedTake>,
    /// All its names, once it has asked by script.
    all_words: Option<Vec<u8>>,
    /// Where the answer to the last call of the common way is, or will be.
    answer: Option<Arc<Answer>>,
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
            unanswered: Vec::new(),
            stage: Stage::Nothing,
            n_asks: 0,
            asked_at: Moment::from_nanos(0),
            released_at: None,
            ear: None,
            listens_at: None,
            grant: None,
            is_again: false,
            packed: None,
            all_words: None,
            answer: None,
        }
    }

    /// How long a place of this claim lasts.
    fn place(&self) -> Duration {
        self.request.ttl.min(LONGEST_PLACE)
    }

    async fn reach(&mut self, now: Moment) -> Result<&mut Arc<Connection>> {
        let connection = self.shared.client.reach(self.names.slot, now).await?;
        if self.stage == Stage::Unsure {
            let is_another = |at: &mut Arc<Connection>| !Arc::ptr_eq(at, &connection);
            self.unanswered.extend(self.at.take_if(is_another));
        }
        Ok(self.at.insert(connection))
    }

    /// Calls where we asked last, or wherever the key is.
    async fn call(&mut self, call: &Call, now: Moment) -> Result<Vec<Value>> {
        let (client, slot) = (&self.shared.client, self.names.slot);
        let at = match &mut self.at {
            Some(at) => at,
            nowhere => nowhere.insert(client.reach(slot, now).await?),
        };
        no_error(client.call(at, slot, call, now).await?)
    }

    /// Takes the key if it is free, in one trip and without a script.
    async fn take_if_free(&mut self, now: Moment) -> Result<Option<Grant>> {
        let at = Arc::clone(self.reach(now).await?);
        let is_lifted = at.lifted.has(self.names.bucket);
        let mut call = Call::new();
        if !is_lifted {
            call.add_script(&LIFT, &[&self.names.counter().concat()], &[]);
        }
        self.push_take(&mut call.bytes);
        call.n_replies += 2;
        self.stage = Stage::Unsure;
        let replies = self.call(&call, now).await?;
        if !is_lifted {
            at.lifted.add(self.names.bucket);
        }
        let [.., set, Value::Int(last)] = &replies[..] else { return Err(strange(&replies)) };
        match set {
            Value::Nil => {
                self.stage = Stage::Nothing;
                Ok(None)
            }
            Value::Okay if *last < SMALLEST_FENCE || !self.is_lifted() => {
                self.take_numbers(now).await.map(Some)
            }
            Value::Okay => Ok(Some(self.granted(*last))),
            _ => Err(strange(&replies)),
        }
    }

    /// Whether the connection that was asked last has lifted our counter: a redirection may have led
    /// to another than we thought.
    fn is_lifted(&self) -> bool {
        self.at.as_ref().is_some_and(|at| at.lifted.has(self.names.bucket))
    }

    /// Whether what is sent there is sure to meet a counter that was lifted: in a cluster, it may be
    /// sent on.
    fn is_lifted_at(&self, at: &Connection) -> bool {
        self.shared.client.mixes_slots() && at.lifted.has(self.names.bucket)
    }

    /// Takes fence numbers for a lock that is ours already, from a counter that was not there.
    async fn take_numbers(&mut self, now: Moment) -> Result<Grant> {
        let counter = self.names.counter().concat();
        let mut call = Call::script(&LIFT, &[&counter], &[]);
        call.add(&[b"INCRBY", &counter, Digits::of(TURNS_IF_FREE.into()).as_bytes()]);
        let replies = self.call(&call, now).await?;
        match &replies[..] {
            [_, Value::Int(last)] => Ok(self.granted(*last)),
            _ => Err(strange(&replies)),
        }
    }

    fn granted(&mut self, last: i64) -> Grant {
        self.stage = Stage::Holds;
        let fence = u64::try_from(last).unwrap_or(0).saturating_sub(u64::from(TURNS_IF_FREE) - 1);
        Grant { fence, n_fences: TURNS_IF_FREE, lease: Lease::For(self.request.ttl) }
    }

    /// Takes the lock in the cheapest way that may do.
    async fn take_or_ask(&mut self, now: Moment) -> Result<Attempt> {
        let before = self.stage;
        if before == Stage::Nothing
            && !self.shared.contended.has(self.names.bucket)
            && let Some(grant) = self.take_if_free(now).await?
        {
            return Ok(Attempt::Granted(grant));
        }
        let answer = self.ask(now).await?;
        if before == Stage::Nothing && matches!(answer, Attempt::Granted(_)) {
            self.shared.contended.remove(self.names.bucket);
        }
        Ok(answer)
    }

    /// An attempt that got no answer may still be on its way; whatever comes of it ends behind it.
    fn release_behind_attempts(&mut self, now: Moment) {
        for at in self.unanswered.drain(..) {
            let call = Call::script(&RELEASE, &[self.names.lock()], &[&self.owner]);
            self.shared.client.send_behind(&at, &call, now);
        }
    }

    /// Makes an attempt as well as it can be done; the common way may have been tried before.
    async fn attempt_by_all_means(&mut self, now: Moment) -> Result<Attempt> {
        let answer = self.take_or_ask(now).await?;
        if let Attempt::Granted(grant) = &answer {
            if let Err(error) = self.shared.client.see_copied(self.at.as_deref(), now).await {
                return Err(given_back(self, error).await);
            }
            self.grant = Some(grant.clone());
        }
        Ok(answer)
    }

    async fn release_by_all_means(&mut self) -> Result<()> {
        // Asked again because no answer came: that connection is not one to wait for.
        if let Some(silent) = self.released_at.take() {
            silent.retire();
        }
        let now = self.shared.client.latest();
        let reached = self.reach(now).await.map(|at| Arc::clone(at));
        self.release_behind_attempts(now);
        self.released_at = Some(reached?);
        let call = Call::script(&RELEASE, &[self.names.lock()], &[&self.owner]);
        let replies = self.call(&call, now).await?;
        self.released(number(&replies).ok_or_else(|| strange(&replies))?);
        Ok(())
    }

    /// Notes that the lock is released, or the place in line given up.
    fn released(&mut self, released: i64) {
        self.stage = Stage::Nothing;
        self.at = None;
        let at = self.released_at.take();
        if released == 2 {
            self.shared.contended.add(self.names.bucket);
            // Whoever got it has numbers of a counter that the script has lifted, if nobody had before.
            at.filter(|_| self.shared.client.mixes_slots())
                .inspect(|at| at.lifted.add(self.names.bucket));
        }
    }
}

/// The reply, if it is one number.
fn number(replies: &[Value]) -> Option<i64> {
    match replies {
        [Value::Int(number)] => Some(*number),
        _ => None,
    }
}

#[async_trait]
impl Claim for NativeClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        if self.since == 0 {
            self.since = self.shared.wall.second(now);
        }
        // Whether replicas know of a grant that was told by message is not known here.
        if self.stage == Stage::InLine
            && !self.shared.client.waits_for_replicas()
            && let Some(grant) = self.heard(now)
        {
            self.grant = Some(grant.clone());
            return Ok(Attempt::Granted(grant));
        }
        let is_plain = self.stage == Stage::Nothing && !self.shared.client.waits_for_replicas();
        let is_contended = self.shared.contended.has(self.names.bucket);
        if is_plain
            && is_contended
            && let Some((answer, at)) = self.ask_at_once(now)
        {
            let replies = poll_fn(|context| answer.poll(context, std::mem::take)).await?;
            // Errors are read, and redirections followed, by those who ask by all means.
            if first_error(&replies).is_none() {
                let answer = self.asked(&replies, &at)?;
                if let Attempt::Granted(grant) = &answer {
                    self.shared.contended.remove(self.names.bucket);
                    self.grant = Some(grant.clone());
                }
                return Ok(answer);
            }
        } else if is_plain
            && !is_contended
            && let Some(answer) = self.take_at_once(now)
        {
            let set = poll_fn(|context| answer.poll(context, |replies| Set::of(replies))).await?;
            if let Some(grant) = self.taken(set) {
                self.grant = Some(grant.clone());
                return Ok(Attempt::Granted(grant));
            }
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

    async fn release(&mut self) -> Result<()> {
        self.listen_nowhere();
        if self.stage == Stage::Nothing && self.unanswered.is_empty() {
            return Ok(());
        }
        if let Some(answer) = self.release_at_once() {
            let read = |replies: &mut Replies| number(replies);
            match poll_fn(|context| answer.poll(context, read)).await? {
                Some(released @ 1..) => {
                    self.released(released);
                    return Ok(());
                }
                // It has answered; but one of many is not told more than that it is not simply released.
                _ => self.released_at = None,
            }
        }
        Box::pin(self.release_by_all_means()).await
    }

    fn begins_again(&self) -> bool {
        self.stage == Stage::Nothing
            && self.unanswered.is_empty()
            && self.released_at.is_none()
            && self.listens_at.is_none()
    }

    fn begin_again(&mut self, request: Request) -> Result<(), Request> {
        if !self.begins_again() {
            return Err(request);
        }
        let known = &self.request;
        if known.ttl != request.ttl || !Arc::ptr_eq(&known.label, &request.label) {
            self.packed = None;
        }
        self.owner = hex(request.owner);
        self.request = request;
        self.since = 0;
        self.n_asks = 0;
        self.ear = None;
        self.grant = None;
        self.is_again = true;
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.ear {
            Some(ear) => ear.rung().await,
            None => std::future::pending().await,
        }
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
