//! In a cluster, Redisson tells of its releases on the channel of a slot.

use std::time::Duration;

use lab::redis::{Cluster, Reply};
use lockkeeper::{Guard, Locks};
use tokio::{task::JoinHandle, time::timeout};

use crate::tools::LONG;

const KEY: &str = "k";
const CHANNEL: &str = "redisson_lock__channel:{k}";
const THEM: &str = "b983c153-7421-469a-addb-44fb92259a1b:54";

/// A cluster in which they hold the lock.
struct Theirs {
    cluster: Cluster,
    locks: Locks,
}

impl Theirs {
    async fn held() -> Self {
        let cluster = Cluster::start().unwrap();
        let url = format!("{}?dialect=redisson", cluster.url());
        let theirs = Self { locks: Locks::connect(&url).await.unwrap(), cluster };
        theirs.command(&["HSET", KEY, THEM, "1"]);
        theirs.command(&["PEXPIRE", KEY, "600000"]);
        theirs
    }

    fn slot(&self) -> u16 {
        self.cluster.slot_of(KEY).unwrap()
    }

    /// Runs a command where the key is.
    fn command(&self, words: &[&str]) -> Reply {
        let home = self.cluster.node_of(self.slot()).unwrap();
        self.cluster.nodes[home].command(words).unwrap().not_an_error().unwrap()
    }

    fn wait(&self) -> JoinHandle<Guard> {
        let lock = self.locks.lock(KEY);
        tokio::spawn(async move { lock.acquire_within(LONG).await.unwrap() })
    }

    async fn see_listening(&self, n_connections: i64) {
        let n_listening = || self.command(&["PUBSUB", "SHARDNUMSUB", CHANNEL]).list()[1].int();
        let seen = async {
            while n_listening() != Some(n_connections) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, seen).await.unwrap_or_else(|_| panic!("not {n_connections} listen"));
    }

    /// Answers how many were told.
    fn unlock(&self) -> Option<i64> {
        self.command(&["DEL", KEY]);
        self.command(&["SPUBLISH", CHANNEL, "0"]).int()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn we_are_told_on_the_channel_of_the_slot_as_long_as_we_wait() {
    let theirs = Theirs::held().await;
    let waiter = theirs.wait();
    theirs.see_listening(1).await;
    assert_eq!(theirs.unlock(), Some(1), "nobody was told");
    let guard = waiter.await.unwrap();
    theirs.see_listening(0).await;
    guard.release().await.unwrap();
    assert_eq!(theirs.command(&["EXISTS", KEY]).int(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_listened_to_where_it_is() {
    let theirs = Theirs::held().await;
    let waiter = theirs.wait();
    theirs.see_listening(1).await;
    let from = theirs.cluster.node_of(theirs.slot()).unwrap();
    let primaries = theirs.cluster.primaries().unwrap();
    let to = primaries.into_iter().find(|number| *number != from).unwrap();
    // The server ends the subscription by itself, and says so as if it had been asked to.
    theirs.cluster.move_slot(theirs.slot(), to).unwrap();
    theirs.see_listening(1).await;
    assert_eq!(theirs.unlock(), Some(1), "nobody was told");
    let guard = waiter.await.unwrap();
    theirs.see_listening(0).await;
    guard.release().await.unwrap();
    // What is asked after all that finds its own answers.
    for _ in 0..3 {
        let again = theirs.locks.lock(KEY).acquire_within(LONG).await.unwrap();
        again.release().await.unwrap();
    }
}
