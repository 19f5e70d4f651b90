//! The thread that watches the clock: it wakes those whose time has come and does nothing that
//! could keep it, so that an end is told in time even when an engine, the steward or the user's
//! runtime stands still.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use super::{
    clock::{Clock, Moment, Sleeper},
    next_check::{Next, Watched},
    timers::{Entry, Timers, rounded_down},
};
use crate::{
    engine::error::{Error, Result},
    tools::{
        fork::Origin,
        sync::{let_go, locked, wake},
    },
};

/// The alarms of one [`Locks`](crate::Locks); its thread starts with the first and ends with it.
#[derive(Debug)]
pub(crate) struct Alarms(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    sleeper: Arc<Sleeper>,
    origin: Origin,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    wakers: BTreeMap<(Moment, u64), Waker>,
    n_alarms_made: u64,
    /// Of those who wait for something that nearly always comes before the alarm.
    limits: Timers<Waker>,
    /// Lines that made a call lately, or hold their key.
    lines: Timers<Arc<dyn Watched>>,
    /// When the limit entered last is due, also when it has left by now.
    last_limit: Moment,
    /// Until when the thread sleeps; [`AWAKE`] while it is up and will look again by itself.
    sleeps_until: Moment,
    thread: Thread,
}

#[derive(Debug, PartialEq, Eq)]
enum Thread {
    NotYet,
    /// Not for holds: the program looks after those itself, with [`Alarms::attend`].
    NotForHolds,
    Running,
    Ending,
}

/// What came of moving a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    InTime,
    /// The limit was over before, and the task that had it was woken.
    TooLate,
}

/// The longest until a look: a line that is not wanted any more is not kept for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How soon a program that attends looks again at a hold that is being renewed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

const AWAKE: Moment = Moment::from_nanos(0);

impl Alarms {
    pub(crate) fn new(clock: Clock, attention: Attention) -> Self {
        let thread = match attention {
            Attention::ByThread => Thread::NotYet,
            Attention::ByProgram => Thread::NotForHolds,
        };
        let state = State {
            wakers: BTreeMap::new(),
            n_alarms_made: 0,
            limits: Timers::default(),
            lines: Timers::default(),
            last_limit: AWAKE,
            sleeps_until: AWAKE,
            thread,
        };
        let (sleeper, origin) = (clock.sleeper(), Origin::here());
        Self(Arc::new(Shared { clock, sleeper, origin, state: Mutex::new(state) }))
    }

    /// Makes sure that there is a thread to watch the clock. Once there is one, it stays.
    ///
    /// # Errors
    /// If the system has none to spare; it may have a moment later.
    pub(crate) fn ready(&self) -> Result<()> {
        self.0.ensure_thread(&mut locked(&self.0.state))
    }

    /// Looks at the hold of this line at `due`, or somewhat earlier.
    ///
    /// # Errors
    /// If there is no thread to look, and the program does not look itself.
    pub(crate) fn watch_hold(
        &self,
        line: &Arc<impl Watched>,
        now: Moment,
        due: Moment,
    ) -> Result<()> {
        self.watch(line, now, due, |state| state.thread != Thread::NotForHolds)
    }

    /// Looks at the limit of this line at `due`, or somewhat earlier.
    ///
    /// # Errors
    /// If there is no thread to look.
    pub(crate) fn watch_limit(
        &self,
        line: &Arc<impl Watched>,
        now: Moment,
        due: Moment,
    ) -> Result<()> {
        self.watch(line, now, due, |_| true)
    }

    fn watch(
        &self,
        line: &Arc<impl Watched>,
        now: Moment,
        due: Moment,
        needs_thread: impl FnOnce(&State) -> bool,
    ) -> Result<()> {
        if line.next_check().comes_by(due) {
            return Ok(());
        }
        let mut state = locked(&self.0.state);
        if needs_thread(&state) {
            self.0.ensure_thread(&mut state)?;
        }
        self.0.enter(line.clone(), now, due, &mut state);
        Ok(())
    }

