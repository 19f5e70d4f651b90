//! The dialects that other libraries speak, seen as those would see them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use lab::{
    proxy::{Proxy, Then, Way},
    redis::{Reply, Server},
};
use lockkeeper::{
    ErrorKind, Guard, Key, Locks,
    blocking::block_on,
    clock::Clock,
    conformance,
    engine::{Attempt, Claim, Engine, Moment, OwnerId, Request, Standing},
};

use crate::tools::LONG;

mod fair;
mod matrix;
mod plain;
mod redisson;
mod redisson_in_cluster;

/// A server, locks in it, and a proxy between the two.
struct Desk {
    server: Server,
    proxy: Proxy,
    url: String,
    locks: Locks,
}

impl Desk {
    async fn open(parameters: &str) -> Self {
        let server = Server::start().unwrap();
        let proxy = Proxy::to(server.port()).unwrap();
        let url = format!("redis://{}?{parameters}", proxy.address());
        let locks = Locks::connect(&url).await.unwrap();
        Self { server, proxy, url, locks }
    }

    /// What stands below the locks.
    async fn engine(&self) -> Box<dyn Engine> {
        conformance::open(&self.url).await.unwrap()
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

/// An attempt that is carried out only after its release does not hold the lock for nobody.
async fn assert_late_attempts_leave_nothing(desk: &Desk, attempt: &str) {
    let engine = desk.engine().await;
    // The connection that the release will take stands already, or it would come too late.
    let mut other = claim(&*engine, "other");
    let visit =
        move || block_on(async { other.attempt(now()).await.and(other.release(now()).await) });
    tokio::task::spawn_blocking(visit).await.unwrap().unwrap();

    let n_before = desk.server.n_calls(attempt).unwrap();
    let n_chunks = desk.proxy.counts().chunks_up;
    desk.proxy.delay(Way::Up, Duration::from_secs(5));
    let delayed = async {
        let is_on_its_way = || desk.proxy.counts().chunks_up > n_chunks;
        desk.see("the attempt is on its way", is_on_its_way).await;
        desk.proxy.delay(Way::Up, Duration::ZERO);
    };
    let mut late = claim(&*engine, "k");
    let given_up = tokio::time::timeout(Duration::from_secs(1), late.attempt(now()));
    assert!(tokio::join!(given_up, delayed).0.is_err(), "the attempt was not late");
    tokio::task::spawn_blocking(move || block_on(late.release(now()))).await.unwrap().unwrap();
    let is_late = || desk.server.n_calls(attempt).unwrap() > n_before;
    desk.see("the attempt is carried out", is_late).await;
    desk.see("the lock is gone", || !desk.exists("k")).await;
}

/// One whose lock was replaced by something strange loses only that.
async fn assert_renewed_beside_something_strange(desk: &Desk, strange: &[&str]) {
    let engine = desk.engine().await;
    let [mut k, mut beside] = ["k", "beside"].map(|key| claim(&*engine, key));
    for claim in [&mut k, &mut beside] {
        assert!(matches!(claim.attempt(now()).await, Ok(Attempt::Granted(_))));
    }
    desk.command(&["DEL", "k"]);
    desk.command(strange);
    let renewed = tokio::join!(k.renew(now()), beside.renew(now()));
    assert!(matches!(renewed, (Ok(Standing::Lost(_)), Ok(Standing::Held(_)))), "{renewed:?}");
    k.release(now()).await.unwrap();
    beside.release(now()).await.unwrap();
    assert!(desk.exists("k"), "what was not ours is gone");
    assert!(!desk.exists("beside"));
}

fn claim(engine: &dyn Engine, key: &str) -> Box<dyn Claim> {
    static N_OWNERS: AtomicU64 = AtomicU64::new(1);
    let owner = OwnerId(N_OWNERS.fetch_add(1, Ordering::Relaxed).into());
    engine.claim(Request::new(Key::new(key).unwrap(), owner, LONG * 4))
}

fn now() -> Moment {
    Clock::default().now()
}
