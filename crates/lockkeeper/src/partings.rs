//! Claims that were given back, and whose answer is still on its way.
//!
//! When a guard is dropped, its release is sent from right there, and nobody waits for the answer:
//! a thread woken for each would cost more than all the rest. So the errand is kept here. Whoever
//! drops a guard next looks whether the oldest answers have come; what nobody has looked at for a
//! moment, the steward takes over, who also asks again when an answer was lost.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_lite::future;

use crate::{
    engine::Claim,
    errand,
    line::Line,
    locks::House,
    steward::Errand,
    sync::{locked, look_at},
};

/// How long an answer is left alone before the steward looks for it; twice that at most.
const MOMENT: Duration = Duration::from_millis(50);
/// How many of the oldest are looked at when another comes: two, so that they get fewer.
const LOOKS: usize = 2;
/// How many may be under way before the steward takes over what is not answered yet.
const MOST: usize = 4096;

#[derive(Default)]
pub(crate) struct Partings {
    state: Mutex<State>,
    /// How many are not confirmed yet, wherever they are.
    n_open: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The oldest first, each with the round in which it came.
    under_way: VecDeque<(u64, Errand)>,
    /// Counts the steward's looks.
    round: u64,
    /// Whether the steward looks in now and then.
    is_watched: bool,
}

impl House {
    /// Gives a claim back: does as much as can be done at once, here; the rest needs nobody to wait.
    pub(crate) fn part(self: &Arc<Self>, line: Line, claim: Box<dyn Claim>) {
        self.partings.n_open.fetch_add(1, Ordering::Relaxed);
        let mut errand: Errand = Box::pin(async move {
            errand::give_back_at_last(&line, claim).await;
            line.house.partings.n_open.fetch_sub(1, Ordering::Release);
        });
        if is_done(&mut errand) {
            return;
        }
        let mut state = locked(&self.partings.state);
        let oldest: [_; LOOKS] = std::array::from_fn(|_| state.under_way.pop_front());
        let round = state.round;
        state.under_way.push_back((round, errand));
        self.watch(state);
        // The younger first: what is put back comes to stand in the old order.
        for (round, mut errand) in oldest.into_iter().rev().flatten() {
            if !is_done(&mut errand) {
                self.put_back(round, errand);
            }
        }
    }

    fn put_back(self: &Arc<Self>, round: u64, errand: Errand) {
        let mut state = locked(&self.partings.state);
        if state.under_way.len() < MOST {
            state.under_way.push_front((round, errand));
            self.watch(state);
        } else {
            drop(state);
            self.steward.adopt(errand);
        }
    }

    /// Has the steward look in from now on, if it does not already.
    fn watch(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let was_watched = std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if !was_watched {
            self.steward.adopt(see_off(Arc::clone(self)));
        }
    }

    /// Waits until everything that was given back is confirmed, but not for longer than one answer
    /// may take; the steward goes on with the rest.
    pub(crate) async fn settle(&self) {
        let mut under_way = std::mem::take(&mut locked(&self.partings.state).under_way);
        let confirmed = async {
            while let Some((_, errand)) = under_way.front_mut() {
                errand.await;
                under_way.pop_front();
            }
            while self.partings.n_open.load(Ordering::Acquire) > 0 {
                // The steward has it in hands just now.
                self.alarms.rest(Duration::from_millis(1)).await;
            }
        };
        future::or(confirmed, self.alarms.rest(self.answer_within)).await;
        under_way.into_iter().for_each(|(_, errand)| self.steward.adopt(errand));
    }
}

/// Looks in now and then, while there is something under way.
async fn see_off(house: Arc<House>) {
    loop {
        house.alarms.rest(MOMENT).await;
        for mut errand in house.partings.overdue() {
            if !is_done(&mut errand) {
                house.steward.adopt(errand);
            }
        }
        let mut state = locked(&house.partings.state);
        if state.under_way.is_empty() {
            state.is_watched = false;
            return;
        }
    }
}

impl Partings {
    /// Takes out what came before the last look.
    fn overdue(&self) -> Vec<Errand> {
        let mut state = locked(&self.state);
        let round = state.round;
        state.round += 1;
        let mut overdue = Vec::new();
        while state.under_way.front().is_some_and(|(came, _)| *came < round) {
            overdue.extend(state.under_way.pop_front().map(|(_, errand)| errand));
        }
        overdue
    }
}

/// Looks whether an errand is done, without being told when it is.
fn is_done(errand: &mut Errand) -> bool {
    look_at(errand.as_mut()).is_ready()
}

impl fmt::Debug for Partings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partings", locked(&self.state).under_way.len())
    }
}
