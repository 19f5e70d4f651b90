//! What a claim has at the server, in the dialects that other libraries speak too: a lock under its
//! own name, no line, no fence.

use std::{sync::Arc, time::Duration};

use super::renewals::{Renewal, Renewals};
use crate::{
    engine::{
        Answers, Attempt, Fairness, Fencing, Grant, Lease, Moment, Profile, Reach, Released,
        Request, Standing, Wake,
        error::{Error, Result},
    },
    engines::redis::{
        server::{
            behind::Behind,
            client::{Client, Needs},
            settings::{Arrangement, Settings},
        },
        wire::{
            call::Call,
            connection::Connection,
            digits::Digits,
            hex::millis,
            refusal::{first_error, no_error, unexpected},
            resp::Value,
            script::Script,
            slot::Slot,
        },
    },
};

/// How long to wait for a message, or for the end of a lease, before asking again: messages get lost,
/// and foreign holders may delete what they hold at any time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many turns of a line one grant may serve before others get a chance.
const TURNS: u32 = 64;

/// What makes a dialect. In all scripts `KEYS` are locks and the first argument is an owner.
///
/// * `ask` is given a ttl too. It answers `granted`; or `busy` and for how many milliseconds, which
///   is negative if there is no end; or `strange` and what was found.
/// * `renew` is as [`Renewals`] needs it.
/// * `release` answers 1, or 0 if the lock was not ours.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) ask: &'static Script,
    pub(crate) renew: &'static Script,
    pub(crate) release: &'static Script,
}

/// What all claims of an engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    prefix: String,
    scripts: Scripts,
    renewals: Renewals,
    /// What was found at a key that is no lock of this dialect, in words.
    unexpected: fn(&str) -> String,
}

impl Shared {
    pub(crate) fn new(
        settings: &Settings,
        scripts: Scripts,
        unexpected: fn(&str) -> String,
    ) -> Result<Self> {
        let all = vec![scripts.ask, scripts.renew, scripts.release];
        Ok(Self {
            client: Client::new(settings, Needs { scripts: all, listens: false })?,
            prefix: settings.prefix.clone().unwrap_or_default(),
            renewals: Renewals::new(scripts.renew),
            scripts,
            unexpected,
        })
    }
}

/// What these dialects promise alike.
pub(crate) fn profile(engine: &'static str, wake: Wake, settings: &Settings) -> Profile {
    let promise = match settings.arrangement {
        Arrangement::Single => SINGLE,
        Arrangement::Sentinel { .. } | Arrangement::Cluster => REPLICATED,
    };
    Profile {
        reach: Reach::Network,
        fairness: Fairness::None,
        fencing: Fencing::None,
        answers: Answers::Later,
        wake,
        promise,
        broken_by: settings.arrangement.broken_by(),
        ..Profile::weakest(engine)
    }
}

const SINGLE: &str = "Among all who use the server, in any language, at most one is told that it holds the \
     lock, as long as the server keeps its data; no fence, no order among those who wait.";
const REPLICATED: &str = "As one server, but a failover may lose a grant that the new primary has not \
     seen, and an old primary that lives on may grant until that is heard of: then two may hold the lock \
     until the first one's next renewal, and there is no fence to tell them apart.";

#[derive(Debug)]
pub(crate) struct ForeignClaim {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stage: Stage,
    /// The name of the lock at the server.
    pub(crate) lock: Vec<u8>,
    pub(crate) owner: String,
    pub(crate) ttl: Duration,
    slot: Slot,
    /// The connection that was asked last.
    at: Option<Arc<Connection>>,
    /// Where earlier attempts got no answer: they may still be carried out.
    unsure_at: Vec<Arc<Connection>>,
    /// Where a release was sent that has not been answered.
    released_at: Option<Arc<Connection>>,
    /// Whether a grant was given back under this owner, who must not ask again.
    pub(crate) is_spent: bool,
}

/// What the server may know of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Nothing,
    /// An attempt got no answer.
    Unsure,
    Holds,
}

impl ForeignClaim {
    pub(crate) fn new(shared: &Arc<Shared>, request: &Request, owner: String) -> Self {
        let lock = [shared.prefix.as_bytes(), request.key.as_str().as_bytes()].concat();
        Self {
            shared: Arc::clone(shared),
            stage: Stage::Nothing,
            slot: Slot::of(&lock),
            lock,
            owner,
            ttl: request.ttl,
            at: None,
            unsure_at: Vec::new(),
            released_at: None,
            is_spent: false,
        }
    }

    /// The connection to ask at next. Nothing is sent yet.
    pub(crate) async fn reach(&mut self, now: Moment) -> Result<Arc<Connection>> {
        let at = self.shared.client.reach(self.slot, now).await?;
        let before = self.at.replace(Arc::clone(&at));
        if self.stage == Stage::Unsure {
            let before = before.filter(|before| !Arc::ptr_eq(before, &at));
            self.unsure_at.retain(|unsure| !unsure.has_ended());
            self.unsure_at.extend(before);
        }
        Ok(at)
    }

