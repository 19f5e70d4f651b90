//! Sends a call to the server that has the key.

use std::{fmt::Write as _, sync::Arc};

use tokio::task;

use super::{
    connections::{Connections, Known},
    find::{
        cluster::Redirection,
        route::{Kind, Route},
    },
    handshake::{Hello, Peer},
    settings::{Arrangement, Login, Settings},
};
use crate::{
    engine::{
        Moment,
        error::{Error, ErrorKind, Result},
        poller,
    },
    engines::{
        net::{own_runtime::OwnRuntime, together::first_good},
        redis::wire::{
            call::Call,
            connection::{Connection, Haste, Use},
            refusal::{code, first_error, is_out_of_office, no_error, refusal},
            resp::Value,
            script::Script,
            slot::Slot,
        },
    },
    tools::url::Host,
};

/// How many redirections one call may follow.
const MOST_REDIRECTIONS: usize = 5;
/// How often a server may forget our scripts during one call.
const MOST_LOADS: usize = 5;

#[derive(Debug)]
pub(crate) struct Client {
    connections: Connections,
    /// For calls that must not wait behind a `WAIT`.
    aside: Option<Connections>,
    /// For shard channels.
    shards: Option<Connections>,
    /// How many replicas must have a grant before it counts.
    pub(crate) n_replicas: u32,
    map: Map,
}

/// The connection that a task used last. As long as the same task calls again, no look-up is needed.
#[derive(Debug, Default)]
pub(crate) struct LastConnection(Option<(task::Id, Arc<Connection>)>);

/// Which server has which keys.
#[derive(Debug)]
enum Map {
    Single(Host),
    Route(Route),
}

/// What a dialect needs on every connection.
#[derive(Debug)]
pub(crate) struct Needs {
    pub(crate) scripts: Vec<&'static Script>,
    /// Whether each connection listens on a channel of its own.
    pub(crate) listens: bool,
}

impl Client {
    pub(crate) fn new(settings: &Settings, needs: Needs) -> Result<Self> {
        let own_runtime = Arc::new(OwnRuntime::new("lockkeeper-redis"));
        let may_move = !matches!(settings.arrangement, Arrangement::Single);
        let evicting_allowed = settings.evicting_allowed;
        let bare = |login: &Login, peer| Hello {
            login: login.clone(),
            database: 0,
            tls: settings.tls.clone(),
            scripts: Vec::new(),
            listens: false,
            peer,
            place: None,
        };
        let primary = || bare(&settings.login, Peer::Primary { evicting_allowed, may_move });
        let open = |scripts, listens, purpose| {
            let (database, place) = (settings.database, settings.place.clone());
            let hello = Hello { database, scripts, listens, place, ..primary() };
            Ok(Connections::new(hello, channel_name()?, purpose, Arc::clone(&own_runtime)))
        };
        let n_replicas = settings.wait_replicas;
        let aside = || open(needs.scripts.clone(), false, Use::Calls);
        let aside = (n_replicas > 0).then(aside).transpose()?;
        let shards = matches!(settings.arrangement, Arrangement::Cluster);
        let shards = shards.then(|| open(Vec::new(), false, Use::Shards)).transpose()?;
        let connections = open(needs.scripts, needs.listens, Use::Calls)?;
        let route = |hello, kind| {
            let all = [Some(&connections), aside.as_ref()].into_iter().flatten();
            let switchboards = all.map(Connections::switchboard).collect();
            let hosts = settings.hosts.clone();
            Map::Route(Route::new(hosts, hello, kind, switchboards, Arc::clone(&own_runtime)))
        };
        let map = match &settings.arrangement {
            Arrangement::Single => Map::Single(settings.hosts[0].clone()),
            Arrangement::Cluster => route(bare(&settings.login, Peer::Guide), Kind::Cluster),
            Arrangement::Sentinel { primary: name, login } => {
                let kind = Kind::Sentinel { primary: name.clone(), server: Box::new(primary()) };
                route(bare(login, Peer::Guide), kind)
            }
        };
        Ok(Self { connections, aside, shards, n_replicas, map })
    }

    /// The connection for keys of this slot, if one is open and fit.
    pub(crate) fn at_hand(&self, slot: Slot, now: Moment) -> Option<Arc<Connection>> {
        let known = match &self.map {
            Map::Single(host) => self.connections.known(host, now),
            Map::Route(route) => self.connections.known(&*route.host(slot, now)?, now),
        };
        match known {
            Known::Fit(connection) => Some(connection),
            Known::Unfit | Known::Nothing => None,
        }
    }

