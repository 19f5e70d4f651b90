//! The dialects that other libraries speak, seen as those would see them.

use std::time::Duration;

use lab::{
    proxy::{Proxy, Then, Way},
    redis::{Reply, Server},
};
use lockkeeper::{ErrorKind, Guard, Locks};

use crate::tools::LONG;

mod plain;
mod redisson;

/// A server, locks in it, and a proxy between the two.
struct Desk {
    server: Server,
    proxy: Proxy,
    locks: Locks,
}

impl Desk {
    async fn open(parameters: &str) -> Self {
        let server = Server::start().unwrap();
        let proxy = Proxy::to(server.port()).unwrap();
        let url = format!("redis://{}?{parameters}", proxy.address());
        let locks = Locks::connect(&url).await.unwrap();
        Self { server, proxy, locks }
    }

    /// What another library would say to the server.
    fn command(&self, words: &[&str]) -> Reply {
        self.server.command(words).unwrap().not_an_error().unwrap()
    }

    fn exists(&self, key: &str) -> bool {
        self.command(&["EXISTS", key]).int() == Some(1)
    }

    fn pttl(&self, key: &str) -> Duration {
        Duration::from_millis(self.command(&["PTTL", key]).int().unwrap().try_into().unwrap())
    }

    async fn acquire(&self, key: &str) -> Guard {
        self.locks.lock(key).acquire_within(LONG).await.unwrap()
    }

    async fn is_busy(&self, key: &str) -> bool {
        self.locks.lock(key).try_acquire().await.unwrap().is_none()
    }

    /// Waits until it is so.
    async fn see(&self, what: &str, is_true: impl Fn() -> bool) {
        let looking = async {
            while !is_true() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(LONG, looking).await.is_ok(), "it is not so: {what}");
    }

    /// What somebody who asks for this key is told.
    async fn assert_refused(&self, key: &str, words: &str) {
        let error = self.locks.lock(key).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// The answers to an attempt and to a release are lost: both are carried out once, and nothing is left.
async fn assert_lost_answers_are_made_up_for(desk: &Desk, attempt: &str) {
    desk.proxy.lose_replies(1, attempt, Then::Cut);
    let guard = desk.acquire("k").await;
    assert!(desk.proxy.has_lost_replies());
    assert!(desk.exists("k"));
    desk.proxy.lose_replies(1, "EVALSHA", Then::Cut);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(desk.proxy.has_lost_replies());
    desk.see("the lock is gone", || !desk.exists("k")).await;
}

/// An attempt that is carried out only after it was given up does not hold the lock for nobody.
async fn assert_late_attempts_leave_nothing(desk: &Desk, attempt: &str) {
    let n_before = desk.server.n_calls(attempt).unwrap();
    desk.proxy.hold(Way::Up);
    let error = desk.locks.lock("k").ttl(LONG * 4).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    desk.proxy.heal();
    let is_late = || desk.server.n_calls(attempt).unwrap() > n_before;
    desk.see("the attempt is carried out", is_late).await;
    desk.see("the lock is gone", || !desk.exists("k")).await;
}

/// One whose lock was replaced by something strange loses only that.
async fn assert_renewed_beside_something_strange(desk: &Desk, strange: &[&str]) {
    let ttl = Duration::from_secs(3);
    let mut guards = Vec::new();
    for key in ["k", "beside"] {
        guards.push(desk.locks.lock(key).ttl(ttl).acquire_within(LONG).await.unwrap());
    }
    desk.command(&["DEL", "k"]);
    desk.command(strange);
    tokio::time::timeout(LONG, guards[0].lost()).await.unwrap();
    // Longer than a lease: it has been renewed.
    tokio::time::sleep(ttl + ttl / 2).await;
    assert!(guards[1].is_held() && desk.exists("beside"));
    for guard in guards {
        let was_held = guard.is_held();
        assert_eq!(guard.release().await.is_ok(), was_held);
    }
    assert!(desk.exists("k"), "what was not ours is gone");
    assert!(!desk.exists("beside"));
}
