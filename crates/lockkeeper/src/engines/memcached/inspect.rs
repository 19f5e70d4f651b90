//! Who holds a lock, and which locks there are.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;

use super::{
    Memcached,
    wire::{Name, Response},
};
use crate::{
    engine::{Inspector, Listed, Moment, Who, error::Result, key::Key},
    engines::net::{holder, per_runtime::Link},
};

/// Items that are larger are no locks of ours, and are not read.
const LARGEST_LOCK: usize = 4096;
/// How many items are asked for at once.
const ITEMS_AT_ONCE: usize = 512;

#[async_trait]
impl Inspector for Memcached {
    /// The holder only: the server does not know who waits.
    async fn who(&self, key: &Key, now: Moment) -> Result<Who> {
        let name = Name::of(&self.0.prefix, key);
        let holder = match self.0.server.call(&name.get(), now).await? {
            Response::Missing => None,
            Response::Value { value, .. } => Some(holder::whoever(&value)),
            other => return Err(other.refusal()),
        };
        Ok(Who { holder, line: Vec::new() })
    }

    /// Our own locks: those of other clients look like any other item.
    async fn list(&self, now: Moment) -> Result<Vec<Listed>> {
        let (names, link) = (self.names(now).await?, self.0.server.link(now)?);
        let mut keys = BTreeSet::new();
        for some in names.chunks(ITEMS_AT_ONCE) {
            let items: Vec<_> = some.iter().map(|name| link.call(&name.get(), now)).collect();
            for (item, name) in items.into_iter().zip(some) {
                if let Response::Value { value, .. } = item.await?
                    && let Some((_, key)) = holder::read(&value)
                    && Name::of(&self.0.prefix, &key) == *name
                {
                    keys.insert(key);
                }
            }
        }
        Ok(keys.into_iter().map(|key| Listed { key, held: true, n_waiting: 0 }).collect())
    }

    /// Every lock has an expiry: there is nothing to clean up.
    async fn tidy(&self, _idle: Duration, _now: Moment) -> Result<usize> {
        Ok(0)
    }
}

impl Memcached {
    /// The names of all small items. This goes over a connection of its own: the server answers nothing
    /// else there meanwhile.
    async fn names(&self, now: Moment) -> Result<Vec<Name>> {
        let link = self.0.server.link_apart()?;
        let response = link.call(b"lru_crawler metadump hash\r\n", now).await;
        link.retire();
        match response? {
            Response::Lines(names) => Ok(names.lines().filter_map(small_item).collect()),
            other => Err(other.refusal()),
        }
    }
}

/// The name in a line such as `key=a%20b exp=1 la=1 cas=1 fetch=no cls=1 size=66`.
fn small_item(line: &str) -> Option<Name> {
    let mut words = line.split(' ');
    let mut parts = words.next()?.strip_prefix("key=")?.split('%');
    let size: usize = words.find_map(|word| word.strip_prefix("size="))?.parse().ok()?;
    let mut name = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        name.extend(rest.bytes());
    }
    (size <= LARGEST_LOCK).then(|| Name::stored(&name))
}