    /// Like `at_hand`, for a caller that calls again and again.
    pub(crate) fn at_hand_again(
        &self,
        last_connection: &mut LastConnection,
        slot: Slot,
        now: Moment,
    ) -> Option<Arc<Connection>> {
        // A task never changes its runtime, and a single server is never replaced by another.
        let task = if poller().is_blocked { None } else { task::try_id() };
        if let Some((whose, at)) = &last_connection.0
            && task == Some(*whose)
            && at.is_fit(now)
        {
            return Some(Arc::clone(at));
        }
        let at = self.at_hand(slot, now)?;
        if let Map::Single(_) = self.map {
            last_connection.0 = task.map(|task| (task, Arc::clone(&at)));
        }
        Some(at)
    }

    /// The connection for keys of this slot, opened if there is none. Nothing is sent yet.
    pub(crate) async fn reach(&self, slot: Slot, now: Moment) -> Result<Arc<Connection>> {
        self.reach_among(&self.connections, slot, now).await
    }

    /// Like `reach`, for calls that must not wait behind a grant that waits for replicas.
    pub(crate) async fn reach_aside(&self, slot: Slot, now: Moment) -> Result<Arc<Connection>> {
        self.reach_among(self.aside.as_ref().unwrap_or(&self.connections), slot, now).await
    }

    /// In a cluster, the connection for the shard channels of this slot.
    pub(crate) async fn reach_shard(
        &self,
        slot: Slot,
        now: Moment,
    ) -> Result<Option<Arc<Connection>>> {
        match &self.shards {
            Some(shards) => self.reach_among(shards, slot, now).await.map(Some),
            None => Ok(None),
        }
    }

    async fn reach_among(
        &self,
        connections: &Connections,
        slot: Slot,
        now: Moment,
    ) -> Result<Arc<Connection>> {
        let route = match &self.map {
            Map::Single(host) => return connections.get(host, now),
            Map::Route(route) => route,
        };
        if let Some(host) = route.host(slot, now) {
            match connections.known(&host, now) {
                Known::Fit(connection) => return Ok(connection),
                Known::Nothing => return connections.get(&host, now),
                // Another server may have replaced it.
                Known::Unfit => {}
            }
        }
        route.look_again(now).await?;
        let host = route.host(slot, now).ok_or_else(|| {
            Error::new(ErrorKind::Unreachable, "no server of the cluster has the key's slot")
        })?;
        connections.get(&host, now)
    }

