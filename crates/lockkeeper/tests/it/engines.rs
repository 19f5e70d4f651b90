//! The conformance suite on every engine that needs no server.

use std::{sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use lockkeeper::{
    Key, Result,
    blocking::block_on,
    conformance::{self, Ability, Lab, Neighbour},
    engine::Engine,
};

use crate::{house_rules::assert_in_the_readme, neighbour::Process, planted::machine::Wired};

/// Runs the whole suite on the engine of a lab, but for these rules, which its profile does not promise or its lab
/// cannot show; and compares the engine's row in the README with its profile.
pub(crate) fn assert_kept(lab: &dyn Lab, skipped: &[&str]) {
    assert_in_the_readme(&block_on(lab.engine()).unwrap().profile());
    let report = block_on(conformance::check_all(lab));
    report.assert_kept();
    assert_eq!(report.skipped(), skipped, "{report}");
}

/// The lab of the memory engine, and of engines made from it.
pub(crate) struct Desk<E> {
    pub(crate) engine: E,
    pub(crate) wired: Wired,
    pub(crate) limit: Duration,
}

#[async_trait]
impl<E: Engine + Clone> Lab for Desk<E> {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        Ok(Box::new(self.engine.clone()))
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    async fn take_away(&self, key: &Key) -> Ability {
        self.wired.take_away(key);
        Ability::Yes(())
    }

    async fn cut_off(&self) -> Ability {
        self.wired.cut.store(true, Ordering::SeqCst);
        Ability::Yes(())
    }

    async fn heal(&self) {
        self.wired.cut.store(false, Ordering::SeqCst);
    }
}

#[test]
fn memory_keeps_the_rules() {
    let wired = Wired::default();
    let lab = Desk { engine: wired.clone(), wired, limit: Duration::from_secs(20) };
    let beyond = [
        "another_process_is_kept_out",
        "the_lock_goes_from_process_to_process",
        "when_the_holder_is_killed_the_next_one_gets_it",
        "a_killed_waiter_keeps_nobody_waiting",
        "a_stopped_process_keeps_the_lock",
        "a_stopped_process_loses_the_lock_and_knows",
    ];
    assert_kept(&lab, &beyond);
}

/// The lab of the file engine: a folder, and the test program once more as the second process.
#[cfg(target_os = "linux")]
struct Cabinet {
    folder: tempfile::TempDir,
}

#[cfg(target_os = "linux")]
impl Cabinet {
    fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }
}

#[cfg(target_os = "linux")]
#[async_trait]
impl Lab for Cabinet {
    async fn engine(&self) -> Result<Box<dyn Engine>> {
        conformance::open(&self.url()).await
    }

    async fn take_away(&self, key: &Key) -> Ability {
        // The suite's own keys are letters that stand in a file name as they are.
        std::fs::remove_file(self.folder.path().join(format!("{}.lock", key.as_str()))).unwrap();
        Ability::Yes(())
    }

    async fn neighbour(&self) -> Ability<Box<dyn Neighbour>> {
        Ability::Yes(Box::new(Process::start(&self.url())))
    }
}

#[cfg(target_os = "linux")]
#[test]
fn file_keeps_the_rules() {
    let lab = Cabinet { folder: tempfile::tempdir().unwrap() };
    let beyond = [
        "a_release_tells_that_the_lock_was_taken_away",
        "an_expired_lease_is_free_for_others",
        "a_lease_lasts_as_long_as_it_says",
        "an_expired_holder_cannot_come_back",
        "another_ttl_counts_from_the_next_renewal",
        "fences_grow_over_an_expired_lease",
        "a_loss_is_told_before_anybody_asks",
        "a_holder_that_is_cut_off_is_told_in_time",
        "a_short_cut_is_survived",
        "an_engine_out_of_reach_is_not_busy",
        "a_stopped_process_loses_the_lock_and_knows",
    ];
    assert_kept(&lab, &beyond);
}
