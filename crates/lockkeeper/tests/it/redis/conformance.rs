//! The rules of the contract, on every form of Redis.

use super::labs::{Clustered, Guarded, Redlock, Single};
use crate::engines::assert_kept;

/// What no engine over a network can promise: to answer without waiting, and to keep a lock for a
/// process that is stopped.
const BEYOND: [&str; 3] = [
    "answers_at_once_need_no_waiting",
    "a_loss_is_told_before_anybody_asks",
    "a_stopped_process_keeps_the_lock",
];
/// What has no place in a lock that other libraries share: being told, an order, fences, and a name for
/// the holder.
const TOLD: [&str; 3] = [
    "a_waiter_is_told_when_its_turn_comes",
    "a_dropped_wait_for_change_can_be_taken_up_again",
    "everyone_in_line_is_told_in_turn",
];
const ORDERED_AND_FENCED: [&str; 10] = [
    "first_come_first_served",
    "a_newcomer_does_not_overtake",
    "fences_grow",
    "fences_grow_over_an_expired_lease",
    "fences_grow_over_a_loss",
    "fences_grow_over_tidying",
    "who_sees_holder_and_line",
    "who_sees_nobody_at_a_free_key",
    "the_list_knows_what_is_held",
    "tidying_spares_what_is_in_use",
];

#[test]
fn native_keeps_the_rules() {
    assert_kept(&Single::start(""), &BEYOND);
}

#[test]
fn plain_keeps_the_rules() {
    let skipped = [&BEYOND[..1], &TOLD, &ORDERED_AND_FENCED, &BEYOND[1..]].concat();
    assert_kept(&Single::start("dialect=plain"), &skipped);
}

#[test]
fn redisson_keeps_the_rules() {
    let skipped = [&BEYOND[..1], &ORDERED_AND_FENCED, &BEYOND[1..]].concat();
    assert_kept(&Single::start("dialect=redisson"), &skipped);
}

#[test]
fn native_on_a_cluster_keeps_the_rules() {
    assert_kept(&Clustered::start(), &BEYOND);
}

#[test]
fn native_with_sentinels_keeps_the_rules() {
    let needs_a_cut = [
        "a_holder_that_is_cut_off_is_told_in_time",
        "a_short_cut_is_survived",
        "an_engine_out_of_reach_is_not_busy",
    ];
    let [first, unasked, last] = BEYOND;
    let skipped = [&[first, unasked][..], &needs_a_cut, &[last]].concat();
    assert_kept(&Guarded::start(), &skipped);
}

#[test]
fn redlock_of_five_keeps_the_rules() {
    // No line in the servers, nobody is told, nobody can look.
    let skipped = [
        BEYOND[0],
        "a_waiter_is_told_when_its_turn_comes",
        "a_dropped_wait_for_change_can_be_taken_up_again",
        "everyone_in_line_is_told_in_turn",
        "first_come_first_served",
        "a_newcomer_does_not_overtake",
        "fences_grow_over_tidying",
        "who_sees_holder_and_line",
        "who_sees_nobody_at_a_free_key",
        "the_list_knows_what_is_held",
        "tidying_spares_what_is_in_use",
        BEYOND[1],
        BEYOND[2],
    ];
    assert_kept(&Redlock::start(), &skipped);
}
