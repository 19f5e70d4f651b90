#![doc = include_str!("page.md")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use async_trait::async_trait;

use crate::{
    engine::{
        Answers, Attempt, Claim, Engine, Expiry, Fairness, Fencing, Grant, Inspector, Lease,
        Listed, Moment, Order, OwnerId, Party, Patience, Profile, Reach, Released, Request,
        Standing, Wake, Who,
        error::{Error, Result},
        key::Key,
    },
    tools::{bell::Bell, sync::locked, url::Url},
};

/// How long a place in the queue lasts without being asked about again.
const PLACE_LEASE: Duration = Duration::from_secs(3);
/// How many turns of a line one grant may serve.
const TURNS: u32 = 128;

/// Opens the table that a `memory:` URL names.
pub(crate) async fn open(url: Url, _: Moment) -> Result<Box<dyn Engine>> {
    url.no_more_parameters()?;
    if url.authority.is_some() {
        return Err(Error::bad_options("write memory: or memory:name, without slashes"));
    }
    Ok(Box::new(Memory::named(&url.path)))
}

/// The memory engine; clones share the table.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    keys: Mutex<HashMap<Key, Entry, foldhash::fast::RandomState>>,
    // One counter for all keys, so that a key nobody wants can be forgotten.
    last_fence: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Entry {
    holder: Option<Holder>,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Holder {
    owner: OwnerId,
    label: Arc<str>,
    fence: u64,
    since_us: u64,
    ends_at: Moment,
}

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    label: Arc<str>,
    ends_at: Moment,
    bell: Arc<Bell>,
}

impl Memory {
    /// The table of this name, shared with everyone in the process who uses it now; without a name, a
    /// table of its own.
    pub fn named(name: &str) -> Self {
        static TABLES: Mutex<Option<HashMap<String, Weak<Table>>>> = Mutex::new(None);
        if name.is_empty() {
            return Self::default();
        }
        let mut tables = locked(&TABLES);
        let tables = tables.get_or_insert_default();
        tables.retain(|_, table| table.strong_count() > 0);
        if let Some(table) = tables.get(name).and_then(Weak::upgrade) {
            return Self(table);
        }
        let table = Arc::default();
        tables.insert(name.to_owned(), Arc::downgrade(&table));
        Self(table)
    }

    /// Takes a lock away from its holder, as a server that lost its data would.
    pub fn take_away(&self, key: &Key) {
        let mut keys = locked(&self.0.keys);
        if let Some(entry) = keys.get_mut(key) {
            entry.holder = None;
            entry.ring_next();
        }
    }
}

