//! What a claim has at one server.

use std::sync::Arc;

use super::{
    RELEASE_MANY,
    one_reply::{Long, OneReply, Read, long},
    question::{Question, SMALLEST_FENCE},
    server::Server,
    tally::Vote,
};
use crate::{
    engine::{Moment, error::Result},
    engines::redis::wire::{
        call::Call,
        connection::{Connection, Haste},
        outbox::{Batch, Caller},
        refusal::{first_error, no_error, unexpected},
        reply::{Answer, Replies},
        resp::Value,
        slot::Slot,
    },
};

#[derive(Debug, Default)]
pub(super) struct ServerClaim {
    stage: Stage,
    /// The connection that was asked last.
    at: Option<Arc<Connection>>,
    /// Connections that were asked before and have not answered.
    older: Vec<Arc<Connection>>,
    /// What the lock was asked for with, if that is known.
    asked_with: Option<Batch>,
    /// Where the answer to the last call is, or will be.
    answer: Option<Arc<Answer>>,
}

/// What the server may have for the claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Nothing,
    /// It was asked, and has not answered.
    Unsure,
    Holds,
    /// It was told to give it back, and has not confirmed that.
    GivenBack,
}

impl ServerClaim {
    /// Asks for the lock.
    pub(super) fn ask<'a>(
        &'a mut self,
        server: &'a Server,
        question: &'a Question<'a>,
        now: Moment,
    ) -> OneReply<Asked<'a>> {
        let Some(answer) = self.ask_at_once(server, question, now) else {
            return OneReply::Long(long(self.ask_by_all_means(server, question, now)));
        };
        OneReply::Short(answer, Some(Asked { server_claim: self, server, question, now }))
    }

    /// Asks for the lock if there is nothing to see to before.
    fn ask_at_once(
        &mut self,
        server: &Server,
        question: &Question<'_>,
        now: Moment,
    ) -> Option<Arc<Answer>> {
        let names = question.names;
        if server.is_cluster() || self.stage == Stage::Unsure {
            return None;
        }
        let at = server.at_hand(names.slot, now).filter(|at| at.lifted.has(names.bucket))?;
        self.stage = Stage::Unsure;
        let answer = Arc::clone(Answer::kept(&mut self.answer, question.usual.n_replies));
        self.asked_with = Some(at.send_for(&answer, &question.usual, now, Haste::of_caller()));
        self.at = Some(at);
        Some(answer)
    }

    async fn ask_by_all_means(
        &mut self,
        server: &Server,
        question: &Question<'_>,
        now: Moment,
    ) -> Result<Vote> {
        let names = question.names;
        let reached = server.reach(names.slot, now).await?;
        let is_lifted = server.is_single() && reached.lifted.has(names.bucket);
        let other;
        let call = if is_lifted {
            &question.usual
        } else {
            other = if server.is_cluster() { question.in_cluster() } else { question.lifting() };
            &other
        };
        if self.stage == Stage::Unsure
            && let Some(before) = self.at.take_if(|at| !Arc::ptr_eq(at, &reached))
        {
            self.older.push(before);
        }
        self.stage = Stage::Unsure;
        self.asked_with = None;
        let at = self.at.insert(reached);
        let replies = server.call(at, names.slot, call, now).await?;
        if !is_lifted && server.is_single() {
            at.lifted.add(names.bucket);
        }
        match question.read(&replies)? {
            Vote::Granted(last) if last < SMALLEST_FENCE => {
                self.take_numbers(server, question, now).await
            }
            vote => Ok(self.noted(vote)),
        }
    }

    /// Takes fence numbers for a lock that is ours already, from a counter that was not there.
    async fn take_numbers(
        &mut self,
        server: &Server,
        question: &Question<'_>,
        now: Moment,
    ) -> Result<Vote> {
        let slot = question.names.slot;
        let mut at = match &self.at {
            Some(at) => Arc::clone(at),
            None => server.reach(slot, now).await?,
        };
        let replies = server.call(&mut at, slot, &question.numbers(), now).await?;
        let number = replies.last().and_then(Value::as_int);
        let number = number.and_then(|number| u64::try_from(number).ok());
        let last = number.ok_or_else(|| unexpected(&replies))?;
        Ok(self.noted(Vote::Granted(last)))
    }

    fn noted(&mut self, vote: Vote) -> Vote {
        self.stage = match vote {
            Vote::Granted(_) | Vote::Kept(_) => Stage::Holds,
            Vote::Busy(_) => Stage::Nothing,
        };
        vote
    }

    /// Sends the release of what the server has or may get, and does not wait: it runs behind what
    /// was asked there.
    pub(super) fn give_back(&mut self, server: &Server, call: &Call, now: Moment) {
        drop(server.behind(call, self.older.drain(..).collect(), now));
        if let (Stage::Unsure | Stage::Holds, Some(at)) = (self.stage, &self.at) {
            server.send_behind(at, call, now);
            self.stage = Stage::GivenBack;
        }
    }

    /// Gives back what the server has or may get; ends when it has confirmed that, and answers whether
    /// it had the lock for the claim.
    pub(super) fn release<'a>(
        &'a mut self,
        server: &'a Server,
        slot: Slot,
        release: &'a Call,
        now: Moment,
    ) -> OneReply<Released<'a>> {
        if self.stage == Stage::Nothing && self.older.is_empty() {
            return OneReply::Done(Ok(false));
        }
        let Some(answer) = self.release_at_once(server, slot, release, now) else {
            return OneReply::Long(long(self.release_by_all_means(server, slot, release, now)));
        };
        OneReply::Short(answer, Some(Released { server_claim: self, server, slot, release, now }))
    }

    /// Forgets a lock that was given back, as far as anybody needs to know.
    pub(super) fn begin_again(&mut self) {
        self.stage = Stage::Nothing;
        self.at = None;
        self.older.clear();
    }

    /// Sends the release if whatever is on its way goes over the same connection.
    fn release_at_once(
        &mut self,
        server: &Server,
        slot: Slot,
        release: &Call,
        now: Moment,
    ) -> Option<Arc<Answer>> {
        let at = server.at_hand(slot, now)?;
        let is_elsewhere = self.stage == Stage::Unsure
            && !self.at.as_ref().is_some_and(|asked| Arc::ptr_eq(asked, &at));
        if is_elsewhere || !self.older.is_empty() {
            return None;
        }
        // What was taken in an earlier round, or is still to be sent, only the script for one can find.
        let asked_with = match self.stage {
            Stage::Holds => Some(None),
            Stage::Unsure => self.asked_with.map(Some),
            Stage::Nothing | Stage::GivenBack => None,
        };
        self.stage = Stage::GivenBack;
        let answer = Arc::clone(Answer::kept(&mut self.answer, release.n_replies));
        let haste = Haste::of_caller();
        match (&release.again, asked_with) {
            (Some(again), Some(behind)) if !server.is_cluster() => {
                let caller = Caller { answer: Arc::clone(&answer), again: Some(Arc::clone(again)) };
                at.send_release(caller, now, haste, again.as_release(&RELEASE_MANY), behind);
            }
            _ => {
                at.send_for(&answer, release, now, haste);
            }
        }
        Some(answer)
    }

    async fn release_by_all_means(
        &mut self,
        server: &Server,
        slot: Slot,
        release: &Call,
        now: Moment,
    ) -> Result<bool> {
        let reached = server.reach_anyhow(slot, now).await;
        let reached_at = reached.as_ref().ok();
        if self.stage == Stage::Unsure {
            self.older.extend(self.at.take());
            self.stage = Stage::GivenBack;
        }
        // What is still on its way over other connections ends there, behind it.
        self.older.retain(|at| !reached_at.is_some_and(|reached| Arc::ptr_eq(reached, at)));
        let mut behind = server.behind(release, self.older.drain(..).collect(), now);
        if self.stage != Stage::Holds {
            behind.send();
        }
        let replies = server.call(&mut reached?, slot, release, now).await?;
        self.stage = Stage::Nothing;
        Ok(had_it(&replies))
    }
}

