//! Those who wait in one line, first to last.

use std::{collections::BTreeSet, sync::Arc};

use super::seat::{OwnerNumber, Seat};
use crate::{
    engine::Patience,
    tools::linked_queue::{LinkedQueue, Place},
};

/// The seats in order of arrival, and by owner: the tasks of an owner come in together.
#[derive(Debug, Default)]
pub(super) struct Queue {
    seats: LinkedQueue<Arc<Seat>>,
    /// Of those who have an owner and came when others waited. Whoever comes first stays first, and so
    /// is never looked for: a free key costs nothing here.
    by_owner: BTreeSet<(OwnerNumber, Place)>,
    n_trying: usize,
    n_waiting: usize,
}

impl Queue {
    pub(super) fn push_back(&mut self, seat: Arc<Seat>) -> Place {
        *self.n_of(seat.wish.patience) += 1;
        let owner = seat.wish.owner.filter(|_| self.first().is_some());
        let place = self.seats.push_back(seat);
        self.by_owner.extend(owner.map(|owner| (owner, place)));
        place
    }

    pub(super) fn first(&self) -> Option<&Arc<Seat>> {
        self.seats.first()
    }

    /// Whether anybody is in line who means to wait.
    pub(super) fn has_waiting(&self) -> bool {
        self.n_waiting > 0
    }

    fn n_of(&mut self, patience: Patience) -> &mut usize {
        match patience {
            Patience::Tries => &mut self.n_trying,
            Patience::Waits => &mut self.n_waiting,
        }
    }

    pub(super) fn has_second(&self) -> bool {
        self.seats.iter().nth(1).is_some()
    }

    pub(super) fn pop_first(&mut self) -> Option<Arc<Seat>> {
        let (place, _) = self.seats.iter().next()?;
        self.remove(place)
    }

    /// Takes the seat out, unless it has left before.
    pub(super) fn remove(&mut self, place: Place) -> Option<Arc<Seat>> {
        let seat = self.seats.remove(place)?;
        *self.n_of(seat.wish.patience) -= 1;
        if let Some(owner) = seat.wish.owner {
            self.by_owner.remove(&(owner, place));
        }
        Some(seat)
    }

    /// Takes the other seats of the owner who was the first in line out.
    pub(super) fn take_mates(&mut self, owner: OwnerNumber) -> Vec<Arc<Seat>> {
        let places = self.by_owner.range((owner, Place::LEAST)..=(owner, Place::GREATEST));
        let places: Vec<_> = places.map(|(_, place)| *place).collect();
        places.into_iter().filter_map(|place| self.remove(place)).collect()
    }

    /// Takes those out who only try.
    pub(super) fn take_trying(&mut self) -> Vec<Arc<Seat>> {
        match self.n_trying {
            0 => Vec::new(),
            _ => self.take_those(|seat| seat.wish.patience == Patience::Tries),
        }
    }

    /// Takes all seats out that are such.
    // One by one: the places of those who are answered must not come up again in a new queue.
    pub(super) fn take_those(&mut self, is_such: impl Fn(&Seat) -> bool) -> Vec<Arc<Seat>> {
        let such = self.seats.iter().filter(|(_, seat)| is_such(seat));
        let places: Vec<_> = such.map(|(place, _)| place).collect();
        places.into_iter().filter_map(|place| self.remove(place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::seat::Wish;

    fn seat(owner: Option<OwnerNumber>) -> Arc<Seat> {
        let patience = Patience::Waits;
        Arc::new(Seat::new(Wish { terms: None, patience, owner, maximum_hold: None }))
    }

    fn owners(seats: &[Arc<Seat>]) -> Vec<Option<OwnerNumber>> {
        seats.iter().map(|seat| seat.wish.owner).collect()
    }

    #[test]
    fn the_tasks_of_an_owner_are_found_and_leave_nothing_behind() {
        let mut queue = Queue::default();
        let comers = [Some(1), None, Some(2), Some(1), Some(2), Some(1)];
        let places: Vec<_> = comers.map(|owner| queue.push_back(seat(owner))).into();
        assert_eq!(queue.remove(places[3]).map(|seat| seat.wish.owner), Some(Some(1)));
        assert_eq!(queue.pop_first().map(|seat| seat.wish.owner), Some(Some(1)));
        assert_eq!(owners(&queue.take_mates(1)), [Some(1)]);
        assert!(queue.remove(places[5]).is_none() && queue.take_mates(1).is_empty());
        assert_eq!(queue.pop_first().map(|seat| seat.wish.owner), Some(None));
        assert_eq!(owners(&queue.take_those(|seat| seat.wish.owner == Some(2))), [Some(2); 2]);
        assert!(queue.first().is_none() && queue.by_owner.is_empty());
    }
}
