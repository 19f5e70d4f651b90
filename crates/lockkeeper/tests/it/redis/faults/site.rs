//! Where faults happen: servers, what stands before them, and a look from outside.

use std::time::Duration;

use lab::{
    proxy::Proxy,
    redis::{Cluster, Reply, Sentinels, Server},
};
use lockkeeper::{ErrorKind, Guard, Locks, LocksBuilder, event::Event};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::tools::LONG;

/// A ttl that no test waits for: what is free before its end was freed.
pub(crate) const AGES: Duration = Duration::from_secs(300);
/// How long servers may take to answer. Short, because many tests wait for its end.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The servers of one mode, with a proxy before each where the mode lets us have one.
pub(crate) struct Site {
    pub(crate) servers: Vec<Server>,
    pub(crate) proxies: Vec<Proxy>,
    /// Through the proxies.
    url: String,
    direct_url: String,
    _sentinels: Vec<Server>,
}

impl Site {
    pub(crate) fn native() -> Self {
        Self::behind_proxies(1, "redis", "")
    }

    pub(crate) fn plain() -> Self {
        Self::behind_proxies(1, "redis", "?dialect=plain")
    }

    pub(crate) fn redisson() -> Self {
        Self::behind_proxies(1, "redis", "?dialect=redisson")
    }

    pub(crate) fn redlock() -> Self {
        Self::behind_proxies(5, "redlock", "")
    }

    /// The servers tell their addresses themselves, so nothing can stand before them.
    pub(crate) fn sentinel() -> Self {
        let all = Sentinels::start().unwrap();
        let url = all.url();
        let Sentinels { servers, sentinels } = all;
        Self { servers, proxies: vec![], direct_url: url.clone(), url, _sentinels: sentinels }
    }

    pub(crate) fn cluster() -> Self {
        let all = Cluster::start().unwrap();
        let url = all.url();
        let (direct_url, servers) = (url.clone(), all.nodes);
        Self { servers, proxies: vec![], direct_url, url, _sentinels: vec![] }
    }

    fn behind_proxies(n_servers: usize, scheme: &str, end: &str) -> Self {
        let servers: Vec<_> = (0..n_servers).map(|_| Server::start().unwrap()).collect();
        let proxies: Vec<_> =
            servers.iter().map(|server| Proxy::to(server.port()).unwrap()).collect();
        let url = |hosts: Vec<_>| format!("{scheme}://{}{end}", hosts.join(","));
        let direct_url = url(servers.iter().map(Server::address).collect());
        let url = url(proxies.iter().map(Proxy::address).collect());
        Self { servers, proxies, url, direct_url, _sentinels: vec![] }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Locks to which loud faults happen: a busy machine is none.
    pub(crate) async fn locks(&self) -> Locks {
        self.locks_with(|builder| builder.answer_within(LONG)).await
    }

    /// Locks that give a silent server up soon, and may do so with one that is only slow.
    pub(crate) async fn hasty(&self) -> Locks {
        self.locks_with(|builder| builder).await
    }

    pub(crate) async fn locks_with(
        &self,
        change: impl FnOnce(LocksBuilder) -> LocksBuilder,
    ) -> Locks {
        let builder = Locks::builder().url(&self.url).answer_within(ANSWER_WITHIN);
        change(builder).connect().await.unwrap()
    }

    /// Somebody else, past the proxies and patient.
    pub(crate) async fn other(&self) -> Locks {
        let builder = Locks::builder().url(&self.direct_url).answer_within(LONG);
        builder.connect().await.unwrap()
    }

    /// Somebody who waits for a busy lock, on connections of its own.
    pub(crate) async fn waiter(&self, key: &str, ttl: Duration) -> JoinHandle<Guard> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let watch = move |event: &Event<'_>| {
            if let Event::Waiting { .. } = event {
                // Nobody listens any more: the first time was enough.
                let _ = tell.send(());
            }
        };
        let lock = self.locks_with(|builder| builder.observe(watch)).await.lock(key).ttl(ttl);
        let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
        told.recv().await.unwrap();
        waiter
    }

    pub(crate) fn each_proxy(&self, act: impl Fn(&Proxy)) {
        self.proxies.iter().for_each(act);
    }

    /// Runs a command on every server.
    pub(crate) fn command(&self, words: &[&str]) -> Vec<Reply> {
        self.servers.iter().map(|server| server.command(words).unwrap()).collect()
    }
}

/// Has somebody else take the lock, which must be free or come free long before its ttl, and with a
/// larger fence.
pub(crate) async fn comes_free(other: &Locks, key: &str, last_fence: u64) -> Guard {
    let guard = other.lock(key).ttl(AGES).acquire_within(LONG).await.unwrap();
    assert!(guard.fence() > last_fence || guard.fence() == 0, "{guard:?} after {last_fence}");
    guard
}

/// Nobody else can have it while the guard says that it is held.
pub(crate) async fn assert_exclusive(guard: &Guard, other: &Locks) {
    let taken = other.lock(guard.key()).try_acquire().await.unwrap();
    assert!(guard.is_held(), "lost: {guard:?}");
    assert!(taken.is_none(), "held twice: {guard:?} and {taken:?}");
}

/// The error of a server, or of too many, that did not answer.
pub(crate) fn assert_out_of_reach(error: &lockkeeper::Error) {
    let kind = error.kind();
    assert!(matches!(kind, ErrorKind::Unreachable | ErrorKind::NoQuorum), "{error:?}");
}

/// A release over a connection that is gone is told, and goes on in the background.
pub(crate) async fn released(guard: Guard) {
    if let Err(error) = guard.release().await {
        assert_out_of_reach(&error);
    }
}

/// Waits until it is so, and lets others run meanwhile.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG, look).await.unwrap_or_else(|_| panic!("waited for {what}"));
}
