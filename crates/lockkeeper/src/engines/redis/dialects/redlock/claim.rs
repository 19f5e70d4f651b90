//! A claim on a lock that a majority of servers grants.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    RAISE, RENEW, Shared,
    names::Names,
    question::{Asker, Question, TURNS, Way},
    server::Server,
    server_claim::ServerClaim,
    tally::{Verdict, Vote},
};
use crate::{
    engine::{
        Attempt, Claim, Grant, Lease, Moment, Quick, Released, Request, Standing,
        error::{Error, Result},
    },
    engines::{
        net::together::join_until,
        redis::wire::{
            call::Call,
            digits::Digits,
            hex::{hex, millis},
            resp::Value,
        },
    },
};

pub(super) struct RedlockClaim {
    shared: Arc<Shared>,
    request: Request,
    names: Names,
    asker: Asker,
    server_claims: Vec<ServerClaim>,
    has_asked: bool,
    /// Whether a majority has confirmed a release, and nothing was asked since.
    is_released: bool,
    grant: Option<Grant>,
}

type Votes = Vec<Option<Result<Vote>>>;

impl RedlockClaim {
    pub(super) fn new(shared: Arc<Shared>, request: Request) -> Self {
        Self {
            names: shared.prefix.names(&request.key),
            asker: Asker { owner: hex(request.owner), round: 0 },
            server_claims: shared.servers.iter().map(|_| ServerClaim::default()).collect(),
            has_asked: false,
            is_released: false,
            grant: None,
            shared,
            request,
        }
    }

    /// Asks all servers, until a majority has decided.
    async fn ask(&mut self, way: Way, now: Moment) -> (Verdict, Votes) {
        let Self { shared, names, asker, server_claims, .. } = self;
        let ttl_ms = millis(self.request.ttl);
        let question = &Question::new(names, &shared.prefix, asker, ttl_ms, way);
        let votes = server_claims.iter_mut().zip(&shared.servers);
        let votes = votes.map(|(server_claim, server)| server_claim.ask(server, question, now));
        join_until(votes, |votes| shared.quorum.won(votes)).await
    }

    /// Finds the fence of a lock that was won, and sees to it that a majority knows it before
    /// anybody is told: then whoever is granted the lock next finds a larger one.
    async fn grant(&mut self, votes: &Votes, now: Moment) -> Result<Grant> {
        let (quorum, servers) = (self.shared.quorum, &self.shared.servers);
        let n_kept = votes.iter().filter(|vote| matches!(vote, Some(Ok(Vote::Kept(_))))).count();
        if n_kept >= quorum.majority
            && let Some(told) = &self.grant
        {
            return Ok(told.clone());
        }
        let last = votes.iter().filter_map(last_number).max().unwrap_or(0);
        let n_know = votes.iter().filter(|vote| last_number(vote) == Some(last)).count();
        if n_know < quorum.majority {
            let raises = votes.iter().zip(servers);
            let raises = raises.map(|(vote, server)| Box::pin(self.raise(server, vote, last, now)));
            let (verdict, answers) = join_until(raises, |answers| quorum.agreed(answers)).await;
            if verdict != Verdict::Yes {
                return Err(self.no_quorum(&answers));
            }
        } else {
            let votes = votes.iter().zip(servers);
            let untold = votes.filter(|(vote, server)| match last_number(vote) {
                Some(number) => number < last,
                // It has not answered yet, or not so: what it counts to is not known.
                None => server.told.is_due(self.counter_at(server), last, now),
            });
            untold.for_each(|(_, server)| self.tell(server, last, now));
        }
        let grant = Grant {
            fence: last.saturating_sub(u64::from(TURNS) - 1),
            n_fences: TURNS,
            lease: self.lease(),
        };
        self.grant = Some(grant.clone());
        Ok(grant)
    }

    /// Whether a server that granted the lock knows its fence, now if not before.
    async fn raise(
        &self,
        server: &Server,
        vote: &Option<Result<Vote>>,
        last: u64,
        now: Moment,
    ) -> Result<bool> {
        let (number, slot) = (last_number(vote), self.names.slot);
        if number == Some(last) {
            return Ok(true);
        }
        if number.is_none() {
            self.tell(server, last, now);
            return Ok(false);
        }
        let mut at = server.reach(slot, now).await?;
        server.call(&mut at, slot, &self.raising(server, last), now).await.map(|_| true)
    }

    /// Sees to it that a server learns a fence that the majority knows without it, so that the fence is still known
    /// when some of the majority forget. Nobody waits for that.
    fn tell(&self, server: &Server, last: u64, now: Moment) {
        if let Some(at) = server.at_hand(self.names.slot, now) {
            server.send_behind(&at, &self.raising(server, last), now);
            server.told.note(self.counter_at(server), last, now);
        }
    }

    /// Which counter of a server is the key's: a cluster has one for each slot.
    fn counter_at(&self, server: &Server) -> u16 {
        if server.is_cluster() { self.names.slot.0 } else { self.names.bucket }
    }

    fn raising(&self, server: &Server, last: u64) -> Call {
        let names = &self.names;
        let beside = server.is_cluster().then(|| self.shared.prefix.counter_in(names.slot));
        let counter = beside.as_ref().unwrap_or(&names.counter);
        Call::script(&RAISE, &[counter], &[Digits::of(last).as_bytes()])
    }

