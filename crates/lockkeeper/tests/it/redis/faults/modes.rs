//! The same fault on every mode where it applies.

use std::thread;

use tokio::runtime::Builder;

use super::site::Site;
use crate::tools::LONG;

/// A mode: its name, and how its servers are started.
pub(crate) type Mode = (&'static str, fn() -> Site);

pub(crate) const NATIVE: Mode = ("native", Site::native);
const PLAIN: Mode = ("plain", Site::plain);
const REDISSON: Mode = ("redisson", Site::redisson);
pub(crate) const REDLOCK: Mode = ("redlock", Site::redlock);
pub(crate) const SENTINEL: Mode = ("sentinel", Site::sentinel);
const CLUSTER: Mode = ("cluster", Site::cluster);

/// One server, behind a proxy.
pub(crate) const SINGLE: &[Mode] = &[NATIVE, PLAIN, REDISSON];
/// A proxy before every server. Where servers tell their addresses themselves, there can be none.
pub(crate) const PROXIED: &[Mode] = &[NATIVE, PLAIN, REDISSON, REDLOCK];
pub(crate) const ALL: &[Mode] = &[NATIVE, PLAIN, REDISSON, REDLOCK, SENTINEL, CLUSTER];

/// Runs a test on each of the modes, all at once: most of the time they wait.
pub(crate) fn on_each(modes: &[Mode], test: impl AsyncFn(Site) + Sync) {
    on_each_apart(modes, |site| {
        // One thread for the test, which may block, and one for what goes on meanwhile.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let ended = tokio::time::timeout(4 * LONG, test(site)).await;
            ended.expect("the test hangs");
        });
    });
}

/// The same for a test that makes its own runtimes.
pub(crate) fn on_each_apart(modes: &[Mode], test: impl Fn(Site) + Sync) {
    let failed = thread::scope(|scope| {
        let run = |(name, start): &Mode| {
            let (test, start) = (&test, *start);
            let run = thread::Builder::new().name((*name).to_owned());
            (*name, run.spawn_scoped(scope, move || test(start())).unwrap())
        };
        let runs: Vec<_> = modes.iter().map(run).collect();
        let failed = runs.into_iter().filter_map(|(name, run)| run.join().err().map(|_| name));
        failed.collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "it fails on {failed:?}");
}
