//! One claim, and what a rule can have it do.

use std::time::Duration;

use futures_lite::future;

use super::room::{Finding, Room, Stop};
use crate::{
    engine::{Attempt, Claim, Lease, Released, Standing, error::Result},
    time::clock::Moment,
};

/// The pause of a contender that asks again and again.
const PAUSE: Duration = Duration::from_millis(10);

/// What a contender won, and when.
#[derive(Debug)]
pub(super) struct Won {
    pub(super) fence: u64,
    pub(super) n_fences: u32,
    pub(super) lease: Lease,
    pub(super) sent_at: Moment,
    pub(super) answered_at: Moment,
}

impl Won {
    /// How long it lasts without renewal, as far as time decides.
    pub(super) fn lasts(&self) -> Duration {
        match self.lease {
            Lease::For(lease) => lease,
            Lease::WithSession { .. } => Duration::ZERO,
        }
    }
}

/// One claim and the name it has in reports.
pub(super) struct Contender<'a> {
    pub(super) room: &'a Room<'a>,
    pub(super) name: &'static str,
    pub(super) claim: Box<dyn Claim>,
}

impl<'a> Contender<'a> {
    pub(super) fn new(room: &'a Room<'a>, name: &'static str, claim: Box<dyn Claim>) -> Self {
        Self { room, name, claim }
    }

    /// Asks once.
    pub(super) async fn asks(&mut self) -> Finding<Result<Won, Option<Duration>>> {
        let sent_at = self.room.clock.now();
        let what = format!("an answer to {}", self.name);
        let attempt = self.claim.attempt(sent_at);
        Ok(match self.room.within(self.room.limit(), &what, attempt).await?? {
            Attempt::Granted(grant) => Ok(Won {
                fence: grant.fence,
                n_fences: grant.n_fences,
                lease: grant.lease,
                sent_at,
                answered_at: self.room.clock.now(),
            }),
            Attempt::Busy { retry_in } => Err(retry_in),
        })
    }

    /// Asks once and must get it.
    pub(super) async fn gets_it(&mut self) -> Finding<Won> {
        let answer = self.asks().await?;
        answer.map_err(|_| {
            Stop::Broken(format!("{} was told busy, though it was its turn", self.name))
        })
    }

    /// Asks once and must not get it.
    pub(super) async fn is_told_busy(&mut self) -> Finding {
        match self.asks().await? {
            Ok(_) => {
                Err(Stop::Broken(format!("{} was granted what another has a right to", self.name)))
            }
            Err(_) => Ok(()),
        }
    }

    /// Asks again and again, and must get it in the end: `lease` may be over first.
    pub(super) async fn gets_it_after(&mut self, lease: Duration) -> Finding<Won> {
        let (room, name) = (self.room, self.name);
        let asking = async {
            loop {
                match self.asks().await? {
                    Ok(won) => return Ok(won),
                    Err(retry_in) => room.pause(retry_in.unwrap_or(PAUSE).min(PAUSE)).await,
                }
            }
        };
        let what = format!("{name} to get it by asking again");
        room.within(lease + room.limit(), &what, asking).await?
    }

    pub(super) async fn renews(&mut self) -> Finding<Standing> {
        let what = format!("the renewal of {}", self.name);
        let renewal = self.claim.renew(self.room.clock.now());
        Ok(self.room.within(self.room.limit(), &what, renewal).await??)
    }

    pub(super) async fn still_has_it(&mut self) -> Finding {
        match self.renews().await? {
            Standing::Held(_) => Ok(()),
            Standing::Lost(why) => Err(Stop::Broken(format!("{} lost it: {why}", self.name))),
        }
    }

    pub(super) async fn does_not_have_it(&mut self) -> Finding {
        match self.renews().await? {
            Standing::Lost(_) => Ok(()),
            Standing::Held(_) => {
                Err(Stop::Broken(format!("{} was told that it holds what it does not", self.name)))
            }
        }
    }

    /// Whether the claim would serve another request.
    pub(super) fn is_reusable(&mut self) -> bool {
        self.claim.quick().is_some_and(|quick| quick.is_reusable())
    }

    /// Releases, and must not be told that the lock was not its own.
    pub(super) async fn releases(&mut self) -> Finding {
        match self.is_released().await? {
            Released::Done => Ok(()),
            Released::NotOurs => Err(Stop::Broken(format!(
                "{} was told at its release that it was not its own",
                self.name
            ))),
        }
    }

    /// Releases, and answers what it was told.
    pub(super) async fn is_released(&mut self) -> Finding<Released> {
        let what = format!("the release by {}", self.name);
        Ok(self
            .room
            .within(self.room.limit(), &what, self.claim.release(self.room.clock.now()))
            .await??)
    }

    /// Listens until told to ask again.
    pub(super) async fn is_told(&mut self) -> Finding {
        let what = format!("{} to be told of a change", self.name);
        self.room.within(self.room.limit(), &what, self.claim.changed()).await
    }

    /// Asks only when told to, and must get it in the end.
    pub(super) async fn gets_it_when_told(&mut self) -> Finding<Won> {
        loop {
            self.is_told().await?;
            if let Ok(won) = self.asks().await? {
                return Ok(won);
            }
        }
    }

    /// Begins to listen and stops again at once. Whoever is told asks, and must be told busy.
    pub(super) async fn listens_for_a_moment(&mut self) -> Finding {
        match future::poll_once(self.claim.changed()).await {
            Some(()) => self.is_told_busy().await,
            None => Ok(()),
        }
    }
}