    async fn keep(&self, server: &Server, call: &Call, now: Moment) -> Result<bool> {
        let mut at = server.reach(self.names.slot, now).await?;
        let replies = server.call(&mut at, self.names.slot, call, now).await?;
        Ok(replies.first() == Some(&Value::Int(1)))
    }

    /// Gives everything back that this attempt has got or may still get, without waiting.
    fn give_back(&mut self, now: Moment) {
        let call = self.asker.release(&self.names.lock);
        for (server_claim, server) in self.server_claims.iter_mut().zip(&self.shared.servers) {
            server_claim.give_back(server, &call, now);
        }
        self.next_round();
    }

    fn next_round(&mut self) {
        self.asker.round += 1;
        self.grant = None;
    }

    fn no_quorum<T>(&self, answers: &[Option<Result<T>>]) -> Error {
        self.shared.quorum.error(self.shared.names(), answers)
    }

    /// What is left of the ttl when the clocks of servers go faster than ours.
    fn lease(&self) -> Lease {
        let drift = self.request.ttl / 100 + Duration::from_millis(2);
        Lease::For(self.request.ttl.saturating_sub(drift))
    }
}

#[async_trait]
impl Claim for RedlockClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        self.is_released = false;
        let mut way = if is_first { Way::Take } else { Way::Ask };
        loop {
            let (verdict, votes) = self.ask(way, now).await;
            match verdict {
                Verdict::Yes => {
                    let grant = self.grant(&votes, now).await;
                    if grant.is_err() {
                        self.give_back(now);
                    }
                    return grant.map(Attempt::Granted);
                }
                // Somebody has it, or something else is stored there: a script can tell.
                Verdict::No if way == Way::Take && !votes.iter().any(is_won) => way = Way::Ask,
                Verdict::No => {
                    self.give_back(now);
                    return Ok(Attempt::Busy { retry_in: Some(retry_in(&votes)) });
                }
                Verdict::NoQuorum => {
                    self.give_back(now);
                    return Err(self.no_quorum(&votes));
                }
            }
        }
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        let (value, ttl) = (self.asker.value(), Digits::of(millis(self.request.ttl)));
        let call = &Call::script(&RENEW, &[&self.names.lock], &[&value, ttl.as_bytes()]);
        let answers =
            self.shared.servers.iter().map(|server| Box::pin(self.keep(server, call, now)));
        let (verdict, answers) =
            join_until(answers, |answers| self.shared.quorum.agreed(answers)).await;
        match verdict {
            Verdict::Yes => Ok(Standing::Held(self.lease())),
            Verdict::No => {
                Ok(Standing::Lost("a majority of the servers has another holder, or none".into()))
            }
            Verdict::NoQuorum => Err(self.no_quorum(&answers)),
        }
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.request.ttl = ttl;
        true
    }

    async fn release(&mut self, now: Moment) -> Result<Released> {
        let release = &self.asker.release(&self.names.lock);
        let was_granted = self.grant.is_some();
        self.next_round();
        let Self { shared, names, server_claims, .. } = self;
        let answers = server_claims.iter_mut().zip(&shared.servers);
        let answers = answers
            .map(|(server_claim, server)| server_claim.release(server, names.slot, release, now));
        let (verdict, answers) =
            join_until(answers, |answers| shared.quorum.confirmed(answers)).await;
        if verdict != Verdict::Yes {
            return Err(self.no_quorum(&answers));
        }
        self.is_released = true;
        let n_without = answers.iter().filter(|answer| matches!(answer, Some(Ok(false)))).count();
        let is_not_ours = was_granted && n_without >= self.shared.quorum.majority;
        Ok(if is_not_ours { Released::NotOurs } else { Released::Done })
    }

    fn quick(&mut self) -> Option<&mut dyn Quick> {
        Some(self)
    }
}

/// Only reuse: a majority takes more than one question.
impl Quick for RedlockClaim {
    fn is_reusable(&self) -> bool {
        self.is_released
    }

    fn reuse(&mut self, request: Request) -> Result<(), Request> {
        if !self.is_released {
            return Err(request);
        }
        // What a minority has not confirmed was sent to it, and stands before all that follows.
        self.server_claims.iter_mut().for_each(ServerClaim::begin_again);
        self.asker = Asker { owner: hex(request.owner), round: 0 };
        self.has_asked = false;
        self.is_released = false;
        self.grant = None;
        self.request = request;
        Ok(())
    }
}

impl fmt::Debug for RedlockClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockClaim")
            .field("key", &self.request.key)
            .field("round", &self.asker.round)
            .finish_non_exhaustive()
    }
}

fn is_won(vote: &Option<Result<Vote>>) -> bool {
    last_number(vote).is_some()
}

fn last_number(vote: &Option<Result<Vote>>) -> Option<u64> {
    match vote {
        Some(Ok(Vote::Granted(last) | Vote::Kept(last))) => Some(*last),
        _ => None,
    }
}

/// When to ask again. At random, so that those who wait do not come in step and share the servers
/// out among them again.
fn retry_in(votes: &Votes) -> Duration {
    let random = |from, to| Duration::from_micros(fastrand::u64(from..to));
    if votes.iter().any(is_won) {
        return random(1_000, 20_000);
    }
    let ends_in = votes.iter().filter_map(|vote| match vote {
        Some(Ok(Vote::Busy(ends_in))) => *ends_in,
        _ => None,
    });
    let pause = random(20_000, 80_000);
    ends_in.min().map_or(pause, |ends_in| pause.min(ends_in + random(0, 5_000)))
}
