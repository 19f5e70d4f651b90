//! Where faults happen: a server, a proxy before it, and a look from outside.

use std::time::Duration;

use lab::{memcached::Memcached, proxy::Proxy};
use lockkeeper::{ErrorKind, Guard, Locks};

use crate::tools::LONG;

/// A ttl that no test waits for: what is free before its end was freed.
pub(super) const AGES: Duration = Duration::from_secs(300);
/// How long the server may take to answer. Short, because many tests wait for its end.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct Site {
    pub(super) server: Memcached,
    pub(super) proxy: Proxy,
}

impl Site {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(super) fn start_with(args: &[&str]) -> Self {
        let server = Memcached::start_with(args).unwrap();
        let proxy = Proxy::to(server.port()).unwrap();
        Self { server, proxy }
    }

    pub(super) fn url(&self) -> String {
        format!("memcached://{}", self.proxy.address())
    }

    /// Locks to which loud faults happen: a busy machine is none.
    pub(super) async fn locks(&self) -> Locks {
        Locks::builder().url(&self.url()).answer_within(LONG).connect().await.unwrap()
    }

    /// Locks that give a silent server up soon, and may do so with one that is only slow.
    pub(super) async fn hasty(&self) -> Locks {
        Locks::builder().url(&self.url()).answer_within(ANSWER_WITHIN).connect().await.unwrap()
    }

    /// Fills the memory with items of every size that a lock can have.
    pub(super) fn fill(&self) {
        for n_bytes in (20..320).step_by(20) {
            let value = "x".repeat(n_bytes);
            let item = |n: usize| format!("ms fill-{n_bytes}-{n} {n_bytes} q\r\n{value}\r\n");
            // Some are refused where the server does not evict, and each refusal may end the connection.
            let _ = self.server.command((0..12_000).map(item).collect::<String>());
        }
    }

    /// Somebody else, past the proxy and patient.
    pub(super) async fn other(&self) -> Locks {
        Locks::builder().url(&self.server.url()).answer_within(LONG).connect().await.unwrap()
    }
}

/// Has somebody else take the lock, which must be free or come free long before its ttl.
pub(super) async fn comes_free(other: &Locks, key: &str) -> Guard {
    other.lock(key).ttl(AGES).acquire_within(LONG).await.unwrap()
}

/// Nobody else can have it while the guard says that it is held.
pub(super) async fn assert_exclusive(guard: &Guard, other: &Locks) {
    let taken = other.lock(guard.key()).try_acquire().await.unwrap();
    assert!(guard.is_held(), "lost: {guard:?}");
    assert!(taken.is_none(), "held twice: {guard:?} and {taken:?}");
}

/// A release over a connection that is gone is told, and goes on in the background.
pub(super) async fn released(guard: Guard) {
    if let Err(error) = guard.release().await {
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    }
}

/// Waits until it is so, and lets others run meanwhile.
pub(super) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG, look).await.unwrap_or_else(|_| panic!("waited for {what}"));
}