    /// Does what is due, in the place of the thread; answers when something is due next.
    pub(crate) fn attend(&self) -> Moment {
        if !self.0.origin.is_here() || locked(&self.0.state).thread != Thread::NotForHolds {
            return Moment::NEVER;
        }
        loop {
            if let Look::Nothing { until } = self.0.look() {
                return until;
            }
        }
    }

    /// Wakes the task after this long. There should be few different waits: see [`Timers`].
    pub(crate) fn set_limit(&self, wait: Duration, waker: &Waker) -> (Entry, Moment) {
        let now = self.0.clock.now();
        let waker = waker.clone();
        let mut state = locked(&self.0.state);
        // Without the thread nobody would wake it later: better to look again than to hang.
        let wakes_now = self.0.ensure_thread(&mut state).is_err().then(|| waker.clone());
        let (entry, ends_at) = state.limits.enter_after(now, wait, waker);
        state.last_limit = ends_at;
        self.0.nudge_if_asleep_past(ends_at, &state);
        drop(state);
        wakes_now.into_iter().for_each(wake);
        (entry, ends_at)
    }

    /// From now on this task is the one to wake; unless the limit is over, and another was woken.
    pub(crate) fn move_limit(&self, entry: Entry, waker: &Waker) -> Moved {
        let waker = waker.clone();
        let mut state = locked(&self.0.state);
        let wakes_now = self.0.ensure_thread(&mut state).is_err().then(|| waker.clone());
        let before = match state.limits.get_mut(entry) {
            Some(set) => std::mem::replace(set, waker),
            None => return Moved::TooLate,
        };
        // An old waker may run code of its own when dropped: not under our mutex.
        drop(state);
        drop(before);
        wakes_now.into_iter().for_each(wake);
        Moved::InTime
    }

    pub(crate) fn forget_limit(&self, entry: Entry) {
        if !self.0.origin.is_here() {
            // A forked child: the mutex may be locked for ever, and nobody looks at the timers.
            return;
        }
        let _waker = locked(&self.0.state).limits.leave(entry);
    }

    pub(crate) fn is_over(&self, moment: Moment) -> bool {
        self.0.clock.now() >= moment
    }

    pub(crate) fn alarm(&self, at: Moment) -> Alarm {
        Alarm { shared: Arc::clone(&self.0), at, set: None }
    }

    /// Ends at `at`.
    pub(crate) async fn wait_until(&self, at: Moment) {
        let mut alarm = self.alarm(at);
        poll_fn(|context| alarm.poll(context.waker())).await;
    }
}

impl Drop for Alarms {
    fn drop(&mut self) {
        // In a forked child there is no thread to end, and its mutex may be locked for ever.
        if self.0.origin.is_here() {
            locked(&self.0.state).thread = Thread::Ending;
            self.0.sleeper.nudge();
        }
    }
}

/// Wakes one task at one moment; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    at: Moment,
    set: Option<(u64, Waker)>,
}

impl Alarm {
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        if self.shared.clock.now() >= self.at {
            return Poll::Ready(());
        }
        let is_set = self.set.as_ref().is_some_and(|(_, set)| set.will_wake(waker));
        if self.at == Moment::NEVER || is_set {
            return Poll::Pending;
        }
        let (kept, entered) = (waker.clone(), waker.clone());
        let mut state = locked(&self.shared.state);
        // Without the thread nobody would wake us later: look again now rather than never.
        let wakes_now = self.shared.ensure_thread(&mut state).is_err();
        let number = match &self.set {
            Some((number, _)) => *number,
            None => {
                state.n_alarms_made += 1;
                state.n_alarms_made
            }
        };
        let before = state.wakers.insert((self.at, number), entered);
        self.shared.nudge_if_asleep_past(self.at, &state);
        // An old waker may run code of its own when dropped, and so may one that is woken.
        drop(state);
        drop(before);
        self.set = Some((number, kept));
        if wakes_now {
            wake(waker.clone());
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // In a forked child the mutex may be locked for ever, and nobody looks at the alarms.
        if let Some((number, _)) = self.set
            && self.shared.origin.is_here()
        {
            let _waker = locked(&self.shared.state).wakers.remove(&(self.at, number));
        }
    }
}

