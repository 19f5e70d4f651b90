//! When most sentinels name a primary of an earlier term than ours.
//!
//! Usually they have not been told yet: the primary that they name was replaced, and may live on and take itself for the
//! primary. But the sentinel that told us of the later term may have died before it told the others. They then make the
//! promoted server a replica again, and nobody will ever speak of the later term any more.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::route::{Found, Kind, Shared};
use crate::{
    engine::Moment,
    engines::redis::wire::slot::Slot,
    tools::{sync::locked, url::Host},
};

/// Sentinels tell each other of a new primary every 2 seconds: most of them have been told after so long.
const TOLD_AFTER: Duration = Duration::from_secs(10);

/// What the sentinels say that are behind, in one search.
#[derive(Debug)]
pub(crate) struct Votes {
    pub(crate) now: Moment,
    /// The term that they are behind.
    term: u64,
    /// The primary of that term.
    ours: Option<Arc<Host>>,
    n_asked: usize,
    /// How many votes are most of them.
    n_needed: usize,
    votes: Mutex<Vec<Vote>>,
}

#[derive(Debug)]
struct Vote {
    named: Option<Arc<Host>>,
    others: Vec<Host>,
}

impl Votes {
    pub(crate) fn new(shared: &Shared, n_asked: usize, now: Moment) -> Self {
        let state = locked(&shared.state);
        let ours = state.table.as_ref().and_then(|table| table.host(Slot(0)));
        let n_needed = state.n_sentinels / 2 + 1;
        Self { now, term: state.term, ours, n_asked, n_needed, votes: Mutex::default() }
    }

    pub(crate) fn is_behind(&self, found: &Found) -> bool {
        found.term < self.term
    }

    /// Counts one more. Tells whether all are behind, and whether most of them name the same server.
    fn count(&self, found: &Found) -> (bool, bool) {
        let mut votes = locked(&self.votes);
        votes.push(Vote { named: found.table.host(Slot(0)), others: found.guides.clone() });
        let named = &votes[votes.len() - 1].named;
        let mut voters: Vec<&Vote> = Vec::new();
        for vote in votes.iter().filter(|vote| vote.named == *named) {
            // One that was asked by two names knows the same others both times, and has one vote.
            if !voters.iter().any(|voter| is_same(&voter.others, &vote.others)) {
                voters.push(vote);
            }
        }
        (votes.len() == self.n_asked, voters.len() >= self.n_needed)
    }
}

fn is_same(these: &[Host], those: &[Host]) -> bool {
    these.len() == those.len() && these.iter().all(|host| those.contains(host))
}

impl Shared {
    /// Whether a primary of an earlier term is the one to ask, because the later term is forgotten. The server itself
    /// has said already that it is a primary. If so, the later term is forgotten here as well.
    ///
    /// A deposed primary must not come back that way while the word of the new one still goes round. So it does not do
    /// that most sentinels name it: the server of the later term must say that it is a replica; or they must have named
    /// it for long enough to have been told.
    pub(crate) async fn overrules(&self, votes: &Votes, found: &Found) -> bool {
        let (is_by_all, is_by_most) = votes.count(found);
        let is_right = is_by_all
            || is_by_most
                && (found.table.host(Slot(0)) == votes.ours
                    || self.should_know(votes)
                    || self.is_replica(votes.ours.as_deref()).await);
        if is_right {
            let mut state = locked(&self.state);
            if state.term == votes.term {
                state.term = found.term;
            }
        }
        is_right
    }

    /// Whether most sentinels were behind the same term long ago already.
    fn should_know(&self, votes: &Votes) -> bool {
        let mut state = locked(&self.state);
        if state.term != votes.term {
            return false;
        }
        let since = *state.behind_since.get_or_insert(votes.now);
        votes.now.since(since) >= TOLD_AFTER
    }

    async fn is_replica(&self, host: Option<&Host>) -> bool {
        match (&self.kind, host) {
            (Kind::Sentinel { server, .. }, Some(host)) => {
                server.is_replica(host).await.unwrap_or(false)
            }
            _ => false,
        }
    }
}
