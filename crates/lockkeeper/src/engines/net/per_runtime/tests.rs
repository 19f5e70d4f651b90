//! Who is served over which connection.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::engine::Blocks;

const NOW: Moment = Moment::from_nanos(1);

#[derive(Debug)]
struct Wire {
    opened_on: Id,
    is_retired: AtomicBool,
}

impl Link for Wire {
    fn is_fit(&self, _now: Moment) -> bool {
        !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }
}

fn links() -> PerRuntime<Wire> {
    PerRuntime::new(Arc::new(OwnRuntime::new("lockkeeper-test")))
}

fn host(port: u16) -> Host {
    Host { name: "host".into(), port }
}

fn get(links: &PerRuntime<Wire>, port: u16) -> Arc<Wire> {
    let open = |runtime: &Handle| {
        Arc::new(Wire { opened_on: runtime.id(), is_retired: AtomicBool::new(false) })
    };
    links.get(&host(port), NOW, open).unwrap()
}

fn runtime_with_io() -> Runtime {
    Builder::new_current_thread().enable_io().build().unwrap()
}

#[test]
fn each_runtime_and_each_server_has_its_own() {
    let (links, one, other) = (links(), runtime_with_io(), runtime_with_io());
    let first = one.block_on(async { get(&links, 1) });
    assert_eq!(first.opened_on, one.handle().id());
    assert!(Arc::ptr_eq(&first, &one.block_on(async { get(&links, 1) })));
    assert!(!Arc::ptr_eq(&first, &one.block_on(async { get(&links, 2) })));
    assert_eq!(other.block_on(async { get(&links, 1) }).opened_on, other.handle().id());
}

#[test]
fn callers_without_a_runtime_that_will_do_share_ours() {
    let (links, with_io) = (links(), runtime_with_io());
    let ours = get(&links, 1);
    let elsewhere = thread::scope(|scope| scope.spawn(|| get(&links, 1)).join().unwrap());
    let blocking = with_io.block_on(async {
        let _blocks = Blocks::begin();
        get(&links, 1)
    });
    let without_io = Builder::new_current_thread().build().unwrap();
    let unable = without_io.block_on(async { get(&links, 1) });
    for other in [elsewhere, blocking, unable] {
        assert!(Arc::ptr_eq(&ours, &other));
    }
    let known = without_io.block_on(async { links.known(&host(1), NOW) });
    assert!(matches!(known, Known::Fit(known) if Arc::ptr_eq(&ours, &known)));
}

#[test]
fn one_that_broke_is_replaced_and_all_retire_in_the_end() {
    let links = links();
    assert!(matches!(links.known(&host(1), NOW), Known::Nothing));
    let first = get(&links, 1);
    first.retire();
    assert!(matches!(links.known(&host(1), NOW), Known::Unfit));
    let second = get(&links, 1);
    assert!(!Arc::ptr_eq(&first, &second));
    drop(links);
    assert!(second.has_ended());
}

#[test]
fn after_a_turn_nobody_else_is_asked() {
    let links = links();
    let (old, new) = (get(&links, 1), get(&links, 2));
    let others = links.switchboard().turn_to(&host(2));
    assert!(others.len() == 1 && Arc::ptr_eq(&others[0], &old));
    assert!(Arc::ptr_eq(&new, &get(&links, 2)));
    assert!(links.get(&host(1), NOW, |_| unreachable!()).is_err());
}