impl Engine for Memory {
    fn profile(&self) -> Profile {
        Profile {
            reach: Reach::Process,
            expiry: Expiry::Lease { shortest: Duration::from_millis(100) },
            fairness: Fairness::FirstCome,
            fencing: Fencing::Grows,
            wake: Wake::Told,
            answers: Answers::AtOnce,
            promise: "In this process, at most one task is told that it holds the lock.",
            broken_by: "A second process: it has locks of its own.",
            ..Profile::weakest("memory")
        }
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let (table, bell) = (Arc::clone(&self.0), Arc::default());
        Box::new(MemoryClaim { table, request, bell, is_granted: false })
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

#[derive(Debug)]
struct MemoryClaim {
    table: Arc<Table>,
    request: Request,
    bell: Arc<Bell>,
    /// Whether it was granted the lock and has not released it since.
    is_granted: bool,
}

#[async_trait]
impl Claim for MemoryClaim {
    async fn attempt(&mut self, now: Moment) -> Result<Attempt> {
        let mut keys = locked(&self.table.keys);
        let entry = keys.entry(self.request.key.clone()).or_default();
        entry.forget_the_dead(now);
        let me = self.request.owner;
        if let Some(holder) = &mut entry.holder {
            if holder.owner == me {
                holder.ends_at = now + self.request.ttl;
                let fence = holder.fence;
                self.is_granted = true;
                return Ok(Attempt::Granted(self.grant(fence)));
            }
        } else if self.request.order == Order::Barging || entry.is_first(me) {
            entry.queue.retain(|waiter| waiter.owner != me);
            let fence = self.table.next_fence();
            entry.holder = Some(Holder {
                owner: me,
                label: Arc::clone(&self.request.label),
                fence,
                since_us: now.wall_micros(),
                ends_at: now + self.request.ttl,
            });
            self.is_granted = true;
            return Ok(Attempt::Granted(self.grant(fence)));
        }
        if self.request.patience == Patience::Waits {
            self.stand_in_line(entry, now);
        }
        Ok(Attempt::Busy { retry_in: Some(entry.next_end(now).min(PLACE_LEASE / 3)) })
    }

    async fn renew(&mut self, now: Moment) -> Result<Standing> {
        let mut keys = locked(&self.table.keys);
        let entry = keys.get_mut(&self.request.key);
        let holder = entry.and_then(|entry| entry.holder.as_mut());
        Ok(match holder {
            Some(holder) if holder.owner == self.request.owner && now < holder.ends_at => {
                holder.ends_at = now + self.request.ttl;
                Standing::Held(Lease::For(self.request.ttl))
            }
            _ => Standing::Lost("the table has another holder, or none".into()),
        })
    }

    fn set_ttl(&mut self, ttl: Duration) -> bool {
        self.request.ttl = ttl;
        true
    }

    async fn release(&mut self, _now: Moment) -> Result<Released> {
        let was_granted = std::mem::take(&mut self.is_granted);
        let not_ours = if was_granted { Released::NotOurs } else { Released::Done };
        let mut keys = locked(&self.table.keys);
        let Some(entry) = keys.get_mut(&self.request.key) else { return Ok(not_ours) };
        let me = self.request.owner;
        entry.queue.retain(|waiter| waiter.owner != me);
        let is_ours = entry.holder.as_ref().is_some_and(|holder| holder.owner == me);
        if is_ours {
            entry.holder = None;
        }
        if entry.holder.is_none() {
            entry.ring_next();
        }
        if entry.holder.is_none() && entry.queue.is_empty() {
            keys.remove(&self.request.key);
        }
        Ok(if is_ours { Released::Done } else { not_ours })
    }

    async fn changed(&mut self) {
        self.bell.rung().await;
    }
}

impl MemoryClaim {
    fn grant(&self, fence: u64) -> Grant {
        Grant { fence, n_fences: TURNS, lease: Lease::For(self.request.ttl) }
    }

    fn stand_in_line(&self, entry: &mut Entry, now: Moment) {
        let ends_at = now + PLACE_LEASE;
        match entry.queue.iter_mut().find(|waiter| waiter.owner == self.request.owner) {
            Some(waiter) => waiter.ends_at = ends_at,
            None => entry.queue.push_back(Waiter {
                owner: self.request.owner,
                label: Arc::clone(&self.request.label),
                ends_at,
                bell: Arc::clone(&self.bell),
            }),
        }
    }
}

impl Table {
    fn next_fence(&self) -> u64 {
        let mut last = locked(&self.last_fence);
        let fence = *last + 1;
        *last += u64::from(TURNS);
        fence
    }
}

impl Entry {
    fn forget_the_dead(&mut self, now: Moment) {
        if self.holder.as_ref().is_some_and(|holder| holder.ends_at <= now) {
            self.holder = None;
        }
        self.queue.retain(|waiter| waiter.ends_at > now);
    }

    fn is_first(&self, owner: OwnerId) -> bool {
        self.queue.front().is_none_or(|waiter| waiter.owner == owner)
    }

    /// How long until a holder or a waiter is dead unless it is heard of again.
    fn next_end(&self, now: Moment) -> Duration {
        let holder = self.holder.iter().map(|holder| holder.ends_at);
        let ends = holder.chain(self.queue.front().map(|waiter| waiter.ends_at));
        ends.min().map_or(Duration::ZERO, |end| end.since(now)).max(Duration::from_millis(1))
    }

    fn ring_next(&self) {
        if let Some(waiter) = self.queue.front() {
            waiter.bell.ring();
        }
    }
}

#[async_trait]
impl Inspector for Memory {
    async fn who(&self, key: &Key, _now: Moment) -> Result<Who> {
        let keys = locked(&self.0.keys);
        let Some(entry) = keys.get(key) else { return Ok(Who::default()) };
        let holder = entry.holder.as_ref().map(|holder| Party {
            label: Some(holder.label.to_string()),
            since_us: Some(holder.since_us),
            fence: Some(holder.fence),
            ..Party::of_this_process()
        });
        let line = entry.queue.iter().map(|waiter| Party {
            label: Some(waiter.label.to_string()),
            ..Party::of_this_process()
        });
        Ok(Who { holder, line: line.collect() })
    }

    async fn list(&self, _now: Moment) -> Result<Vec<Listed>> {
        let keys = locked(&self.0.keys);
        let mut list: Vec<_> = keys
            .iter()
            .map(|(key, entry)| Listed {
                key: key.clone(),
                held: entry.holder.is_some(),
                n_waiting: entry.queue.len(),
            })
            .collect();
        list.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(list)
    }

    async fn tidy(&self, _idle: Duration, now: Moment) -> Result<usize> {
        let mut keys = locked(&self.0.keys);
        let before = keys.len();
        keys.retain(|_, entry| {
            entry.forget_the_dead(now);
            entry.holder.is_some() || !entry.queue.is_empty()
        });
        Ok(before - keys.len())
    }
}