impl State {
    fn next_due(&self, now: Moment) -> Moment {
        let first_waker = self.wakers.first_key_value().map(|((at, _), _)| *at);
        // One who waits again and again enters a limit each time: to look once in vain is cheaper than
        // to be woken for each.
        let lull = if self.last_limit > now { self.last_limit } else { Moment::NEVER };
        let timers = self.limits.next_due().min(self.lines.next_due());
        timers.min(first_waker.unwrap_or(Moment::NEVER)).min(lull)
    }
}

impl Shared {
    fn ensure_thread(self: &Arc<Self>, state: &mut State) -> Result<()> {
        if matches!(state.thread, Thread::Running | Thread::Ending) {
            return Ok(());
        }
        let shared = Arc::clone(self);
        let spawned = thread::Builder::new().name("lockkeeper-clock".into()).spawn(move || {
            // What a look drops may be anybody's code; a panic there must end no renewal.
            while catch_unwind(AssertUnwindSafe(|| shared.watch_the_clock())).is_err() {}
        });
        if let Err(source) = spawned {
            return Err(Error::no_thread("the thread that watches the clock", source));
        }
        state.thread = Thread::Running;
        Ok(())
    }

    /// Enters a line to be looked at at `due`, or somewhat earlier.
    fn enter(&self, line: Arc<dyn Watched>, now: Moment, due: Moment, state: &mut State) {
        let wait = rounded_down(due.since(now).min(LONGEST_WAIT));
        if line.next_check().bring_forward(now + wait) {
            let (_, due) = state.lines.enter_after(now, wait, line);
            self.nudge_if_asleep_past(due, state);
        }
    }

    fn nudge_if_asleep_past(&self, due: Moment, state: &State) {
        if due < state.sleeps_until {
            self.sleeper.nudge();
        }
    }

    fn watch_the_clock(&self) {
        loop {
            match self.look() {
                Look::Something => {}
                Look::Ending => return,
                Look::Nothing { until } => {
                    self.sleeper.sleep(until);
                    locked(&self.state).sleeps_until = AWAKE;
                }
            }
        }
    }

    /// Looks at the clock once, and wakes whoever is due.
    fn look(&self) -> Look {
        // All of them are dropped after the mutex is free: a line may have a claim, which may do anything then.
        let (mut wakers, mut lines, mut stale) = (Vec::new(), Vec::new(), Vec::new());
        let now = self.clock.now();
        let mut state = locked(&self.state);
        if state.thread == Thread::Ending {
            return Look::Ending;
        }
        while let Some(first) = state.wakers.first_entry()
            && first.key().0 <= now
        {
            wakers.push(first.remove());
        }
        while let Some((_, waker)) = state.limits.take_due(now) {
            wakers.push(waker);
        }
        while let Some((due, line)) = state.lines.take_due(now) {
            let is_next = line.next_check().begins(due);
            if is_next { &mut lines } else { &mut stale }.push(line);
        }
        if wakers.is_empty() && lines.is_empty() {
            let until = state.next_due(now);
            state.sleeps_until = until;
            return Look::Nothing { until };
        }
        drop(state);
        wakers.into_iter().for_each(wake);
        lines.iter().for_each(|line| self.look_at(line, now));
        let_go((lines, stale));
        Look::Something
    }

    fn look_at(&self, line: &Arc<dyn Watched>, now: Moment) {
        let (next, line) = (Arc::clone(line).look(now), Arc::clone(line));
        match next {
            Next::At(next) => self.enter(line, now, next, &mut locked(&self.state)),
            Next::WhenEntered => {
                // A program that attends sleeps by then, and nobody would wake it for that: so it
                // looks again.
                let mut state = locked(&self.state);
                if state.thread == Thread::NotForHolds {
                    self.enter(line, now, now + LOOK_AGAIN, &mut state);
                }
            }
            Next::Never => {}
        }
    }
}

/// What a look at the clock found.
enum Look {
    Something,
    Nothing { until: Moment },
    Ending,
}

/// Who looks after holds: a thread of ours, or the program, which then must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    ByThread,
    ByProgram,
}
