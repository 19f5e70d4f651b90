//! Engines with one defect each, and the rule of the conformance suite that must catch it.
//!
//! Every case is checked twice with the same lab: without the defect the rule is kept, with it the
//! rule is broken. And every rule must have at least one defect that it catches.

use std::{collections::HashSet, sync::Arc, thread, time::Duration};

use lockkeeper::{
    blocking::block_on,
    conformance::{self, Lab, Verdict},
    engine::Expiry,
};

use self::{
    asking::*,
    keeping::*,
    machine::{Defect, Planted, Wired},
    naming::*,
    neighbours::{Fault, check_with},
    quickly::*,
    releasing::*,
    waiting::*,
};
use crate::engines::Desk;

mod asking;
mod keeping;
pub(crate) mod machine;
mod naming;
mod neighbours;
mod quickly;
mod releasing;
mod waiting;

/// A sound engine may take its time.
const PATIENT: Duration = Duration::from_secs(30);
/// Enough to tell that what must happen does not.
const IMPATIENT: Duration = Duration::from_secs(1);
/// The same where the memory engine's own lease of a place in line, 3 s, must be over first.
const IMPATIENT_IN_LINE: Duration = Duration::from_secs(4);

/// The verdict of one rule.
fn verdict(lab: &dyn Lab, rule: &str) -> Verdict {
    let rule = conformance::rules().iter().find(|known| known.name == rule).unwrap();
    block_on(conformance::check(lab, rule))
}

fn is_caught(defect: impl Defect, rule: &str) {
    let sound = || {
        let wired = Wired::default();
        verdict(&Desk { engine: wired.clone(), wired, limit: PATIENT }, rule)
    };
    let planted = || {
        let wired = Wired::default();
        let planted = Planted { engine: wired.clone(), defect: Arc::new(defect) };
        let limit = if rule.contains("vanished") { IMPATIENT_IN_LINE } else { IMPATIENT };
        verdict(&Desk { engine: planted, wired, limit }, rule)
    };
    only_the_second_is_broken(sound, planted, rule);
}

fn is_caught_next_door(fault: Fault, expiry: Expiry, rule: &str) {
    let sound = || check_with(Fault::Nothing, expiry, PATIENT, rule);
    let planted = || check_with(fault, expiry, IMPATIENT, rule);
    only_the_second_is_broken(sound, planted, rule);
}

#[allow(
    clippy::print_stdout,
    reason = "shown with --nocapture: what each rule says of each defect"
)]
fn only_the_second_is_broken(
    sound: impl FnOnce() -> Verdict + Send,
    planted: impl FnOnce() -> Verdict + Send,
    rule: &str,
) {
    let [sound, planted] = thread::scope(|scope| {
        let sound = scope.spawn(sound);
        let planted = planted();
        [sound.join().unwrap(), planted]
    });
    assert_eq!(sound, Verdict::Kept, "{rule} does not hold without the defect");
    let Verdict::Broken(why) = planted else { panic!("{rule} with the defect: {planted:?}") };
    println!("{rule}: {why}");
}

const LEASE: Expiry = Expiry::Lease { shortest: Duration::from_millis(100) };

/// One test per defect, and the list of rules that were shown to catch something.
macro_rules! defects {
    ($rules:ident, $check:ident { $($test:ident: $($defect:expr),+ => $rule:ident;)+ }) => {
        $(#[test]
        fn $test() {
            $check($($defect),+, stringify!($rule));
        })+

        const $rules: &[&str] = &[$(stringify!($rule)),+];
    };
}

