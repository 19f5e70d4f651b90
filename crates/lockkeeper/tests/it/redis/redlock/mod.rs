//! A majority of five servers.

use std::time::{Duration, Instant};

use lab::{proxy::Proxy, redis::Server};
use lockkeeper::Locks;

use super::labs::Redlock;
use crate::tools::LONG;

mod clocks;
mod connecting;
mod faults;
mod fences;
mod groups;
mod lost;
mod wire;

const KEY: &str = "invoice:42";

impl Redlock {
    async fn locks(&self) -> Locks {
        Locks::connect(&self.url()).await.unwrap()
    }

    /// Locks that would wait very long for an answer: whatever holds them up makes a test hang.
    async fn patient_locks(&self) -> Locks {
        Locks::builder().url(&self.url()).answer_within(LONG * 2).connect().await.unwrap()
    }

    fn servers(&self) -> &[Server] {
        &self.five.servers
    }

    /// How many of the servers have something at the key.
    fn n_held(&self) -> usize {
        let has_it = |server: &&Server| {
            server.is_running() && server.command(&["EXISTS", KEY]).unwrap().int() == Some(1)
        };
        self.servers().iter().filter(has_it).count()
    }
}

fn cut_off(proxy: &Proxy) {
    proxy.refuse();
    proxy.cut();
}

/// Waits until it is so, and lets the tasks of this runtime go on meanwhile.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What must not hang.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.unwrap()
}
