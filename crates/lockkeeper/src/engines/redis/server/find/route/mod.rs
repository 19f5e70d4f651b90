//! Which server has which keys, where that can change: what we were told last, and asking again.
//!
//! Those who can be asked are the guides: sentinels, or the nodes of a cluster. A few are asked at
//! once and the first good answer counts, so one that is silent keeps nobody waiting. All who need
//! the answer share one search.

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

/// How many nodes of a cluster are asked at once; the next search asks others. Sentinels are few, and are all asked:
/// what most of them say may count.
const MOST_AT_ONCE: usize = 5;
/// A search that has found nothing for so long is given up for another one.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// What a search that failed has found out is good for so long: many may wait, and each asks again.
const FRESH_FOR: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Route {
    own_runtime: Arc<OwnRuntime>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// The hosts of the URL: asked as long as nobody better is known, and never forgotten.
    seeds: Vec<Host>,
    pub(crate) hello: Hello,
    pub(crate) kind: Kind,
    switchboards: Vec<Switchboard>,
    pub(crate) state: Mutex<State>,
}

/// What the guides are.
#[derive(Debug)]
pub(crate) enum Kind {
    Cluster,
    /// Sentinels know the primary by this name; whether it is one is told by the server itself.
    Sentinel {
        primary: String,
        server: Box<Hello>,
    },
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) table: Option<Table>,
    /// Of the primary that sentinels name: it grows with every new one.
    pub(crate) term: u64,
    /// Since when most sentinels are known to be behind this term.
    pub(crate) behind_since: Option<Moment>,
    /// How many sentinels there are, as far as we were told.
    pub(crate) n_sentinels: usize,
    pub(crate) guides: Vec<Host>,
    /// Which sentinels are listened to, and when that was seen to last.
    pub(crate) watches: Vec<(Host, AbortHandle)>,
    watched_at: Moment,
    /// Whether something in the table turned out to be wrong, so that more may be.
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

/// What a guide told.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) table: Table,
    /// Others who can be asked.
    pub(crate) guides: Vec<Host>,
    /// The term of the primary, where sentinels name it: the later one counts, whoever says so.
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
            // Nobody waits for it: what was wrong is known already. Trouble will show again.
            let _ = self.search(now);
        }
        host
    }

    /// A slot has another server than we thought.
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

    /// Asks the guides, together with all others who wait for their answer.
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
        // On our own runtime, because a caller may go away and others wait as well.
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
    /// How long after its start it is shared.
    fn lasts(&self) -> Duration {
        if !self.is_over.is_up() {
            return STALLED_AFTER;
        }
        if locked(&self.error).is_some() { FRESH_FOR } else { Duration::ZERO }
    }
}

/// Tells the end of a search however it comes.
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
            // Decided as soon as enough of them have answered: others may be silent for ever.
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

    /// What is wrong for good is said first; else what each of them said.
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
        // Another may have been heard of while this one was asked.
        if found.term < state.term {
            return;
        }
        let left = self.install(&mut state, found.table, found.term);
        drop(state);
        end_all(&left);
    }

    /// A sentinel names a primary. It counts if it is of a later term than the one we know.
    pub(crate) fn turn_to(&self, host: Host, term: u64) {
        let mut state = locked(&self.state);
        if term <= state.term || state.table.is_none() {
            return;
        }
        let left = self.install(&mut state, Table::of_one(host), term);
        drop(state);
        end_all(&left);
    }

    /// Gives the connections that are to be ended.
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

/// Ends connections to servers that are not to be asked any more, and with them what they have not answered: a grant or
/// a renewal of such a server must not count.
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