defects! { RULES_OF_ENGINES, is_caught {
    one_that_always_grants: AlwaysGrants => a_second_claim_is_told_busy;
    one_that_always_grants_lets_a_limited_wait_win: AlwaysGrants => a_limited_wait_ends;
    one_that_always_grants_lets_others_in_with_an_owner: AlwaysGrants => the_same_owner_comes_in_twice;
    one_that_always_grants_lets_two_inside: AlwaysGrants => nobody_is_inside_twice;
    one_that_cannot_tell_claims_apart: CannotTellClaimsApart => a_second_claim_is_told_busy;
    one_that_cannot_tell_claims_apart_lets_two_inside: CannotTellClaimsApart => nobody_is_inside_twice;
    one_that_grants_whoever_waited: GrantsWhoeverWaited => a_second_claim_is_told_busy;
    one_that_answers_later: AnswersLater => answers_at_once_need_no_waiting;
    one_that_is_busy_at_first: BusyAtFirst => a_free_key_is_granted_at_once;
    one_that_gives_a_new_fence_each_time: NewFenceEachTime => the_same_owner_asking_again_gets_the_same_fence;
    one_that_is_busy_for_its_own_holder: BusyForItself => the_same_owner_asking_again_gets_the_same_fence;
    one_that_forgets_attempts_cut_short: ForgetsAttemptsCutShort => an_attempt_cut_short_can_be_repeated;
    one_that_counts_attempts: CountsAttempts => asking_twice_needs_one_release;
    one_where_tries_stand_in_line: TriesStandInLine => a_try_never_enters_the_queue;
    one_that_serves_only_listeners: ServesOnlyListeners => asking_again_is_enough;
    one_that_barges_into_held_locks: BargesIntoHeldLocks => barging_may_overtake_but_nobody_is_forgotten;
    one_that_is_busy_when_cut_off: BusyWhenCutOff => an_engine_out_of_reach_is_not_busy;

    one_that_quickly_grants_what_is_held: QuicklyGrantsWhatIsHeld => the_quick_way_grants_only_what_is_free;
    one_that_quickly_releases_nothing: QuicklyReleasesNothing => the_quick_way_releases_for_good;
    one_that_forgets_quick_calls: ForgetsQuickCalls => a_quick_call_given_up_leaves_nothing_behind;
    one_that_never_tells: NeverTells => a_loss_is_told_before_anybody_asks;

    one_that_releases_nothing: ReleasesNothing => a_released_key_is_free_at_once;
    one_that_releases_nothing_when_a_guard_is_dropped: ReleasesNothing => a_dropped_guard_frees_the_key;
    one_that_releases_nothing_after_the_maximum: ReleasesNothing => the_maximum_hold_ends_a_hold;
    one_that_releases_only_once: ReleasesOnlyOnce => releasing_twice_is_harmless;
    one_that_releases_only_what_is_held: ReleasesOnlyWhatIsHeld => releasing_before_asking_is_harmless;
    one_that_releases_by_key: ReleasesByKey => a_release_never_touches_anothers_lock;
    one_that_releases_by_key_what_it_once_held: ReleasesByKeyWhatItOnceHeld => a_late_release_never_touches_the_next_holder;
    one_that_releases_by_key_what_it_lost: ReleasesByKeyWhatItOnceHeld => a_lost_lock_is_not_taken_back_from_the_next;
    one_that_releases_only_what_it_heard_of: ReleasesOnlyWhatItHeardOf => a_release_works_after_a_call_cut_short;
    one_that_releases_without_a_look: ReleasesWithoutALook => a_release_tells_that_the_lock_was_taken_away;
    one_whose_second_release_is_a_loss: NeverItsOwn => releasing_twice_is_harmless;
    one_that_is_used_again_too_soon: ReusedTooSoon => a_claim_that_is_used_again_is_as_good_as_new;
    one_that_is_used_again_as_before: ReusedAsBefore => a_claim_that_is_used_again_is_as_good_as_new;

    one_that_renews_by_asking: RenewsByAsking => renewing_never_takes_anew;
    one_that_renews_the_released: RenewsTheReleased => a_released_lock_cannot_be_renewed;
    one_that_renews_the_lost: RenewsTheLost => a_lost_lock_is_reported_by_renew;
    one_that_renews_the_lost_behind_a_guard: RenewsTheLost => a_guard_is_told_of_its_loss;
    one_that_renews_for_anyone: RenewsForAnyone => a_lost_lock_is_not_taken_back_from_the_next;
    one_that_renews_without_looking: RenewsWithoutLooking => an_expired_holder_cannot_come_back;
    one_whose_renewal_changes_nothing: RenewalChangesNothing => renewal_keeps_it_beyond_the_ttl;
    one_whose_renewal_changes_nothing_behind_a_guard: RenewalChangesNothing => a_blocked_thread_does_not_lose_it;
    one_that_forgets_another_ttl: ForgetsAnotherTtl => another_ttl_counts_from_the_next_renewal;
    one_that_keeps_another_ttl_to_itself: KeepsAnotherTtlToItself => another_ttl_counts_from_the_next_renewal;
    one_that_holds_when_cut_off: HoldsWhenCutOff => a_holder_that_is_cut_off_is_told_in_time;
    one_that_is_lost_at_the_first_error: LostAtTheFirstError => a_short_cut_is_survived;
    one_that_never_expires: NeverExpires::default() => an_expired_lease_is_free_for_others;
    one_that_expires_early: ExpiresEarly => a_lease_lasts_as_long_as_it_says;
    one_that_believes_its_own_book: BelievesItsOwnBook::default() => a_waiter_gets_what_was_taken_away;
    one_that_keeps_for_the_dropped: KeepsForTheDropped => a_claim_that_is_dropped_frees_itself_within_its_lease;

    one_that_wakes_nobody: WakesNobody => a_waiter_is_told_when_its_turn_comes;
    one_that_forgets_who_stops_listening: ForgetsWhoStopsListening => a_dropped_wait_for_change_can_be_taken_up_again;
    one_that_wakes_only_one: WakesOnlyOne::default() => everyone_in_line_is_told_in_turn;
    one_that_serves_whoever_asks_first: ServesWhoeverAsksFirst => first_come_first_served;
    one_where_newcomers_overtake: NewcomersOvertake => a_newcomer_does_not_overtake;
    one_that_keeps_leavers: KeepsLeavers::default() => a_waiter_that_left_is_forgotten;
    one_that_keeps_leavers_behind_a_future: KeepsLeavers::default() => a_dropped_acquire_leaves_nothing_behind;
    one_that_keeps_the_vanished: KeepsTheVanished::default() => a_waiter_that_vanished_costs_no_more_than_its_lease;

    one_that_grants_no_fences: Grants(|grant| grant.n_fences = 0) => a_grant_says_at_least_one_fence;
    one_whose_fence_goes_back: Grants(|grant| grant.fence = (1 << 40) - grant.fence) => fences_grow;
    one_whose_fence_repeats: Grants(|grant| grant.fence = 7) => fences_grow;
    one_whose_reserved_fences_overlap: Grants(|grant| grant.n_fences += 1) => fences_grow;
    one_whose_fence_repeats_behind_a_guard: Grants(|grant| grant.fence = 7) => nobody_is_inside_twice;
    one_that_counts_releases_after_expiry: CountsReleases::default() => fences_grow_over_an_expired_lease;
    one_that_counts_releases_after_a_loss: CountsReleases::default() => fences_grow_over_a_loss;
    one_that_tidies_the_counter_away: TidiesTheCounterAway::default() => fences_grow_over_tidying;

    one_that_folds_case: Keys(str::to_lowercase) => different_keys_do_not_meet;
    one_that_trims_spaces: Keys(|key| format!("<{}>", key.trim_end_matches(' '))) => different_keys_do_not_meet;
    one_that_ends_keys_at_nul: Keys(|key| format!("<{}", key.split('\0').next().unwrap())) => different_keys_do_not_meet;
    one_that_decodes_percent_signs: Keys(|key| key.replace("%41", "A")) => different_keys_do_not_meet;
    one_that_composes_accents: Keys(|key| key.replace("e\u{301}", "\u{e9}")) => different_keys_do_not_meet;
    one_that_cuts_keys_at_64: Keys(|key| key.chars().take(64).collect()) => a_key_of_512_bytes_works;
    one_that_cuts_keys_at_511: Keys(|key| key.chars().take(511).collect()) => a_key_of_512_bytes_works;

    one_that_shows_no_holder: Shows(|who| who.holder = None) => who_sees_holder_and_line;
    one_that_shows_the_line_backwards: Shows(|who| who.line.reverse()) => who_sees_holder_and_line;
    one_that_shows_another_fence: Shows(|who| who.holder.as_mut().unwrap().fence = Some(1 << 50)) => who_sees_holder_and_line;
    one_that_always_shows_somebody: Shows(somebody) => who_sees_nobody_at_a_free_key;
    one_that_lists_nothing: Lists(Vec::clear) => the_list_knows_what_is_held;
    one_that_lists_backwards: Lists(|list| list.reverse()) => the_list_knows_what_is_held;
    one_that_tidies_holders_away: TidiesHoldersAway => tidying_spares_what_is_in_use;

} }