/// Reads what a server that was asked for the lock says.
pub(super) struct Asked<'a> {
    server_claim: &'a mut ServerClaim,
    server: &'a Server,
    question: &'a Question<'a>,
    now: Moment,
}

impl<'a> Read for Asked<'a> {
    type Output = Vote;
    type Long = Long<'a, Vote>;

    fn read(self, answer: Result<Replies>) -> OneReply<Self> {
        let Self { server_claim, server, question, now } = self;
        let replies = match answer {
            Ok(replies) if took_nothing(&replies) => {
                server_claim.stage = Stage::Nothing;
                return OneReply::Long(long(server_claim.ask_by_all_means(server, question, now)));
            }
            Ok(replies) => replies,
            Err(error) => return OneReply::Done(Err(error)),
        };
        match no_error(replies).and_then(|replies| question.read(&replies)) {
            Ok(Vote::Granted(last)) if last < SMALLEST_FENCE => {
                OneReply::Long(long(server_claim.take_numbers(server, question, now)))
            }
            vote => OneReply::Done(vote.map(|vote| server_claim.noted(vote))),
        }
    }
}

/// Reads what a server that was told to give the lock back says.
pub(super) struct Released<'a> {
    server_claim: &'a mut ServerClaim,
    server: &'a Server,
    slot: Slot,
    release: &'a Call,
    now: Moment,
}

impl<'a> Read for Released<'a> {
    type Output = bool;
    type Long = Long<'a, bool>;

    fn read(self, answer: Result<Replies>) -> OneReply<Self> {
        let Self { server_claim, server, slot, release, now } = self;
        match answer {
            Ok(replies) if first_error(&replies).is_some() => {
                OneReply::Long(long(server_claim.release_by_all_means(server, slot, release, now)))
            }
            Ok(replies) => {
                server_claim.stage = Stage::Nothing;
                OneReply::Done(Ok(had_it(&replies)))
            }
            Err(error) => OneReply::Done(Err(error)),
        }
    }
}

/// Whether a release found the lock: both scripts answer 1 then.
fn had_it(replies: &[Value]) -> bool {
    matches!(replies, [.., Value::Int(1)])
}

/// Whether the lock itself was refused. When only its numbers were, it is ours and must be given back.
fn took_nothing(replies: &[Value]) -> bool {
    matches!(replies, [Value::Error(_), ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_without_numbers_is_still_a_lock() {
        let error = || Value::Error("OOM command not allowed".into());
        assert!(took_nothing(&[error(), error()]));
        assert!(took_nothing(&[error(), Value::Int(1)]));
        assert!(!took_nothing(&[Value::Okay, error()]));
    }
}