    /// Whether all calls go to one server, which cannot change.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.map, Map::Single(_))
    }

    /// Whether one script may touch keys of several slots.
    pub(crate) fn mixes_slots(&self) -> bool {
        match &self.map {
            Map::Single(_) => true,
            Map::Route(route) => !route.is_cluster(),
        }
    }

    /// Sends a call and follows redirections. `at` is always the connection that was used last, because its response may
    /// still come after this future is dropped.
    ///
    /// The caller must look for errors in the replies.
    pub(crate) async fn call(
        &self,
        at: &mut Arc<Connection>,
        slot: Slot,
        call: &Call,
        now: Moment,
    ) -> Result<Vec<Value>> {
        let replies = self.call_there(at, call, now).await?;
        match &self.map {
            Map::Route(route) if first_error(&replies).is_some() => {
                self.follow(route, at, slot, (call, replies), now).await
            }
            _ => Ok(replies),
        }
    }

    /// Sends the commands that a node of a cluster has redirected to their new node, and only those: while a slot is
    /// moved, its keys are spread over two nodes, and no key must be created on both.
    async fn follow(
        &self,
        route: &Route,
        at: &mut Arc<Connection>,
        slot: Slot,
        (call, mut replies): (&Call, Vec<Value>),
        now: Moment,
    ) -> Result<Vec<Value>> {
        let commands = call.commands();
        for _ in 0..MOST_REDIRECTIONS {
            let ways: Vec<_> = replies.iter().map(|it| Redirection::read(it, &at.host)).collect();
            let Some(way) = ways.iter().flatten().next() else { return Ok(replies) };
            if !way.is_for_once {
                route.has_moved(slot, way.to.clone());
            }
            let same: Vec<_> = (0..ways.len()).filter(|i| ways[*i].as_ref() == Some(way)).collect();
            let mut part = Call::default();
            for i in &same {
                if way.is_for_once {
                    part.add(&[b"ASKING"]);
                }
                part.add_command(commands[*i]);
            }
            *at = self.connections.get(&way.to, now)?;
            let mut answers = self.call_there(at, &part, now).await?.into_iter();
            for i in same {
                let answer = if way.is_for_once { answers.nth(1) } else { answers.next() };
                replies[i] = answer.unwrap_or(Value::Nil);
            }
        }
        Err(Error::new(ErrorKind::Unreachable, "the servers send us from one to the other"))
    }

    /// Sends a call to this server, and retries with the scripts if the server has forgotten them.
    async fn call_there(&self, at: &Connection, call: &Call, now: Moment) -> Result<Vec<Value>> {
        let (mut n_loads, mut with_scripts) = (0, None);
        for _ in 0..MOST_LOADS {
            let sent = with_scripts.as_ref().unwrap_or(call);
            let mut replies = at.send(sent, now, Haste::of_caller()).await?.into_vec();
            no_error(replies.drain(..n_loads).collect::<Vec<_>>())?;
            let Some(error) = first_error(&replies) else { return Ok(replies) };
            match code(error) {
                "NOSCRIPT" => {
                    n_loads = self.connections.hello().scripts.len();
                    with_scripts = Some(self.with_scripts(call));
                }
                // The slot is being moved, and its keys are on two nodes. This is still the right node.
                "TRYAGAIN" => return Ok(replies),
                code if is_out_of_office(code) => {
                    let error = refusal(error);
                    // Another server may be the right one by now: the next call looks again.
                    at.retire();
                    return Err(error);
                }
                _ => return Ok(replies),
            }
        }
        Err(Error::new(ErrorKind::Unreachable, "the server forgets our scripts at once"))
    }

    /// Sends a call after one that got no response. The server runs it after that one, or not at all; so does a node to
    /// which the slot is still being moved.
    ///
    /// Where needed, the scripts are sent along: nobody reads the response that would say that the server has forgotten
    /// them.
    pub(crate) fn send_behind(&self, at: &Connection, call: &Call, now: Moment) {
        if self.mixes_slots() {
            let with_scripts = call.again.is_none().then(|| self.with_scripts(call));
            drop(at.send(with_scripts.as_ref().unwrap_or(call), now, Haste::Now));
            return;
        }
        let mut asking = Call::default();
        for command in self.with_scripts(call).commands() {
            asking.add(&[b"ASKING"]);
            asking.add_command(command);
        }
        drop(at.send(&asking, now, Haste::Now));
    }

    /// The same call with the scripts loaded before it. All is sent as one piece, so that no `SCRIPT FLUSH` can come in
    /// between.
    fn with_scripts(&self, call: &Call) -> Call {
        let mut all = Call::new();
        for script in &self.connections.hello().scripts {
            all.add(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]);
        }
        all.bytes.extend_from_slice(&call.bytes);
        all.n_replies += call.n_replies;
        all
    }

    /// Makes sure that a server responds and is fit for locks.
    pub(crate) async fn check(&self, now: Moment) -> Result<()> {
        let ping = |at: Arc<Connection>| async move {
            no_error(at.send(&Call::of(&[b"PING"]), now, Haste::Now).await?).map(drop)
        };
        let all = self.reach_all(now).await?;
        if let Map::Route(route) = &self.map {
            route.check()?;
        }
        let checked = first_good(all.into_iter().map(ping).collect()).await;
        checked.map_err(|mut errors| {
            let worst = errors.iter().position(|error| !error.may_pass()).unwrap_or(0);
            errors.swap_remove(worst)
        })
    }

    /// A connection to every server that has keys.
    pub(crate) async fn reach_all(&self, now: Moment) -> Result<Vec<Arc<Connection>>> {
        let first = self.reach(Slot(0), now).await?;
        match &self.map {
            Map::Route(route) if route.is_cluster() => {
                route.all().iter().map(|host| self.connections.get(host, now)).collect()
            }
            _ => Ok(vec![first]),
        }
    }
}

/// A random prefix for our channels, which nobody can guess.
fn channel_name() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|source| {
        Error::new(ErrorKind::Other, "the system gave no random numbers").because(source)
    })?;
    let mut name = String::from("lk:");
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name)
}
