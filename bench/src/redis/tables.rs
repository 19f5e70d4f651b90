//! The tables, and what the figures must come to.

use std::time::Duration;

use lab::redis::{Five, Server};

use super::{
    foreign,
    judge::{Bound, Demand},
    rounds::{
        Measure::{self, ClientCpu, Cycles, HandOvers, P50, ServerCpu, Unfairness},
        Row, Table,
    },
    talk::Keys,
    team::{Language, Team},
};
use crate::{
    Result,
    table::{Order, Pin, Verdict},
};

const N_CONTENDERS: usize = 64;

const RAW: Row = rust("raw socket", "raw");
const RELEASED: Row = rust("Lockkeeper, release().await", "ours");
const DROPPED: Row = rust("Lockkeeper, guard dropped", "ours-dropped");
const CURRENT: Row = rust("Lockkeeper, current_thread", "ours");
const TWO_THREADS: Row = rust("Lockkeeper, multi_thread(2)", "ours-two-threads");
const APART: Row = rust("Lockkeeper, tasks", "ours-apart");
const THREADS: Row = rust("Lockkeeper, threads", "ours-threads");
const RSLOCK: Row = rust("rslock 0.10", "rslock");
const RSLOCK_TWO: Row = rust("rslock 0.10, multi_thread(2)", "rslock-two-threads");
const DISTRIBUTED: Row = rust("distributed-lock-redis 0.2", "distributed-lock");
const DIRECT: Row = rust("bare direct hand-over, threads", "direct");
const DIRECT_TASKS: Row = rust("bare direct hand-over, tasks", "direct-tasks");

const REDIS_PY: Row = peer("redis-py 8.1, Lock", Language::Python, "redis-py");
const PYTHON: Row = peer("python-redis-lock 4.0", Language::Python, "python-redis-lock");
const NODE: Row = peer("node-redlock 4.2", Language::Node, "node-redlock");
const REDISSON: Row = peer("Redisson 4.7, RLock", Language::Java, "redisson");
const REDISSON_FAIR: Row = peer("Redisson 4.7, fair lock", Language::Java, "redisson-fair");
const REDSYNC: Row = peer("redsync 4.18", Language::Go, "redsync");
const REDISLOCK: Row = peer("bsm/redislock 0.9", Language::Go, "redislock");

const FOREIGN: [Row; 7] = [REDIS_PY, PYTHON, NODE, REDISSON, REDISSON_FAIR, REDSYNC, REDISLOCK];

const fn rust(name: &'static str, variant: &'static str) -> Row {
    peer(name, Language::Rust, variant)
}

const fn peer(name: &'static str, language: Language, variant: &'static str) -> Row {
    Row { name, language, variant, n_processes: 1 }
}

/// The same row, in two processes.
const fn twice(row: Row) -> Row {
    Row { n_processes: 2, ..row }
}

/// One task, with nobody else there.
pub(crate) fn one(order: &Order) -> Result<Verdict> {
    let peers = [&[RSLOCK, DISTRIBUTED][..], &FOREIGN].concat();
    let mut demands = vec![
        Demand::faster(RELEASED.name, P50, RAW.name, 0.8),
        Demand::faster(DROPPED.name, P50, RAW.name, 1.3),
    ];
    demands.extend(ahead(&[RELEASED, DROPPED], P50, &peers));
    let table = Table {
        title: "redis-one: one task, one key, nobody else (server and client on one core)",
        keys: Keys::Distinct,
        n_contenders: 1,
        // Many short rounds: what is compared is close in time, and the machine changes its mood within seconds.
        window: Duration::from_millis(60),
        n_rounds: 41,
        speed: P50,
        // A round is too short for the kernel's ticks.
        also: vec![],
        rows: [&[RAW, RELEASED, DROPPED][..], &peers].concat(),
        demands,
    };
    for row in table.rows.iter().filter(|row| order.wants(row.name)) {
        // Installing needs more than one core; what fails is told when the row is to run.
        let _ = foreign::program(row.language);
    }
    // What is started from here on stays on this core too.
    let _pin = Pin::new()?;
    alone(order, &[table])
}

