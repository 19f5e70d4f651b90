//! Judges what all workers wrote: who held what at the same moment, which fences went back, which
//! updates were lost, who was stuck.

use std::collections::{BTreeMap, HashSet};

use super::holds::{Hold, Wait, Witnessed};

/// Beyond its limit a call may take this long on a busy machine; what hangs takes longer.
const SLACK: u64 = 20_000_000_000;
/// How many of each kind are told in full.
const N_TOLD: usize = 3;
/// Errors that faults explain, besides the lock being busy.
const EXPECTED: [&str; 6] = ["Busy", "TimedOut", "Dropped", "Unreachable", "NoQuorum", "Lost"];

/// What the mode promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ttl: u64,
    /// Never two at once, whatever the faults: so guards come in the order of their grants.
    pub(crate) is_exclusive: bool,
    pub(crate) has_fence: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) n_turns: usize,
    /// Holds that began while another was held.
    pub(crate) n_overlaps: usize,
    pub(crate) longest_overlap: u64,
    /// Fences not above every one that was given before.
    pub(crate) n_fences_back: usize,
    pub(crate) n_fences_repeated: usize,
    /// Updates that came between read and write of another, with both locks held all the time.
    pub(crate) n_interleaved: usize,
    /// Holders that the resource refused though their locks were held.
    pub(crate) n_refused: usize,
    pub(crate) n_stuck: usize,
    /// How calls ended otherwise than with a guard.
    pub(crate) ends: BTreeMap<String, usize>,
    /// Errors that no fault explains.
    pub(crate) n_strange: usize,
    /// Some of all this in full.
    pub(crate) told: Vec<String>,
}

pub(crate) fn judge(workers: &[Witnessed], rules: Rules) -> Findings {
    let mut findings = Findings::default();
    let mut by_key: BTreeMap<u32, Vec<Hold>> = BTreeMap::new();
    for worker in workers {
        let (holds, waits) = worker.read(rules.ttl);
        findings.n_turns += holds.iter().filter(|hold| hold.was_held()).count();
        findings.n_refused += holds.iter().filter(|hold| hold.was_refused).count();
        for hold in holds {
            by_key.entry(hold.key).or_default().push(hold);
        }
        for wait in &waits {
            findings.judge_wait(worker, wait);
        }
    }
    for holds in by_key.values_mut() {
        holds.sort_by_key(|hold| hold.had);
        findings.look_for_overlaps(holds);
        findings.look_for_interleaved(holds);
        if rules.has_fence {
            findings.look_at_fences(holds, rules);
        }
    }
    findings
}

impl Findings {
    fn tell(&mut self, n_before: usize, what: impl FnOnce() -> String) {
        if n_before < N_TOLD {
            self.told.push(what());
        }
    }

    /// By start: whoever starts before the furthest end so far overlaps.
    fn look_for_overlaps(&mut self, holds: &[Hold]) {
        let mut furthest: Option<&Hold> = None;
        for hold in holds.iter().filter(|hold| hold.was_held()) {
            if let Some(before) = furthest
                && before.held_until > hold.had
            {
                let overlap = before.held_until.min(hold.held_until) - hold.had;
                self.longest_overlap = self.longest_overlap.max(overlap);
                self.tell(self.n_overlaps, || {
                    format!("two at once for {} us: {before}; and {hold}", overlap / 1_000)
                });
                self.n_overlaps += 1;
            }
            if furthest.is_none_or(|before| before.held_until < hold.held_until) {
                furthest = Some(hold);
            }
        }
    }

    /// The resource numbers its steps, so this needs no clock.
    fn look_for_interleaved(&mut self, holds: &[Hold]) {
        let whole = |hold: &Hold| Some((hold.read_step?, hold.write_step?));
        let mut updates: Vec<_> = holds.iter().filter_map(whole).collect();
        updates.sort_unstable();
        let mut furthest = 0;
        for (read, write) in updates {
            if read < furthest {
                self.tell(self.n_interleaved, || {
                    format!("an update was lost: read as step {read}, before step {furthest}")
                });
                self.n_interleaved += 1;
            }
            furthest = furthest.max(write);
        }
    }

    fn look_at_fences(&mut self, holds: &[Hold], rules: Rules) {
        let mut seen = HashSet::new();
        // The largest fence among the first so many holds, in the order of their calls' returns.
        let mut largest: Vec<u64> = Vec::new();
        for hold in holds {
            if !seen.insert(hold.fence) {
                self.tell(self.n_fences_repeated, || format!("a fence came twice: {hold}"));
                self.n_fences_repeated += 1;
            }
            // One that was never seen held may have been granted long before its call returned.
            let in_order = rules.is_exclusive && hold.was_held();
            let given_by = if in_order { hold.had } else { hold.granted_after };
            let n_before = holds.partition_point(|before| before.had < given_by);
            let before = n_before.min(largest.len()).checked_sub(1).map(|last| largest[last]);
            if before.is_some_and(|before| before > hold.fence) {
                self.tell(self.n_fences_back, || {
                    format!("a fence went back from {before:?}: {hold}")
                });
                self.n_fences_back += 1;
            }
            largest.push(hold.fence.max(largest.last().copied().unwrap_or(0)));
        }
    }

    fn judge_wait(&mut self, worker: &Witnessed, wait: &Wait) {
        if let Some(how) = &wait.how {
            let kind = how.split(' ').next().unwrap_or_default();
            *self.ends.entry(kind.to_owned()).or_default() += 1;
            if kind != "Ok" && !EXPECTED.contains(&kind) {
                self.tell(self.n_strange, || format!("an error no fault explains: {wait}"));
                self.n_strange += 1;
            }
        }
        // What never ended is only well if a kill ended it.
        let stuck = match (wait.ended, worker.killed_at) {
            (Some(ended), _) => {
                let took = ended.saturating_sub(wait.begun);
                let awake = took.saturating_sub(worker.stopped_within(wait.begun, ended));
                awake > wait.limit.saturating_add(SLACK)
            }
            (None, killed_at) => killed_at.is_none(),
        };
        if stuck {
            self.tell(self.n_stuck, || format!("stuck: {wait}"));
            self.n_stuck += 1;
        }
    }
}
