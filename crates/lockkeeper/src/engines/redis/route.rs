//! Which server has which keys, where that can change: what we were told last, and asking again.
//!
//! Those who can be asked are the guides: sentinels, or the nodes of a cluster. A few are asked at
//! once and the first good answer counts, so one that is silent keeps nobody waiting. All who need
//! the answer share one search.

use std::{
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::task::AbortHandle;

use super::{
    cluster,
    driver::gone,
    handshake::Hello,
    home::Home,
    sentinel,
    slot::{N_SLOTS, Slot},
    together::first_good,
};
use crate::{
    engine::Moment,
    error::{Error, ErrorKind, Result},
    sync::{Flag, locked},
    url::Host,
};

/// How many guides are asked at once; the next search asks others.
const MOST_AT_ONCE: usize = 5;
/// A search that has found nothing for so long is given up for another one.
const STALLED_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Route {
    home: Arc<Home>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The hosts of the URL: asked as long as nobody better is known, and never forgotten.
    seeds: Vec<Host>,
    hello: Hello,
    kind: Kind,
    state: Mutex<State>,
}

/// What the guides are.
#[derive(Debug)]
pub(super) enum Kind {
    Cluster,
    /// Sentinels know the primary by this name; whether it is one is told by the server itself.
    Sentinel {
        primary: String,
        server: Box<Hello>,
    },
}

#[derive(Debug)]
struct State {
    table: Option<Table>,
    guides: Vec<Host>,
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
pub(super) struct Found {
    pub(super) table: Table,
    /// Others who can be asked.
    pub(super) guides: Vec<Host>,
}

/// The server of each slot.
#[derive(Debug)]
pub(super) struct Table {
    hosts: Vec<Arc<Host>>,
    /// Which of the hosts has the slot.
    slots: Box<[u16]>,
}

/// The number of no host.
const NOBODY: u16 = u16::MAX;

impl Table {
    pub(super) fn empty() -> Self {
        Self { hosts: Vec::new(), slots: vec![NOBODY; N_SLOTS.into()].into() }
    }

    /// Says who has the slots from one to another, both included.
    pub(super) fn set(&mut self, first: u16, last: u16, host: Host) {
        let known = self.hosts.iter().position(|known| **known == host);
        let number = known.unwrap_or(self.hosts.len());
        if known.is_none() {
            self.hosts.push(Arc::new(host));
        }
        let number = u16::try_from(number).unwrap_or(NOBODY);
        let slots = self.slots.get_mut(usize::from(first)..=usize::from(last));
        slots.into_iter().for_each(|slots| slots.fill(number));
    }

    fn host(&self, slot: Slot) -> Option<Arc<Host>> {
        let number = *self.slots.get(usize::from(slot.0))?;
        self.hosts.get(usize::from(number)).cloned()
    }

    fn n_missing(&self) -> usize {
        self.slots.iter().filter(|number| **number == NOBODY).count()
    }
}

impl Route {
    pub(super) fn new(seeds: Vec<Host>, hello: Hello, kind: Kind, home: Arc<Home>) -> Self {
        let state = State {
            table: None,
            guides: seeds.clone(),
            is_stale: false,
            n_searches: 0,
            search: None,
        };
        let shared = Arc::new(Shared { seeds, hello, kind, state: Mutex::new(state) });
        Self { home, shared }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.shared.kind, Kind::Cluster)
    }

    /// The server of a slot, as far as we know.
    pub(super) fn host(&self, slot: Slot, now: Moment) -> Option<Arc<Host>> {
        let mut state = locked(&self.shared.state);
        let host = state.table.as_ref()?.host(slot);
        let is_stale = mem::take(&mut state.is_stale);
        drop(state);
        if is_stale {
            // Nobody waits for it: what was wrong is known already. Trouble will show again.
            let _ = self.search(now);
        }
        host
    }

    /// A slot has another server than we thought.
    pub(super) fn has_moved(&self, slot: Slot, host: Host) {
        let mut state = locked(&self.shared.state);
        if let Some(table) = &mut state.table {
            table.set(slot.0, slot.0, host);
        }
        state.is_stale = true;
    }

    /// All servers that have keys.
    pub(super) fn all(&self) -> Vec<Arc<Host>> {
        let state = locked(&self.shared.state);
        let Some(table) = &state.table else { return Vec::new() };
        let has_slots = |number: usize| table.slots.iter().any(|slot| usize::from(*slot) == number);
        let hosts = table.hosts.iter().enumerate();
        hosts.filter(|(number, _)| has_slots(*number)).map(|(_, host)| Arc::clone(host)).collect()
    }

    /// Whether every slot has a server.
    pub(super) fn check(&self) -> Result<()> {
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
    pub(super) async fn look_again(&self, now: Moment) -> Result<()> {
        let search = self.search(now)?;
        search.is_over.raised().await;
        match &*locked(&search.error) {
            None => Ok(()),
            Some(error) => Err(error.echo()),
        }
    }

    /// The search that is under way, or a new one.
    fn search(&self, now: Moment) -> Result<Arc<Search>> {
        let home = self.home.handle()?;
        let mut state = locked(&self.shared.state);
        if let Some((search, _)) = &state.search
            && !search.is_over.is_up()
            && now.since(search.started_at) < STALLED_AFTER
        {
            return Ok(Arc::clone(search));
        }
        let given_up = gone("the search for the servers was given up", "no answer");
        let search = Arc::new(Search {
            started_at: now,
            is_over: Flag::default(),
            error: Mutex::new(Some(given_up)),
        });
        let guides = state.next_guides();
        let (shared, ending) = (Arc::clone(&self.shared), Ending(Arc::clone(&search)));
        // At home, because a caller may go away and others wait as well.
        let task = home.spawn(async move {
            let found = shared.find(guides).await;
            *locked(&ending.0.error) = found.map(|found| shared.take(found)).err();
            drop(ending);
        });
        let before = state.search.replace((Arc::clone(&search), task.abort_handle()));
        drop(state);
        if let Some((_, task)) = before {
            task.abort();
        }
        Ok(search)
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
    fn next_guides(&mut self) -> Vec<Host> {
        let n_guides = self.guides.len().max(1);
        let first = self.n_searches * MOST_AT_ONCE % n_guides;
        self.n_searches = self.n_searches.wrapping_add(1);
        self.guides.iter().cycle().skip(first).take(n_guides.min(MOST_AT_ONCE)).cloned().collect()
    }
}

impl Shared {
    async fn find(&self, guides: Vec<Host>) -> Result<Found> {
        let asked = guides.iter().map(|guide| async move {
            match &self.kind {
                Kind::Cluster => cluster::ask(&self.hello, guide).await,
                Kind::Sentinel { primary, server } => {
                    sentinel::ask(&self.hello, guide, primary, server).await
                }
            }
        });
        first_good(asked.collect()).await.map_err(|errors| self.nobody_told(&guides, errors))
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
        for guide in found.guides {
            if !guides.contains(&guide) {
                guides.push(guide);
            }
        }
        let mut state = locked(&self.state);
        state.table = Some(found.table);
        state.guides = guides;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_knows_the_server_of_every_slot() {
        let host = |port| Host { name: "h".into(), port };
        let mut table = Table::empty();
        assert_eq!((table.host(Slot(0)), table.n_missing()), (None, N_SLOTS.into()));
        table.set(0, 9, host(1));
        table.set(10, N_SLOTS - 1, host(2));
        table.set(5, 5, host(2));
        let port = |slot| table.host(Slot(slot)).map(|host| host.port);
        assert_eq!([port(0), port(5), port(9), port(10)], [Some(1), Some(2), Some(1), Some(2)]);
        assert_eq!((table.n_missing(), table.hosts.len()), (0, 2));
        table.set(0, N_SLOTS, host(3));
        assert_eq!(table.host(Slot(0)).unwrap().port, 1, "there is no such slot");
    }
}
