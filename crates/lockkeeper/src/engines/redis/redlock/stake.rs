//! What a claim has at one server.

use std::sync::Arc;

use super::{
    super::{call::Call, connection::Connection, refusal::strange, resp::Value, slot::Slot},
    question::{Question, SMALLEST_FENCE},
    server::Server,
    tally::Vote,
};
use crate::{engine::Moment, error::Result};

#[derive(Debug, Default)]
pub(super) struct Stake {
    stage: Stage,
    /// The connection that was asked last.
    at: Option<Arc<Connection>>,
    /// Connections that were asked before and have not answered.
    older: Vec<Arc<Connection>>,
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

impl Stake {
    /// Asks for the lock.
    pub(super) async fn ask(
        &mut self,
        server: &Server,
        question: &Question<'_>,
        now: Moment,
    ) -> Result<Vote> {
        let names = question.names;
        let reached = server.reach(names.slot, now).await?;
        let is_lifted = !server.is_cluster() && reached.lifted.has(names.bucket);
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
        let at = self.at.insert(reached);
        let replies = server.call(at, names.slot, call, now).await?;
        if !is_lifted && !server.is_cluster() {
            at.lifted.add(names.bucket);
        }
        let mut vote = question.read(&replies)?;
        if let Vote::Granted(last) = &mut vote
            && *last < SMALLEST_FENCE
        {
            let replies = server.call(at, names.slot, &question.numbers(), now).await?;
            let number = replies.last().and_then(Value::as_int);
            let number = number.and_then(|number| u64::try_from(number).ok());
            *last = number.ok_or_else(|| strange(&replies))?;
        }
        self.stage = match vote {
            Vote::Granted(_) | Vote::Kept(_) => Stage::Holds,
            Vote::Busy(_) => Stage::Nothing,
        };
        Ok(vote)
    }

    /// Sends the release of what the server has or may get, and does not wait: it runs behind what
    /// was asked there.
    pub(super) fn give_back(&mut self, server: &Server, call: &Call, now: Moment) {
        self.give_back_older(server, call, None, now);
        if let (Stage::Unsure | Stage::Holds, Some(at)) = (self.stage, &self.at) {
            server.send_behind(at, call, now);
            self.stage = Stage::GivenBack;
        }
    }

    /// What is still on its way over other connections ends there, behind it.
    fn give_back_older(
        &mut self,
        server: &Server,
        call: &Call,
        except: Option<&Arc<Connection>>,
        now: Moment,
    ) {
        for at in self.older.drain(..) {
            if !except.is_some_and(|except| Arc::ptr_eq(except, &at)) {
                server.send_behind(&at, call, now);
            }
        }
    }

    /// Gives back what the server has or may get; ends when it has confirmed that.
    pub(super) async fn release(
        &mut self,
        server: &Server,
        slot: Slot,
        release: &Call,
        now: Moment,
    ) -> Result<bool> {
        if self.stage == Stage::Nothing && self.older.is_empty() {
            return Ok(true);
        }
        let reached = server.reach_anyhow(slot, now).await;
        let reached_at = reached.as_ref().ok();
        if self.stage == Stage::Unsure {
            self.older.extend(self.at.take());
            self.stage = Stage::GivenBack;
        }
        self.give_back_older(server, release, reached_at, now);
        server.call(&mut reached?, slot, release, now).await?;
        self.stage = Stage::Nothing;
        Ok(true)
    }
}
