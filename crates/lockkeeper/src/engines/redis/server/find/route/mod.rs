//! Which server has which keys, where that can change: the latest known answer, and searches for a newer one.
//!
//! Guides are the servers that can be asked: sentinels, or the nodes of a cluster. Several are asked at once and the
//! first good response counts, so a silent guide delays nobody. All callers share one search.

#[cfg(test)]
mod tests;

use std::{
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{runtime::Handle, task::AbortHandle};

use super::{cluster, majority::Votes, sentinel, table::Table, watch};
use crate::{
    engine::{
        Moment,
        error::{Error, ErrorKind, Result},
    },
    engines::{
        net::{driving::Driven, own_runtime::OwnRuntime, together::first_good},
        redis::{
            server::{connections::Switchboard, handshake::Hello},
            wire::{
                connection::Connection,
                slot::{N_SLOTS, Slot},
            },
        },
    },
    tools::{
        sync::{Flag, locked},
        url::Host,
    },
};

/// How many nodes of a cluster one search asks; the next search asks others. Sentinels are few, and all of them are
/// asked, because their majority may count.
const MOST_AT_ONCE: usize = 5;
/// A search that has found nothing for this long is replaced by a new one.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// How long the result of a failed search is shared: many callers may wait, and each of them retries.
const FRESH_FOR: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Route {
    own_runtime: Arc<OwnRuntime>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// The hosts of the URL. They are asked while no other guides are known, and are never forgotten.
    seeds: Vec<Host>,
    pub(crate) hello: Hello,
    pub(crate) kind: Kind,
    switchboards: Vec<Switchboard>,
    pub(crate) state: Mutex<State>,
}

/// The kind of the guides.
#[derive(Debug)]
pub(crate) enum Kind {
    Cluster,
    /// Sentinels, which know the primary by this name. The server itself confirms that it is a primary.
    Sentinel {
        primary: String,
        server: Box<Hello>,
    },
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) table: Option<Table>,
    /// The term of the primary that sentinels name. It grows with every new primary.
    pub(crate) term: u64,
    /// Since when most sentinels are known to be behind this term.
    pub(crate) behind_since: Option<Moment>,
    /// How many sentinels there are, according to the sentinels.
    pub(crate) n_sentinels: usize,
    pub(crate) guides: Vec<Host>,
    /// The sentinels with a subscription, and when the subscriptions were last checked.
    pub(crate) watches: Vec<(Host, AbortHandle)>,
    watched_at: Moment,
    /// Whether an entry of the table was found to be wrong: then others may be wrong too.
    is_stale: bool,
    n_searches: usize,
    search: Option<(Arc<Search>, AbortHandle)>,
}

#[derive(Debug)]
struct Search {
    started_at: Moment,
    is_over: Flag,
    /// Why nothing was found.
    error: Mutex<Option<Error>>,
}

/// The response of a guide.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) table: Table,
    /// Other guides.
    pub(crate) guides: Vec<Host>,
    /// The term of the primary, if a sentinel named it. The latest term counts, whichever sentinel names it.
    pub(crate) term: u64,
}

impl Route {
    pub(crate) fn new(
        seeds: Vec<Host>,
        hello: Hello,
        kind: Kind,
        switchboards: Vec<Switchboard>,
        own_runtime: Arc<OwnRuntime>,
    ) -> Self {
        let state = State {
            table: None,
            term: 0,
            behind_since: None,
            n_sentinels: seeds.len(),
            guides: seeds.clone(),
            watches: Vec::new(),
            watched_at: Moment::from_nanos(0),
            is_stale: false,
            n_searches: 0,
            search: None,
        };
        let shared =
            Arc::new(Shared { seeds, hello, kind, switchboards, state: Mutex::new(state) });
        Self { own_runtime, shared }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.shared.kind, Kind::Cluster)
    }

    /// The server of a slot, as far as we know.
    pub(crate) fn host(&self, slot: Slot, now: Moment) -> Option<Arc<Host>> {
        let mut state = locked(&self.shared.state);
        let host = state.table.as_ref()?.host(slot);
        let is_stale = mem::take(&mut state.is_stale);
        let is_watch_due = now.since(state.watched_at) >= watch::LOOK_AGAIN_AFTER;
        if is_watch_due {
            state.watched_at = now;
        }
        drop(state);
        if is_watch_due && let Ok(own_runtime) = self.own_runtime.handle() {
            watch::keep(&self.shared, &own_runtime);
        }
        if is_stale {
            // Nobody waits for this search, because the wrong entry is already corrected. Errors will show again.
            let _ = self.search(now);
        }
        host
    }

    /// Notes that a slot has another server than the table says.
    pub(crate) fn has_moved(&self, slot: Slot, host: Host) {
        let mut state = locked(&self.shared.state);
        if let Some(table) = &mut state.table {
            table.set(slot.0, slot.0, host);
        }
        state.is_stale = true;
    }

    /// All servers that have keys.
    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        let state = locked(&self.shared.state);
        state.table.as_ref().map_or_else(Vec::new, Table::all)
    }

    /// Whether every slot has a server.
    pub(crate) fn check(&self) -> Result<()> {
        let state = locked(&self.shared.state);
        match state.table.as_ref().map(Table::n_missing) {
            None | Some(0) => Ok(()),
            Some(n_missing) => Err(Error::new(
                ErrorKind::Unreachable,
                format!(
                    "{n_missing} of the cluster's {N_SLOTS} slots have no server; repair it with \
                     redis-cli --cluster fix"
                ),
            )),
        }
    }

    /// Asks the guides, in a search that is shared with all other callers.
    pub(crate) async fn look_again(&self, now: Moment) -> Result<()> {
        let search = self.search(now)?;
        search.is_over.raised().await;
        match &*locked(&search.error) {
            None => Ok(()),
            Some(error) => Err(error.echo()),
        }
    }

    /// The search that is under way, or a new one.
    fn search(&self, now: Moment) -> Result<Arc<Search>> {
        let own_runtime = self.own_runtime.handle()?;
        let mut state = locked(&self.shared.state);
        if let Some((search, _)) = &state.search
            && now.since(search.started_at) < search.lasts()
        {
            return Ok(Arc::clone(search));
        }
        let given_up = Error::unreachable("the search for the servers was given up", "no answer");
        let search = Arc::new(Search {
            started_at: now,
            is_over: Flag::default(),
            error: Mutex::new(Some(given_up)),
        });
        let n_at_once = if self.is_cluster() { MOST_AT_ONCE } else { state.guides.len() };
        let guides = state.next_guides(n_at_once);
        let (shared, ending) = (Arc::clone(&self.shared), Ending(Arc::clone(&search)));
        // On our own runtime: the caller may be dropped while others still wait for the search.
        let task = own_runtime.spawn(async move {
            let found = shared.find(guides, now).await;
            *locked(&ending.0.error) = found.map(|found| shared.take(found)).err();
            drop(ending);
            watch::keep(&shared, &Handle::current());
        });
        let before = state.search.replace((Arc::clone(&search), task.abort_handle()));
        drop(state);
        if let Some((_, task)) = before {
            task.abort();
        }
        Ok(search)
    }
}

