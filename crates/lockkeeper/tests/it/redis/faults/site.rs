//! Where faults happen: servers, what stands before them, and a look from outside.

use std::time::Duration;

use lab::{
    proxy::Proxy,
    redis::{Reply, Server},
};
use lockkeeper::{Guard, Locks, LocksBuilder};

use crate::tools::LONG;

/// A ttl that no test waits for: what is free before its end was freed.
pub(crate) const AGES: Duration = Duration::from_secs(300);
/// How long servers may take to answer. Short, because many tests wait for its end.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The servers of one mode, with a proxy before each.
pub(crate) struct Site {
    pub(crate) servers: Vec<Server>,
    pub(crate) proxies: Vec<Proxy>,
    /// The URL with these hosts in it.
    url: fn(&[String]) -> String,
}

impl Site {
    pub(crate) fn native() -> Self {
        Self::new(1, |hosts| format!("redis://{}", hosts[0]))
    }

    fn new(n_servers: usize, url: fn(&[String]) -> String) -> Self {
        let servers: Vec<_> = (0..n_servers).map(|_| Server::start().unwrap()).collect();
        let proxies = servers.iter().map(|server| Proxy::to(server.port()).unwrap()).collect();
        Self { servers, proxies, url }
    }

    /// The URL through the proxies.
    pub(crate) fn url(&self) -> String {
        (self.url)(&self.proxies.iter().map(Proxy::address).collect::<Vec<_>>())
    }

    /// The URL past the proxies.
    pub(crate) fn direct_url(&self) -> String {
        (self.url)(&self.servers.iter().map(Server::address).collect::<Vec<_>>())
    }

    /// Locks to which the faults happen.
    pub(crate) async fn locks(&self) -> Locks {
        self.locks_with(|builder| builder).await
    }

    pub(crate) async fn locks_with(
        &self,
        change: impl FnOnce(LocksBuilder) -> LocksBuilder,
    ) -> Locks {
        let builder = Locks::builder().url(&self.url()).answer_within(ANSWER_WITHIN);
        change(builder).connect().await.unwrap()
    }

    /// Somebody else, past the proxies and patient.
    pub(crate) async fn other(&self) -> Locks {
        let builder = Locks::builder().url(&self.direct_url()).answer_within(LONG);
        builder.connect().await.unwrap()
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

/// Waits until it is so, and lets others run meanwhile.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG, look).await.unwrap_or_else(|_| panic!("waited for {what}"));
}

/// A test that hangs fails.
pub(crate) async fn ends(test: impl Future<Output = ()>) {
    tokio::time::timeout(4 * LONG, test).await.unwrap();
}