defects! { RULES_OF_NEIGHBOURS, is_caught_next_door {
    a_neighbour_elsewhere_is_not_kept_out: Fault::LivesElsewhere, LEASE => another_process_is_kept_out;
    a_neighbour_elsewhere_takes_no_turns: Fault::LivesElsewhere, LEASE => the_lock_goes_from_process_to_process;
    a_holder_that_survives_being_killed: Fault::IsUndead, LEASE => when_the_holder_is_killed_the_next_one_gets_it;
    a_waiter_that_survives_being_killed: Fault::IsUndead, LEASE => a_killed_waiter_keeps_nobody_waiting;
    a_session_that_ends_when_stopped: Fault::LetsGo, Expiry::Session => a_stopped_process_keeps_the_lock;
    a_lease_that_does_not_end_when_stopped: Fault::IsSleepless, LEASE => a_stopped_process_loses_the_lock_and_knows;
} }

#[test]
fn every_rule_catches_something() {
    let catch: HashSet<_> = RULES_OF_ENGINES.iter().chain(RULES_OF_NEIGHBOURS).copied().collect();
    let idle: Vec<_> = conformance::rules().iter().map(|rule| rule.name).collect();
    let idle: Vec<_> = idle.into_iter().filter(|name| !catch.contains(name)).collect();
    assert!(idle.is_empty(), "no planted defect shows that these can fail: {idle:?}");
}
