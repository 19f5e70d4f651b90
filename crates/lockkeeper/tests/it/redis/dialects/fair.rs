//! Redisson's fair lock: the same hash, and beside it a queue of those who wait, each with a channel
//! of its own. Nobody but the first in the queue is told of a release, and only on that channel.

use lab::redis::{Client, Cluster, Reply, Server};
use lockkeeper::Locks;

use super::Desk;
use crate::tools::LONG;

/// Three who wait, as Redisson names them.
const WAITERS: [&str; 3] = [
    "b983c153-7421-469a-addb-44fb92259a1b:54",
    "b983c153-7421-469a-addb-44fb92259a1b:55",
    "0c1e6a4e-5b1c-4d5f-8a38-9e1f0f6b6a52:54",
];

/// How Redisson's fair lock begins each of its scripts, and lets the first in the queue in.
const FAIR_LOCK: &str = "while true do \
                         local first = redis.call('lindex', KEYS[2], 0) \
                         if first == false then break end \
                         local timeout = redis.call('zscore', KEYS[3], first) \
                         if timeout ~= false and tonumber(timeout) <= tonumber(ARGV[3]) then \
                         redis.call('zrem', KEYS[3], first) redis.call('lpop', KEYS[2]) \
                         else break end end \
                         if redis.call('exists', KEYS[1]) == 0 and \
                         (redis.call('exists', KEYS[2]) == 0 or redis.call('lindex', KEYS[2], 0) == ARGV[2]) then \
                         redis.call('lpop', KEYS[2]) redis.call('zrem', KEYS[3], ARGV[2]) \
                         redis.call('hset', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) \
                         return nil end return redis.call('pttl', KEYS[1])";

/// The names of the fair lock's keys, and where one who waits is told.
struct Names {
    lock: &'static str,
    /// The lock's name in braces, unless it has some of its own.
    tagged: &'static str,
}

const USUAL: Names = Names { lock: "k", tagged: "{k}" };
const BRACED: Names = Names { lock: "a{b}c", tagged: "a{b}c" };
const HALF_BRACED: Names = Names { lock: "a{", tagged: "a{" };

impl Names {
    fn queue(&self) -> String {
        format!("redisson_lock_queue:{}", self.tagged)
    }

    fn timeouts(&self) -> String {
        format!("redisson_lock_timeout:{}", self.tagged)
    }

    fn channel_of(&self, waiter: &str) -> String {
        format!("redisson_lock__channel:{}:{waiter}", self.tagged)
    }

    /// Stands in the queue, with an end in so many milliseconds from now.
    fn join(&self, server: &Server, waiter: &str, ends_in_ms: i64) {
        let ends_at = (now_ms(server) + ends_in_ms).to_string();
        for words in [
            ["ZADD", &self.timeouts(), &ends_at, waiter].as_slice(),
            &["RPUSH", &self.queue(), waiter],
        ] {
            server.command(words).unwrap().not_an_error().unwrap();
        }
    }

    /// Listens as one who waits; in a cluster, on the channel of the slot.
    fn listen(&self, server: &Server, subscribe: &str, waiter: &str) -> Client {
        let mut ear = server.client().unwrap();
        ear.command(&[subscribe, &self.channel_of(waiter)]).unwrap().not_an_error().unwrap();
        ear.be_patient_for(LONG).unwrap();
        ear
    }

    /// What a waiter asks for when it is woken: nothing if it has the lock now.
    fn ask(&self, server: &Server, waiter: &str) -> Reply {
        let (queue, timeouts, now) = (self.queue(), self.timeouts(), now_ms(server).to_string());
        let words = ["EVAL", FAIR_LOCK, "3", self.lock, &queue, &timeouts, "30000", waiter, &now];
        server.command(&words).unwrap().not_an_error().unwrap()
    }
}

/// The time of the server, which their clients have too.
fn now_ms(server: &Server) -> i64 {
    let time = server.command(&["TIME"]).unwrap();
    let part = |i: usize| time.list()[i].text().parse::<i64>().unwrap();
    part(0) * 1000 + part(1) / 1000
}

