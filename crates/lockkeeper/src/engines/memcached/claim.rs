//! A claim: an item that says who holds the lock, changed and deleted by its CAS only.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    Link, Shared,
    wire::{Name, Response},
};
use crate::{
    engine::{
        Attempt, Claim, Grant, Lease, Moment, Released, Request, Standing,
        error::{Error, ErrorKind, Result},
    },
    engines::net::holder,
};

/// How many turns of a line one grant may serve before others get a chance.
const TURNS: u32 = 64;
/// How often a call looks again when the item changes under its hands, which only calls of the same
/// claim that got no answer can do.
const LOOKS: usize = 3;
/// The server takes more than 30 days for a date. Whoever asks for a longer lease is granted this one.
const LONGEST: Duration = Duration::from_secs(29 * 24 * 60 * 60);

#[derive(Debug)]
pub(super) struct MemcachedClaim {
    shared: Arc<Shared>,
    name: Arc<Name>,
    /// What is stored while the claim holds the lock: nobody else stores the same.
    value: Vec<u8>,
    ttl: Duration,
    stage: Stage,
}

/// What the server may have of the claim.
#[derive(Clone, Debug)]
enum Stage {
    Nothing,
    /// An attempt got no answer.
    Unsure,
    Holds(Known),
}

/// The CAS of our item, and the connection over which it was told. A server that was started anew counts from
/// one again, and may have given the same CAS to another's item: over any other connection, the item is read
/// first.
type Known = (u64, Link);

/// Where our item is after a change, or what is there in its place.
type Changed = Result<Result<Known, Response>>;

impl MemcachedClaim {
    pub(super) fn new(shared: &Arc<Shared>, request: &Request) -> Self {
        Self {
            shared: Arc::clone(shared),
            name: Arc::new(Name::of(&shared.prefix, &request.key)),
            value: holder::text_of(request).into_bytes(),
            ttl: request.ttl.min(LONGEST),
            stage: Stage::Nothing,
        }
    }

    /// Stores our item for a ttl. The server counts whole seconds and begins in the middle of one, so that
    /// `T3` may last only two seconds: one more makes sure that the lease is kept.
    fn store(&self, condition: &str) -> Vec<u8> {
        let seconds = self.ttl.as_secs() + u64::from(self.ttl.subsec_nanos() > 0) + 1;
        self.name.set(&self.value, self.shared.flags, seconds, condition)
    }

    /// Stores our item if there is none. If nobody waits for the answer any more, it is deleted again when
    /// the answer comes, however late that is.
    async fn add(&self, link: &Link, now: Moment) -> Result<Response> {
        let (request, name) = (self.store("ME"), Arc::clone(&self.name));
        let undo = move |response: &Response| match response {
            Response::Done(cas) if *cas > 0 => Some(name.delete(*cas)),
            _ => None,
        };
        link.call_or_undo(&request, now, Some(Box::new(undo))).await
    }

    /// Changes our item, whose CAS may have moved on: an earlier change may have lost its answer.
    async fn change(
        &self,
        known: Option<Known>,
        now: Moment,
        change: impl Fn(u64) -> Vec<u8>,
    ) -> Changed {
        let link = self.shared.server.link(now)?;
        let mut known = known.filter(|(_, at)| Arc::ptr_eq(at, &link)).map(|(cas, _)| cas);
        for _ in 0..LOOKS {
            if let Some(cas) = known {
                match link.call(&change(cas), now).await? {
                    Response::Done(cas) => return Ok(Ok((cas, link))),
                    Response::Changed | Response::Missing => {}
                    other => return Err(other.refusal()),
                }
            }
            match link.call(&self.name.get(), now).await? {
                Response::Value { cas, value } if value == self.value => known = Some(cas),
                other @ (Response::Value { .. } | Response::Missing) => return Ok(Err(other)),
                other => return Err(other.refusal()),
            }
        }
        Err(Error::new(ErrorKind::Unreachable, "the lock changes while it is looked at"))
    }

    async fn refresh(&mut self, known: Option<Known>, now: Moment) -> Changed {
        self.change(known, now, |cas| self.store(&format!("C{cas}"))).await
    }

    fn granted(&mut self, known: Known) -> Attempt {
        self.stage = Stage::Holds(known);
        Attempt::Granted(Grant { fence: 0, n_fences: TURNS, lease: Lease::For(self.ttl) })
    }
}

#[async_trait]
impl Claim for MemcachedClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        let link = self.shared.server.link(now)?;
        let before = std::mem::replace(&mut self.stage, Stage::Unsure);
        for _ in 0..LOOKS {
            match self.add(&link, now).await? {
                Response::Done(cas) if cas > 0 => return Ok(self.granted((cas, link))),
                Response::NotStored if matches!(before, Stage::Nothing) => {
                    self.stage = Stage::Nothing;
                    break;
                }
                Response::NotStored => {}
                other => return Err(other.refusal()),
            }
            // It may be ours, from an attempt without an answer. That one's time began then, and the lease
            // begins now; and its CAS must change, because what is under way to delete it knows the old one.
            match self.refresh(None, now).await? {
                Ok(known) => return Ok(self.granted(known)),
                Err(Response::Missing) => {}
                Err(_) => break,
            }
        }
        Ok(Attempt::Busy { retry_in: None })
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        let Stage::Holds(known) = self.stage.clone() else {
            return Ok(Standing::Lost("it was not granted".into()));
        };
        let why = match self.refresh(Some(known), now).await? {
            Ok(known) => {
                self.stage = Stage::Holds(known);
                return Ok(Standing::Held(Lease::For(self.ttl)));
            }
            Err(Response::Missing) => {
                "the server has no such lock any more: it was evicted, flushed, deleted or lost in a \
                 restart, or it expired"
            }
            Err(_) => "the server has another holder",
        };
        Ok(Standing::Lost(why.into()))
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.ttl = ttl.min(LONGEST);
        true
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        let known = match &self.stage {
            Stage::Nothing => return Ok(Released::Done),
            Stage::Unsure => None,
            Stage::Holds(known) => Some(known.clone()),
        };
        let deleted = self.change(known, now, |cas| self.name.delete(cas)).await?;
        let before = std::mem::replace(&mut self.stage, Stage::Nothing);
        let is_lost = deleted.is_err() && matches!(before, Stage::Holds(_));
        Ok(if is_lost { Released::NotOurs } else { Released::Done })
    }
}