    /// Sends an attempt to where the key is.
    pub(crate) async fn send(&mut self, attempt: &Call, now: Moment) -> Result<Vec<Value>> {
        let at = self.reach(now).await?;
        self.stage = Stage::Unsure;
        let at = self.at.insert(at);
        let replies = self.shared.client.call(at, self.slot, attempt, now).await?;
        if first_error(&replies).is_some() {
            // An answer as well: nothing is on its way there any more.
            self.at = None;
        }
        no_error(replies)
    }

    /// Asks by script.
    pub(crate) async fn ask(&mut self, now: Moment) -> Result<Attempt> {
        let ttl = self.ttl_digits();
        let arguments = [self.owner.as_bytes(), ttl.as_bytes()];
        let call = Call::script(self.shared.scripts.ask, &[&self.lock], &arguments);
        let replies = self.send(&call, now).await?;
        let answer = replies.first().and_then(Value::as_list).unwrap_or_default();
        match (answer.first().and_then(Value::as_text), answer.get(1)) {
            (Some("granted"), _) => Ok(self.granted()),
            (Some("busy"), Some(Value::Int(ends_in))) => {
                self.turned_away();
                let ends_in =
                    u64::try_from(*ends_in).ok().map(|ms| Duration::from_millis(ms.max(1)));
                Ok(Attempt::Busy {
                    retry_in: ends_in.or(Some(LONGEST_PAUSE)).min(Some(LONGEST_PAUSE)),
                })
            }
            (Some("strange"), Some(Value::Text(found))) => {
                self.turned_away();
                Err(Error::refused((self.shared.unexpected)(&String::from_utf8_lossy(found))))
            }
            _ => Err(unexpected(&replies)),
        }
    }

    pub(crate) fn granted(&mut self) -> Attempt {
        self.answered();
        self.stage = Stage::Holds;
        Attempt::Granted(Grant { fence: 0, n_fences: TURNS, lease: Lease::For(self.ttl) })
    }

    /// The server has told us that we hold nothing; but older attempts may still be on their way.
    pub(crate) fn turned_away(&mut self) {
        self.answered();
        self.stage = if self.unsure_at.is_empty() { Stage::Nothing } else { Stage::Unsure };
    }

    /// What was sent before on the same connection has been carried out.
    fn answered(&mut self) {
        let at = &self.at;
        self.unsure_at.retain(|unsure| {
            !unsure.has_ended() && !at.as_ref().is_some_and(|at| Arc::ptr_eq(at, unsure))
        });
    }

    /// Makes sure that a grant counts; if not, it is to be given back.
    pub(crate) async fn see_copied(&self, now: Moment) -> Result<()> {
        self.shared.client.see_copied(self.at.as_deref(), now).await
    }

    pub(crate) async fn renew(&mut self, now: Moment) -> Result<Standing> {
        // An attempt without an answer may have taken the lock, but nobody knows since when.
        if self.stage != Stage::Holds {
            return Ok(Standing::Lost("it was not granted".into()));
        }
        let renewal = Renewal {
            slot: self.slot,
            lock: self.lock.clone(),
            owner: self.owner.clone().into_bytes(),
            ttl_ms: millis(self.ttl),
        };
        if self.shared.renewals.renew(&self.shared.client, renewal, now).await? {
            return Ok(Standing::Held(Lease::For(self.ttl)));
        }
        Ok(Standing::Lost("the server has another holder, or none".into()))
    }

    /// Unlocks; the arguments are for the script, after the owner.
    pub(crate) async fn release(&mut self, arguments: &[&[u8]], now: Moment) -> Result<Released> {
        if self.stage == Stage::Nothing {
            return Ok(Released::Done);
        }
        let arguments = [&[self.owner.as_bytes()], arguments].concat();
        let call = Call::script(self.shared.scripts.release, &[&self.lock], &arguments);
        let client = &self.shared.client;
        // Asked again because no answer came: that connection is not one to wait for.
        if let Some(silent) = self.released_at.take() {
            silent.retire();
        }
        // Attempts may still be on their way there; whatever comes of them ends behind them.
        let last = self.at.take().filter(|_| self.stage == Stage::Unsure);
        let attempted_at = self.unsure_at.drain(..).chain(last).collect();
        let mut behind = Behind { client, release: &call, attempted_at, now };
        if self.stage != Stage::Holds {
            behind.send();
        }
        let at = self.at.insert(client.reach(self.slot, now).await?);
        self.released_at = Some(Arc::clone(at));
        let replies = no_error(client.call(at, self.slot, &call, now).await?)?;
        match replies.first() {
            Some(Value::Int(n_released)) => {
                let before = std::mem::replace(&mut self.stage, Stage::Nothing);
                self.released_at = None;
                let is_not_ours = *n_released == 0 && before == Stage::Holds;
                Ok(if is_not_ours { Released::NotOurs } else { Released::Done })
            }
            _ => Err(unexpected(&replies)),
        }
    }

    pub(crate) fn ttl_digits(&self) -> Digits {
        Digits::of(millis(self.ttl))
    }
}