fn told(ear: &mut Client) -> String {
    ear.receive().unwrap().list()[2].text()
}

#[tokio::test]
async fn the_first_in_their_queue_is_told_of_our_release() {
    let desk = Desk::open("dialect=redisson").await;
    for names in [USUAL, BRACED, HALF_BRACED] {
        let guard = desk.acquire(names.lock).await;
        WAITERS.iter().for_each(|waiter| names.join(&desk.server, waiter, 300_000));
        let mut first = names.listen(&desk.server, "SUBSCRIBE", WAITERS[0]);
        guard.release().await.unwrap();
        assert_eq!(told(&mut first), "0");
        assert_eq!(names.ask(&desk.server, WAITERS[1]), Reply::Int(-2), "out of turn");
        assert_eq!(names.ask(&desk.server, WAITERS[0]), Reply::Nil);
        assert!(desk.is_busy(names.lock).await);
    }
}

/// One whose time in the queue is over is told too, in case that its clock is right and the server's is not.
#[tokio::test]
async fn the_dead_before_it_do_not_keep_it_from_being_told() {
    let desk = Desk::open("dialect=redisson").await;
    let guard = desk.acquire("k").await;
    USUAL.join(&desk.server, WAITERS[0], -1);
    USUAL.join(&desk.server, WAITERS[1], 300_000);
    USUAL.join(&desk.server, WAITERS[2], 300_000);
    let mut ears = WAITERS.map(|waiter| USUAL.listen(&desk.server, "SUBSCRIBE", waiter));
    guard.release().await.unwrap();
    assert_eq!(told(&mut ears[0]), "0");
    assert_eq!(told(&mut ears[1]), "0");
    // The third is told nothing: what it hears first is what is said afterwards.
    desk.command(&["PUBLISH", &USUAL.channel_of(WAITERS[2]), "the end"]);
    assert_eq!(told(&mut ears[2]), "the end");
    assert_eq!(USUAL.ask(&desk.server, WAITERS[1]), Reply::Nil);
}

/// What stands beside a lock and is no queue does not keep it from being released.
#[tokio::test]
async fn what_is_no_queue_is_left_alone() {
    let desk = Desk::open("dialect=redisson").await;
    for (queue, timeouts) in [("SET", "SET"), ("RPUSH", "SET")] {
        let guard = desk.acquire("k").await;
        desk.command(&[queue, &USUAL.queue(), WAITERS[0]]);
        desk.command(&[timeouts, &USUAL.timeouts(), "x"]);
        guard.release().await.unwrap();
        assert!(!desk.exists("k"));
        assert_eq!(desk.command(&["DEL", &USUAL.queue(), &USUAL.timeouts()]).int(), Some(2));
    }
}

/// In a cluster they listen on the channel of the slot.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_the_first_in_their_queue_is_told() {
    let cluster = Cluster::start().unwrap();
    let url = format!("{}?dialect=redisson", cluster.url());
    let locks = Locks::connect(&url).await.unwrap();
    for names in [USUAL, BRACED] {
        let home = cluster.node_of(cluster.slot_of(names.lock).unwrap()).unwrap();
        let home = &cluster.nodes[home];
        let guard = locks.lock(names.lock).acquire_within(LONG).await.unwrap();
        names.join(home, WAITERS[0], 300_000);
        let mut plain = names.listen(home, "SUBSCRIBE", WAITERS[0]);
        let mut sharded = names.listen(home, "SSUBSCRIBE", WAITERS[0]);
        guard.release().await.unwrap();
        assert_eq!(told(&mut plain), "0");
        assert_eq!(told(&mut sharded), "0");
        assert_eq!(names.ask(home, WAITERS[0]), Reply::Nil);
    }
    // Its queue would be in another slot: there it cannot be, and the lock is released all the same.
    let guard = locks.lock(HALF_BRACED.lock).acquire_within(LONG).await.unwrap();
    guard.release().await.unwrap();
    assert!(locks.lock(HALF_BRACED.lock).try_acquire().await.unwrap().is_some());
}
