//! The rules of the contract, on every form of Redis.

use lockkeeper::{
    blocking::block_on,
    conformance::{self, Lab},
};

use super::labs::Single;

/// What no engine over a network can promise: to answer without waiting, and to keep a lock for a
/// process that is stopped.
const BEYOND: [&str; 2] = ["answers_at_once_need_no_waiting", "a_stopped_process_keeps_the_lock"];

fn assert_kept(lab: &dyn Lab, skipped: &[&str]) {
    let report = block_on(conformance::check_all(lab));
    report.assert_kept();
    assert_eq!(report.skipped(), skipped, "{report}");
}

#[test]
fn native_keeps_the_rules() {
    assert_kept(&Single::start(""), &BEYOND);
}
