//! Planted histories: each fault is found, and what is well is not taken for a fault.

use super::{
    holds::Witnessed,
    judge::{Findings, Rules, judge},
    record::{Event, Line},
};

const MS: u64 = 1_000_000;
const TTL: u64 = 1_000 * MS;
const EXCLUSIVE: Rules = Rules { ttl: TTL, is_exclusive: true, has_fence: true };
const SPLIT: Rules = Rules { ttl: TTL, is_exclusive: false, has_fence: true };

/// A turn on key 0: asked, had and looked at these moments, with so much left, all in ms.
fn turn(call: u64, fence: u64, asked: u64, had: u64, left: u64) -> Vec<Line> {
    let at = had * MS;
    lines(
        call,
        [
            Event::Ask { key: 0, at: asked * MS, limit: 10 * TTL },
            Event::Have { fence, at, look: at, left: left * MS },
        ],
    )
}

fn lines(call: u64, events: impl IntoIterator<Item = Event>) -> Vec<Line> {
    events.into_iter().map(|event| Line { call, event }).collect()
}

fn leave(call: u64, at: u64) -> Vec<Line> {
    let how = "Ok".to_owned();
    lines(call, [Event::Leave { at: at * MS }, Event::Left { at: at * MS, how }])
}

fn worker(number: u32, lines: &[Vec<Line>]) -> Witnessed {
    Witnessed { number, lines: lines.concat(), ..Witnessed::default() }
}

fn overlaps(workers: &[Witnessed]) -> usize {
    judge(workers, EXCLUSIVE).n_overlaps
}

fn faults(findings: &Findings) -> [usize; 6] {
    [
        findings.n_overlaps,
        findings.n_fences_back,
        findings.n_fences_repeated,
        findings.n_interleaved,
        findings.n_stuck,
        findings.n_strange,
    ]
}

#[test]
fn turns_one_after_the_other_are_well() {
    let first = worker(1, &[turn(1, 5, 0, 1, 990), leave(1, 10)]);
    let second = worker(2, &[turn(1, 6, 0, 10, 990), leave(1, 20)]);
    for rules in [EXCLUSIVE, SPLIT] {
        let findings = judge(&[first.clone(), second.clone()], rules);
        assert_eq!((findings.n_turns, faults(&findings)), (2, [0; 6]), "{:?}", findings.told);
    }
}

#[test]
fn an_overlap_is_found_and_measured() {
    let first = worker(1, &[turn(1, 5, 0, 1, 990), leave(1, 10)]);
    let second = worker(2, &[turn(1, 6, 0, 8, 990), leave(1, 20)]);
    let findings = judge(&[first, second], EXCLUSIVE);
    assert_eq!((findings.n_overlaps, findings.longest_overlap), (1, 2 * MS));
}

#[test]
fn a_stopped_holder_holds_as_long_as_its_guard_had_vouched() {
    // It is stopped from 10 to 3000 and then sees that the lock is gone.
    let mut stopped = worker(1, &[turn(1, 5, 0, 1, 990)]);
    stopped.lines.extend(lines(1, [Event::Over { at: 3_001 * MS }]));
    stopped.stops.push((10 * MS, 3_000 * MS));
    let next = |at| worker(2, &[turn(1, 6, 0, at, 990), leave(1, at + 1)]);
    assert_eq!(overlaps(&[stopped.clone(), next(991)]), 0);
    assert_eq!(overlaps(&[stopped.clone(), next(990)]), 1);
    // It had been renewed before it was stopped.
    stopped.lines.insert(2, Line { call: 1, event: Event::Held { look: 9 * MS, left: TTL } });
    assert_eq!(overlaps(&[stopped.clone(), next(1_008)]), 1);
    assert_eq!(overlaps(&[stopped, next(1_009)]), 0);
}

#[test]
fn a_kill_and_a_seen_loss_end_a_hold() {
    let next = worker(2, &[turn(1, 6, 0, 500, 990), leave(1, 501)]);
    let mut killed = worker(1, &[turn(1, 5, 0, 1, 990)]);
    killed.killed_at = Some(500 * MS);
    assert_eq!(overlaps(&[killed.clone(), next.clone()]), 0);
    killed.killed_at = Some(501 * MS);
    assert_eq!(overlaps(&[killed, next.clone()]), 1);
    let lost = worker(1, &[turn(1, 5, 0, 1, 990), lines(1, [Event::Over { at: 499 * MS }])]);
    assert_eq!(overlaps(&[lost, next]), 0);
}