/// Many tasks, each with a key of its own.
pub(crate) fn many(order: &Order) -> Result<Verdict> {
    let peers = [&[RSLOCK, RSLOCK_TWO, DISTRIBUTED][..], &FOREIGN].concat();
    let mut demands = vec![
        Demand::faster(CURRENT.name, Cycles, RAW.name, 0.65).aiming_at(0.85),
        Demand::faster(TWO_THREADS.name, Cycles, RAW.name, 0.55).aiming_at(0.7),
        Demand::within(CURRENT.name, ServerCpu, RAW.name, 1.25),
        Demand::within(TWO_THREADS.name, ServerCpu, RAW.name, 1.25),
        Demand::within(CURRENT.name, ClientCpu, RSLOCK.name, 0.5),
        Demand::within(TWO_THREADS.name, ClientCpu, RSLOCK_TWO.name, 0.5),
    ];
    demands.extend(ahead(&[CURRENT, TWO_THREADS], Cycles, &peers));
    let table = Table {
        title: "redis-many: 64 tasks, a key each, with fence (raw: 64 commands in one write)",
        keys: Keys::Distinct,
        n_contenders: N_CONTENDERS,
        window: Duration::from_millis(800),
        n_rounds: 7,
        speed: Cycles,
        also: vec![ServerCpu, ClientCpu],
        rows: [&[RAW, CURRENT, TWO_THREADS][..], &peers].concat(),
        demands,
    };
    alone(order, &[table])
}

/// Many contenders for one key.
pub(crate) fn hot(order: &Order) -> Result<Verdict> {
    let peers = [&[RSLOCK, DISTRIBUTED][..], &FOREIGN].concat();
    let mut demands = vec![
        Demand::faster(APART.name, HandOvers, DIRECT_TASKS.name, 0.8),
        Demand::faster(THREADS.name, HandOvers, DIRECT.name, 0.8),
        Demand::faster(APART.name, HandOvers, REDISSON.name, 3.0),
        Demand::faster(APART.name, HandOvers, REDISSON_FAIR.name, 3.0),
        Demand {
            row: APART.name,
            measure: Unfairness,
            against: None,
            bound: Bound::AtMost(1.2),
            aim: None,
        },
    ];
    let others: Vec<_> =
        peers.iter().filter(|row| row.language != Language::Java).copied().collect();
    demands.extend(ahead(&[APART], HandOvers, &others));
    let apart = Table {
        title: "redis-hot: 64 contenders for one key, a connection each",
        keys: Keys::Same,
        n_contenders: N_CONTENDERS,
        window: Duration::from_millis(400),
        n_rounds: 21,
        speed: HandOvers,
        also: vec![Cycles, Unfairness, ServerCpu, ClientCpu],
        rows: [&[DIRECT_TASKS, APART, DIRECT, THREADS][..], &peers].concat(),
        demands,
    };
    let together = Table {
        title: "redis-hot: two processes with 32 tasks each for one key",
        keys: Keys::Same,
        n_contenders: N_CONTENDERS / 2,
        window: Duration::from_millis(800),
        n_rounds: 7,
        speed: Cycles,
        also: vec![Unfairness],
        rows: vec![twice(DIRECT), twice(CURRENT)],
        demands: vec![Demand::faster(CURRENT.name, Cycles, DIRECT.name, 15.0)],
    };
    alone(order, &[apart, together])
}

/// A majority of five servers.
pub(crate) fn redlock(order: &Order) -> Result<Verdict> {
    let peers = [DISTRIBUTED, REDSYNC, NODE];
    let table = |title, n_contenders, speed, times| {
        let mut demands = vec![Demand::faster(CURRENT.name, speed, RSLOCK.name, times)];
        demands.extend(ahead(&[CURRENT], speed, &peers));
        Table {
            title,
            keys: Keys::Distinct,
            n_contenders,
            window: Duration::from_millis(800),
            n_rounds: 7,
            speed,
            also: vec![ServerCpu, ClientCpu],
            rows: [&[RSLOCK, CURRENT][..], &peers].concat(),
            demands,
        }
    };
    let tables = [
        table("redis-redlock: five servers, 64 tasks, a key each", N_CONTENDERS, Cycles, 2.0),
        table("redis-redlock: five servers, one task", 1, P50, 1.0),
    ];
    let five = Five::start()?;
    measure(order, &tables, &five.servers)
}

/// Ours must be ahead of every peer.
fn ahead(ours: &[Row], measure: Measure, peers: &[Row]) -> Vec<Demand> {
    let pairs = ours.iter().flat_map(|one| peers.iter().map(move |peer| (one, peer)));
    pairs.map(|(one, peer)| Demand::faster(one.name, measure, peer.name, 1.0)).collect()
}

/// With one server.
fn alone(order: &Order, tables: &[Table]) -> Result<Verdict> {
    measure(order, tables, &[Server::start()?])
}

fn measure(order: &Order, tables: &[Table], servers: &[Server]) -> Result<Verdict> {
    let mut team = Team::new(servers)?;
    let mut verdict = Verdict::Met;
    for table in tables {
        verdict = verdict.and(table.measure(order, &mut team)?);
    }
    Ok(verdict)
}
