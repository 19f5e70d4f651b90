//! What is due when: entries that nearly always leave before their time comes.
//!
//! Every call that waits may enter something here and take it out, so both must cost next to nothing:
//! one list per waiting time, which is in order of due time by itself.

use std::time::Duration;

use super::clock::Moment;
use crate::tools::linked_queue::{LinkedQueue, Place};

#[derive(Debug)]
pub(crate) struct Timers<T> {
    lists: Vec<(Duration, LinkedQueue<(Moment, T)>)>,
}

/// Where an entry stands in the timers; harmless once the entry has left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    list: usize,
    place: Place,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { lists: Vec::new() }
    }
}

impl<T> Timers<T> {
    /// Enters something that is due after exactly this wait. Each wait has a list of its own, so
    /// there should be few different ones.
    pub(crate) fn enter_after(&mut self, now: Moment, wait: Duration, item: T) -> (Entry, Moment) {
        let list = self.lists.iter().position(|(of, _)| *of == wait).unwrap_or_else(|| {
            self.lists.push((wait, LinkedQueue::default()));
            self.lists.len() - 1
        });
        let due = now + wait;
        (Entry { list, place: self.lists[list].1.push_back((due, item)) }, due)
    }

    /// What was entered, if it is still there.
    pub(crate) fn get_mut(&mut self, entry: Entry) -> Option<&mut T> {
        let (_, list) = self.lists.get_mut(entry.list)?;
        list.get_mut(entry.place).map(|(_, item)| item)
    }

    pub(crate) fn leave(&mut self, entry: Entry) -> Option<T> {
        let (_, list) = self.lists.get_mut(entry.list)?;
        list.remove(entry.place).map(|(_, item)| item)
    }

    /// Takes out one entry that is due, and when it came to be.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<(Moment, T)> {
        let (_, list) = self
            .lists
            .iter_mut()
            .find(|(_, list)| list.first().is_some_and(|(due, _)| *due <= now))?;
        list.pop_first()
    }

    /// When the next entry is due.
    pub(crate) fn next_due(&self) -> Moment {
        let firsts = self.lists.iter().filter_map(|(_, list)| list.first());
        firsts.map(|(due, _)| *due).min().unwrap_or(Moment::NEVER)
    }
}

/// Keeps the four leading bits, so that there are at most sixteen lists per doubling of the time,
/// however odd the ttls are.
pub(crate) fn rounded_down(wait: Duration) -> Duration {
    let ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    let kept = ns.checked_ilog2().map_or(0, |log| log.saturating_sub(4));
    Duration::from_nanos(ns >> kept << kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn entries_come_up_in_time_and_never_late() {
        let (mut timers, start) = (Timers::default(), Moment::from_nanos(0));
        for n in [700, 30, 31, 5000, 30] {
            timers.enter_after(start, rounded_down(n * MS), n);
        }
        let mut seen = Vec::new();
        while timers.next_due() < Moment::NEVER {
            let now = timers.next_due();
            let (due, n) = timers.take_due(now).unwrap();
            assert_eq!(due, now);
            assert!(now <= start + n * MS && now + n * MS / 8 >= start + n * MS, "{n}: {now:?}");
            seen.push(n);
        }
        seen.sort_unstable();
        assert_eq!(seen, [30, 30, 31, 700, 5000]);
    }

    #[test]
    fn what_has_left_does_not_come_up() {
        let (mut timers, now) = (Timers::default(), Moment::from_nanos(0));
        let (entry, _) = timers.enter_after(now, MS, "a");
        assert_eq!(timers.leave(entry), Some("a"));
        assert_eq!(timers.leave(entry), None);
        assert_eq!(timers.take_due(Moment::NEVER), None);
    }

    #[test]
    fn odd_times_share_lists() {
        let mut timers = Timers::default();
        for n in 0..100_000u64 {
            let now = Moment::from_nanos(n);
            timers.enter_after(now, rounded_down(Duration::from_nanos(n * 997_001)), n);
        }
        assert!(timers.lists.len() < 700, "{}", timers.lists.len());
    }
}