impl Search {
    /// For how long after its start the search is shared.
    fn lasts(&self) -> Duration {
        if !self.is_over.is_up() {
            return STALLED_AFTER;
        }
        if locked(&self.error).is_some() { FRESH_FOR } else { Duration::ZERO }
    }
}

/// Announces the end of a search, even if its task is dropped.
struct Ending(Arc<Search>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.is_over.raise();
    }
}

impl State {
    fn next_guides(&mut self, n_at_once: usize) -> Vec<Host> {
        let n_guides = self.guides.len().max(1);
        let first = self.n_searches.wrapping_mul(n_at_once) % n_guides;
        self.n_searches = self.n_searches.wrapping_add(1);
        self.guides.iter().cycle().skip(first).take(n_guides.min(n_at_once)).cloned().collect()
    }
}

impl Shared {
    async fn find(&self, guides: Vec<Host>, now: Moment) -> Result<Found> {
        let votes = &Votes::new(self, guides.len(), now);
        let asked = guides.iter().map(|guide| async move {
            let found = match &self.kind {
                Kind::Cluster => cluster::ask(&self.hello, guide).await,
                Kind::Sentinel { primary, server } => {
                    sentinel::ask(&self.hello, guide, primary, server).await
                }
            }?;
            // Decide as soon as enough guides have responded: others may never respond.
            if votes.is_behind(&found) && !self.overrules(votes, &found).await {
                return Err(Error::unreachable(
                    "it names a primary that was replaced",
                    "not yet told",
                ));
            }
            Ok(found)
        });
        let found = first_good(asked.collect()).await;
        found.map_err(|errors| self.nobody_told(&guides, errors))
    }

    /// The error of a search that found nothing: a permanent error if there is one, otherwise the error of each guide.
    fn nobody_told(&self, guides: &[Host], errors: Vec<Error>) -> Error {
        let told = guides.iter().zip(errors);
        let (mut said, what) = (Vec::new(), self.kind.names());
        for (guide, error) in told {
            if !error.may_pass() {
                return Error::new(error.kind(), format!("{what} {guide}: {}", error.echo()));
            }
            said.push(format!("{guide}: {}", error.echo()));
        }
        let message = format!("no {what} could say where the locks are ({})", said.join("; "));
        Error::new(ErrorKind::Unreachable, message)
    }

    fn take(&self, found: Found) {
        let mut guides = self.seeds.clone();
        let n_sentinels = guides.len().max(found.guides.len() + 1);
        for guide in found.guides {
            if !guides.contains(&guide) {
                guides.push(guide);
            }
        }
        let mut state = locked(&self.state);
        state.guides = guides;
        state.n_sentinels = n_sentinels;
        // A later primary may have been announced while this guide was asked.
        if found.term < state.term {
            return;
        }
        let left = self.install(&mut state, found.table, found.term);
        drop(state);
        end_all(&left);
    }

    /// Handles a primary that a sentinel names. It counts if its term is later than the one we know.
    pub(crate) fn turn_to(&self, host: Host, term: u64) {
        let mut state = locked(&self.state);
        if term <= state.term || state.table.is_none() {
            return;
        }
        let left = self.install(&mut state, Table::of_one(host), term);
        drop(state);
        end_all(&left);
    }

    /// Replaces the table, and returns the connections that must be ended.
    fn install(&self, state: &mut State, table: Table, term: u64) -> Vec<Arc<Connection>> {
        let only = match self.kind {
            Kind::Cluster => None,
            Kind::Sentinel { .. } => table.host(Slot(0)),
        };
        state.term = term;
        state.behind_since = None;
        state.table = Some(table);
        let Some(only) = only else { return Vec::new() };
        self.switchboards.iter().flat_map(|board| board.turn_to(&only)).collect()
    }
}

/// Ends connections to servers that must not be used any more. Their pending calls fail, because a grant or a renewal
/// of such a server must not count.
fn end_all(connections: &[Arc<Connection>]) {
    for connection in connections {
        let message = format!("{} is not the primary any more", connection.host);
        connection.end(&Error::unreachable(&message, "replaced"));
    }
}

impl Kind {
    fn names(&self) -> &'static str {
        match self {
            Self::Cluster => "node of the cluster",
            Self::Sentinel { .. } => "sentinel",
        }
    }
}
