//! What to do when most sentinels name a primary of an earlier term than the one we know.
//!
//! Usually these sentinels have not heard of the later term yet: the primary that they name was replaced, and may still
//! run and consider itself primary. But the sentinel that told us of the later term may have died before it told the
//! others. Then the others make the promoted server a replica again, and the later term never becomes known.

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

/// Sentinels tell each other of a new primary every 2 seconds: after this long, most of them must have heard.
const TOLD_AFTER: Duration = Duration::from_secs(10);

/// In one search, the responses of sentinels that are behind.
#[derive(Debug)]
pub(crate) struct Votes {
    pub(crate) now: Moment,
    /// The later term, which we know and they do not.
    term: u64,
    /// The primary of that term.
    ours: Option<Arc<Host>>,
    n_asked: usize,
    /// How many votes make a majority.
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

    /// Counts one more vote. Returns whether all sentinels are behind, and whether most of them name the same server.
    fn count(&self, found: &Found) -> (bool, bool) {
        let mut votes = locked(&self.votes);
        votes.push(Vote { named: found.table.host(Slot(0)), others: found.guides.clone() });
        let named = &votes[votes.len() - 1].named;
        let mut voters: Vec<&Vote> = Vec::new();
        for vote in votes.iter().filter(|vote| vote.named == *named) {
            // A sentinel that was asked under two names lists the same other sentinels each time, and has one vote.
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
    /// Whether the primary of an earlier term counts, because the later term was undone. The server itself has already
    /// said that it is a primary. If it counts, the later term is forgotten here as well.
    ///
    /// A deposed primary must not be used again while the news of the new primary is still spreading. So a majority of
    /// sentinels is not enough: either the server of the later term says that it is a replica, or the majority has
    /// named the earlier primary for so long that it must have heard of the later term.
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

    /// Whether most sentinels have been behind the same term for long enough.
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