#[test]
fn a_guard_that_was_dead_when_first_looked_at_holds_nothing() {
    let holder = worker(1, &[turn(1, 6, 0, 1, 990), leave(1, 900)]);
    let dead = worker(2, &[turn(1, 5, 0, 10, 0), leave(1, 11)]);
    let findings = judge(&[holder, dead], EXCLUSIVE);
    assert_eq!((findings.n_turns, faults(&findings)), (1, [0; 6]), "{:?}", findings.told);
}

#[test]
fn fences_that_go_back_or_repeat_are_found() {
    let first = worker(1, &[turn(1, 5, 0, 1, 990), leave(1, 10)]);
    for (fence, expected) in [(4, [0, 1, 0, 0, 0, 0]), (5, [0, 0, 1, 0, 0, 0])] {
        let second = worker(2, &[turn(1, fence, 11, 12, 990), leave(1, 20)]);
        for rules in [EXCLUSIVE, SPLIT] {
            let findings = judge(&[first.clone(), second.clone()], rules);
            assert_eq!(faults(&findings), expected, "{fence} {:?}", findings.told);
        }
    }
}

#[test]
fn after_a_split_only_a_grant_that_came_later_must_have_a_larger_fence() {
    let first = worker(1, &[turn(1, 5, 0, 600, 990), leave(1, 610)]);
    // Granted by another server at about 500, as its lease tells, and heard of at 700.
    let earlier = worker(2, &[turn(1, 4, 0, 700, 790), leave(1, 800)]);
    assert_eq!(judge(&[first.clone(), earlier.clone()], SPLIT).n_fences_back, 0);
    assert_eq!(judge(&[first.clone(), earlier], EXCLUSIVE).n_fences_back, 1);
    let later = worker(2, &[turn(1, 4, 0, 700, 990), leave(1, 800)]);
    assert_eq!(judge(&[first.clone(), later.clone()], SPLIT).n_fences_back, 1);
    // A lease that may have been renewed after a stop tells nothing of the grant.
    let mut stopped = later;
    stopped.stops.push((300 * MS, 690 * MS));
    assert_eq!(judge(&[first, stopped], SPLIT).n_fences_back, 0);
}

#[test]
fn updates_that_interleave_under_held_locks_are_lost() {
    let update = |number, read, write| {
        let steps = [Event::Read { step: read }, Event::Wrote { step: write }];
        let (had, fence) = (read * 10, read);
        worker(number, &[turn(1, fence, had, had, 990), lines(1, steps), leave(1, had + 1)])
    };
    assert_eq!(judge(&[update(1, 1, 2), update(2, 3, 4)], EXCLUSIVE).n_interleaved, 0);
    assert_eq!(judge(&[update(1, 1, 3), update(2, 2, 4)], EXCLUSIVE).n_interleaved, 1);
    assert_eq!(judge(&[update(1, 1, 4), update(2, 2, 3)], EXCLUSIVE).n_interleaved, 1);
}

#[test]
fn a_call_without_an_end_or_long_after_its_limit_is_stuck() {
    let ask = Event::Ask { key: 0, at: 0, limit: TTL };
    let mut hanging = worker(1, &[lines(1, [ask.clone()])]);
    assert_eq!(judge(&[hanging.clone()], EXCLUSIVE).n_stuck, 1);
    hanging.killed_at = Some(1);
    assert_eq!(judge(&[hanging], EXCLUSIVE).n_stuck, 0);
    let end = Event::End { at: 60 * TTL, how: "TimedOut".into() };
    let mut late = worker(1, &[lines(1, [ask.clone(), end])]);
    assert_eq!(judge(&[late.clone()], EXCLUSIVE).n_stuck, 1);
    late.stops.push((TTL, 58 * TTL));
    assert_eq!(judge(&[late], EXCLUSIVE).n_stuck, 0);
    let end = Event::End { at: 2, how: "Other the server said ERR".into() };
    assert_eq!(judge(&[worker(1, &[lines(1, [ask, end])])], EXCLUSIVE).n_strange, 1);
}
