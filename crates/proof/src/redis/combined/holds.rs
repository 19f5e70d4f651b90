//! The holds and calls that a worker's lines tell of.

use std::{collections::HashMap, fmt};

use super::record::{Event, Line};

/// A worker: what it wrote, and what was done to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witnessed {
    pub(crate) number: u32,
    pub(crate) lines: Vec<Line>,
    /// Just before it was sent the signal.
    pub(crate) killed_at: Option<u64>,
    /// From before it was sent the signal to stop until after the one to go on.
    pub(crate) stops: Vec<(u64, u64)>,
}

/// A guard, from the moment its call returned.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) worker: u32,
    pub(crate) key: u32,
    pub(crate) fence: u64,
    pub(crate) asked: u64,
    pub(crate) had: u64,
    /// The lock was granted at this moment or later: no lease outlives its ttl.
    pub(crate) granted_after: u64,
    /// The guard vouched for itself until then, and was neither given back nor seen lost before.
    pub(crate) held_until: u64,
    pub(crate) read_step: Option<u64>,
    /// Only if the lock was held when the answer was there.
    pub(crate) write_step: Option<u64>,
    pub(crate) was_refused: bool,
}

impl Hold {
    /// Whether a look found it held at all.
    pub(crate) fn was_held(&self) -> bool {
        self.held_until > self.had
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, key, fence, asked, had, granted_after, held_until, .. } = self;
        let us = |later: u64| later.saturating_sub(*had) / 1_000;
        let before = |earlier: u64| had.saturating_sub(earlier) / 1_000;
        write!(
            f,
            "contestant {worker} had key-{key} with fence {fence} at {} us, asked {} us and granted \
             at most {} us before, held for {} us",
            had / 1_000,
            before(*asked),
            before(*granted_after),
            us(*held_until),
        )
    }
}

/// Something that should come to an end in time.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) worker: u32,
    pub(crate) call: u64,
    pub(crate) begun: u64,
    pub(crate) limit: u64,
    pub(crate) ended: Option<u64>,
    /// How, in a word and more, unless it ended well.
    pub(crate) how: Option<String>,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, call, begun, limit, ended, how } = self;
        let took = ended.map(|ended| ended.saturating_sub(*begun) / 1_000_000);
        write!(f, "contestant {worker}, call {call}: limit {} ms, took ", limit / 1_000_000)?;
        match (took, how) {
            (Some(took), Some(how)) => write!(f, "{took} ms: {how}"),
            (Some(took), None) => write!(f, "{took} ms"),
            (None, _) => f.write_str("no end"),
        }
    }
}

/// How long giving back may take: one answer's time.
const RELEASE_LIMIT: u64 = 2_000_000_000;

impl Witnessed {
    /// Its holds, and all it waited for.
    pub(crate) fn read(&self, ttl: u64) -> (Vec<Hold>, Vec<Wait>) {
        let mut holds: HashMap<u64, (Hold, u64)> = HashMap::new();
        let mut waits: HashMap<(u64, bool), Wait> = HashMap::new();
        let mut asked = HashMap::new();
        for Line { call, event } in &self.lines {
            let call = *call;
            if let Event::Ask { key, at, limit } = event {
                asked.insert(call, (*key, *at));
                waits.insert((call, false), self.wait(call, *at, *limit));
            }
            if let Event::Have { fence, at, look, left } = event
                && let Some((key, asked)) = asked.get(&call)
            {
                let hold = self.hold(*key, *fence, *asked, *at, (*look, *left), ttl);
                holds.insert(call, (hold, u64::MAX));
            }
            match event {
                Event::End { at, .. } | Event::Have { at, .. } => {
                    end(waits.get_mut(&(call, false)), *at, event);
                }
                Event::Left { at, .. } => end(waits.get_mut(&(call, true)), *at, event),
                Event::Leave { at } => {
                    waits.insert((call, true), self.wait(call, *at, RELEASE_LIMIT));
                }
                _ => {}
            }
            if let Some((hold, ended)) = holds.get_mut(&call) {
                see(hold, ended, event);
            }
        }
        let mut holds: Vec<Hold> = holds.into_values().map(|held| self.cut(held)).collect();
        holds.sort_by_key(|hold| hold.had);
        (holds, waits.into_values().collect())
    }

    fn wait(&self, call: u64, begun: u64, limit: u64) -> Wait {
        Wait { worker: self.number, call, begun, limit, ended: None, how: None }
    }

    fn hold(
        &self,
        key: u32,
        fence: u64,
        asked: u64,
        had: u64,
        (look, left): (u64, u64),
        ttl: u64,
    ) -> Hold {
        // A renewal after a stop may have come before the first look; then only the call is certain.
        let was_stopped =
            self.stops.iter().any(|(from, to)| *from < look && *to > look.saturating_sub(2 * ttl));
        let by_lease = if was_stopped { 0 } else { (look + left).saturating_sub(ttl) };
        Hold {
            worker: self.number,
            key,
            fence,
            asked,
            had,
            granted_after: asked.max(by_lease),
            held_until: if left > 0 { look + left } else { 0 },
            read_step: None,
            write_step: None,
            was_refused: false,
        }
    }

    /// A guard ends with its process, when it is given back, or when it is seen to have ended.
    fn cut(&self, (mut hold, ended): (Hold, u64)) -> Hold {
        hold.held_until = hold.held_until.min(ended).min(self.killed_at.unwrap_or(u64::MAX));
        hold
    }

    /// How much of this time it was stopped.
    pub(crate) fn stopped_within(&self, from: u64, to: u64) -> u64 {
        let within = |stop: &(u64, u64)| stop.1.min(to).saturating_sub(stop.0.max(from));
        self.stops.iter().map(within).sum()
    }
}

fn end(wait: Option<&mut Wait>, at: u64, event: &Event) {
    if let Some(wait) = wait {
        wait.ended = Some(at);
        if let Event::End { how, .. } | Event::Left { how, .. } = event {
            wait.how = Some(how.clone());
        }
    }
}

fn see(hold: &mut Hold, ended: &mut u64, event: &Event) {
    match event {
        // What is left was reckoned after this moment, so it reaches at least so far.
        Event::Held { look, left } => hold.held_until = hold.held_until.max(look + left),
        Event::Over { at } | Event::Leave { at } => *ended = (*ended).min(*at),
        Event::Read { step } => hold.read_step = Some(*step),
        Event::Wrote { step } => hold.write_step = Some(*step),
        Event::Refused => hold.was_refused = true,
        Event::Ask { .. } | Event::End { .. } | Event::Have { .. } | Event::Left { .. } => {}
    }
}
