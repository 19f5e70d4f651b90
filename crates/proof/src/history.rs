//! Judges what workers wrote down under a lock: nobody overlaps, fences grow, no count is lost.

use std::{collections::HashMap, ops::RangeInclusive};

/// One line of a history, written while the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mark: Mark,
    pub(crate) fence: u64,
    pub(crate) worker: u32,
    pub(crate) at_ns: u64,
    /// The count as it was read on entering, and as it was written before leaving.
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Enter,
    Leave,
}

/// When each killed worker was sent its signal.
pub(crate) type Kills = HashMap<u32, u64>;

/// What a history that holds adds up to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Turns that were ended by the one who had them.
    pub(crate) n_turns: usize,
    /// Turns that were ended by a kill.
    pub(crate) n_cut_short: usize,
    /// What the count may be now: whoever was killed inside may have written or not.
    pub(crate) count: RangeInclusive<u64>,
}

/// Checks the history of one key.
pub(crate) fn check(entries: &[Entry], kills: &Kills) -> Result<Tally, String> {
    let first_count = entries.first().map_or(0, |entry| entry.count);
    let mut tally = Tally { n_turns: 0, n_cut_short: 0, count: first_count..=first_count };
    let mut inside: Option<Entry> = None;
    let mut last_fence = None;
    for entry in entries {
        match entry.mark {
            Mark::Enter => {
                if let Some(before) = inside.replace(*entry) {
                    end_by_kill(&before, Some(entry), kills)?;
                    tally.n_cut_short += 1;
                    tally.count = before.count..=before.count + 1;
                }
                if last_fence >= Some(entry.fence) {
                    return Err(format!("fences do not grow: {entry:?} after {last_fence:?}"));
                }
                last_fence = Some(entry.fence);
                if !tally.count.contains(&entry.count) {
                    return Err(format!(
                        "a count was lost: {entry:?} but it was {:?}",
                        tally.count
                    ));
                }
                tally.count = entry.count..=entry.count;
            }
            Mark::Leave => {
                let begun = inside.take().ok_or_else(|| format!("{entry:?} without entering"))?;
                if (begun.worker, begun.fence) != (entry.worker, entry.fence) {
                    return Err(format!("two inside: {entry:?} while {begun:?}"));
                }
                if entry.count != begun.count + 1 {
                    return Err(format!("counted wrongly: {entry:?} after {begun:?}"));
                }
                tally.n_turns += 1;
                tally.count = entry.count..=entry.count;
            }
        }
    }
    if let Some(before) = inside {
        end_by_kill(&before, None, kills)?;
        tally.n_cut_short += 1;
        tally.count = before.count..=before.count + 1;
    }
    Ok(tally)
}

/// A turn without a leave is well only if a kill came before the next one began.
fn end_by_kill(before: &Entry, next: Option<&Entry>, kills: &Kills) -> Result<(), String> {
    match (kills.get(&before.worker), next) {
        (Some(killed_at), Some(next)) if *killed_at > next.at_ns => {
            Err(format!("two inside: {next:?} while {before:?}, killed only at {killed_at}"))
        }
        (Some(_), _) => Ok(()),
        (None, Some(next)) => Err(format!("two inside: {next:?} while {before:?}")),
        (None, None) => Err(format!("never left: {before:?}")),
    }
}

/// Checks that the workers entered in this order, each once and nobody else.
pub(crate) fn check_order(entries: &[Entry], expected: &[u32]) -> Result<(), String> {
    let entered = entries.iter().filter(|entry| entry.mark == Mark::Enter);
    let entered: Vec<u32> = entered.map(|entry| entry.worker).collect();
    if entered == expected {
        return Ok(());
    }
    Err(format!("not in order: entered {entered:?}, came {expected:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(fence: u64, worker: u32, at_ns: u64, count: u64) -> Entry {
        Entry { mark: Mark::Enter, fence, worker, at_ns, count }
    }

    fn leave(fence: u64, worker: u32, at_ns: u64, count: u64) -> Entry {
        Entry { mark: Mark::Leave, fence, worker, at_ns, count }
    }

    fn refused(entries: &[Entry], kills: &[(u32, u64)], why: &str) {
        let error = check(entries, &kills.iter().copied().collect()).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }

    #[test]
    fn turns_one_after_the_other_are_well() {
        let history =
            [enter(5, 1, 10, 0), leave(5, 1, 11, 1), enter(9, 2, 12, 1), leave(9, 2, 13, 2)];
        let tally = check(&history, &Kills::new()).unwrap();
        assert_eq!(tally, Tally { n_turns: 2, n_cut_short: 0, count: 2..=2 });
    }

    #[test]
    fn a_kill_ends_a_turn_with_or_without_its_count() {
        let kills = Kills::from([(1, 11)]);
        for count in [0, 1] {
            let history = [enter(5, 1, 10, 0), enter(6, 2, 12, count), leave(6, 2, 13, count + 1)];
            let tally = check(&history, &kills).unwrap();
            assert_eq!((tally.n_turns, tally.n_cut_short), (1, 1));
            assert_eq!(tally.count, count + 1..=count + 1);
        }
        assert_eq!(check(&[enter(5, 1, 10, 0)], &kills).unwrap().count, 0..=1);
        refused(&[enter(5, 1, 10, 0), enter(6, 2, 12, 2)], &[(1, 11)], "a count was lost");
    }

    #[test]
    fn two_inside_are_refused() {
        let history =
            [enter(5, 1, 10, 0), enter(6, 2, 11, 0), leave(6, 2, 12, 1), leave(5, 1, 13, 1)];
        refused(&history, &[], "two inside");
        // Killed, but only after the other had entered.
        refused(&history[..2], &[(1, 12)], "two inside");
        // Killed in time, and yet still writing.
        refused(&[history[0], history[1], leave(5, 1, 13, 1)], &[(1, 10)], "two inside");
        refused(&history[..1], &[], "never left");
        refused(&history[2..], &[], "Entry");
    }

    #[test]
    fn fences_that_do_not_grow_are_refused() {
        for second in [4, 5] {
            let history = [enter(5, 1, 10, 0), leave(5, 1, 11, 1), enter(second, 2, 12, 1)];
            refused(&history, &[(2, 20)], "fences do not grow");
        }
    }

    #[test]
    fn lost_and_invented_counts_are_refused() {
        for count in [0, 2] {
            let history = [enter(5, 1, 10, 0), leave(5, 1, 11, 1), enter(6, 2, 12, count)];
            refused(&history, &[(2, 20)], "a count was lost");
        }
        refused(&[enter(5, 1, 10, 0), leave(5, 1, 11, 2)], &[], "counted wrongly");
    }

    #[test]
    fn another_order_is_refused() {
        let history =
            [enter(5, 1, 10, 0), leave(5, 1, 11, 1), enter(6, 3, 12, 1), leave(6, 3, 13, 2)];
        check_order(&history, &[1, 3]).unwrap();
        for expected in [&[3, 1][..], &[1], &[1, 2, 3]] {
            check_order(&history, expected).unwrap_err();
        }
    }
}
