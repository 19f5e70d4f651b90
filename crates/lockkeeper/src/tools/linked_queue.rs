//! A first-in-first-out list from which any entry can leave in constant time.

/// The list: entries live in one vector, linked by index, so adding and leaving allocate nothing
/// once it has grown.
#[derive(Debug)]
pub(crate) struct LinkedQueue<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    first: u32,
    last: u32,
}

/// Where an entry stands. It stays valid, and harmless, after the entry has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    slot: u32,
    // Told apart from a later entry in the same slot.
    round: u32,
}

impl Place {
    /// The least and the greatest in no order that means anything, but for looking up.
    pub(crate) const LEAST: Self = Self { slot: 0, round: 0 };
    pub(crate) const GREATEST: Self = Self { slot: u32::MAX, round: u32::MAX };
}

#[derive(Debug)]
struct Slot<T> {
    entry: Option<T>,
    round: u32,
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

impl<T> Default for LinkedQueue<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), first: NONE, last: NONE }
    }
}

impl<T> LinkedQueue<T> {
    pub(crate) fn push_back(&mut self, entry: T) -> Place {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { entry: None, round: 0, before: NONE, after: NONE });
            u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
        });
        let before = std::mem::replace(&mut self.last, slot);
        let here = &mut self.slots[slot as usize];
        here.entry = Some(entry);
        here.before = before;
        here.after = NONE;
        let round = here.round;
        match before {
            NONE => self.first = slot,
            before => self.slots[before as usize].after = slot,
        }
        Place { slot, round }
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.slots.get(self.first as usize)?.entry.as_ref()
    }

    /// The entry at this place, unless it has left.
    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        if slot.round == place.round { slot.entry.as_mut() } else { None }
    }

    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let round = self.slots.get(self.first as usize)?.round;
        self.remove(Place { slot: self.first, round })
    }

    /// Takes the entry out, unless it has left before.
    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        if slot.round != place.round {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.round = slot.round.wrapping_add(1);
        let (before, after) = (slot.before, slot.after);
        match before {
            NONE => self.first = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.slots[after as usize].before = before,
        }
        self.free.push(place.slot);
        Some(entry)
    }

    /// The places and entries, first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slot = self.slots.get(next as usize)?;
            let place = Place { slot: next, round: slot.round };
            next = slot.after;
            Some((place, slot.entry.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue_with_a_side_door(steps in prop::collection::vec(0u32..100, 0..200)) {
            let mut queue = LinkedQueue::default();
            let mut model: VecDeque<(Place, usize)> = VecDeque::new();
            let mut gone = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    0..50 => model.push_back((queue.push_back(n), n)),
                    50..75 => {
                        let first = model.pop_front();
                        prop_assert_eq!(queue.pop_first(), first.map(|(_, n)| n));
                        gone.extend(first);
                    }
                    _ if model.is_empty() => {}
                    _ => {
                        let (place, n) = model.remove(step as usize % model.len()).unwrap();
                        prop_assert_eq!(queue.remove(place), Some(n));
                        gone.push((place, n));
                    }
                }
                for (place, _) in &gone {
                    let stale = model.iter().all(|(other, _)| other != place);
                    prop_assert!(stale && queue.remove(*place).is_none());
                }
                prop_assert!(queue.iter().map(|(_, n)| *n).eq(model.iter().map(|(_, n)| *n)));
                prop_assert_eq!(queue.first(), model.front().map(|(_, n)| n));
            }
        }
    }
}
