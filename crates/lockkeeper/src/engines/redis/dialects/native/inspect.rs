//! Who holds, who waits.

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;

use super::{
    Native,
    claim::LONGEST_PLACE,
    place::{INFO_AT, OWNER, SECOND},
};
use crate::{
    engine::{Inspector, Listed, Moment, Party, Who, error::Result, key::Key},
    engines::redis::wire::{
        call::Call,
        connection::Haste,
        refusal::{no_error, unexpected},
        resp::Value,
    },
};

/// How many keys one look goes through.
const KEYS_AT_ONCE: &[u8] = b"1000";

#[async_trait]
impl Inspector for Native {
    async fn who(&self, key: &Key, now: Moment) -> Result<Who> {
        let (client, names) = (&self.shared.client, self.shared.prefix.names(key));
        let mut call = Call::of(&[b"GET", names.lock()]);
        call.add(&[b"PTTL", names.lock()]);
        call.add(&[b"LRANGE", &names.line().concat(), b"0", b"-1"]);
        call.add(&[b"PTTL", &names.line().concat()]);
        let mut at = client.reach(names.slot, now).await?;
        let replies = no_error(client.call(&mut at, names.slot, &call, now).await?)?;
        let [lock, Value::Int(lasts_ms), Value::List(line), Value::Int(clock)] = &replies[..]
        else {
            return Err(unexpected(&replies));
        };
        Ok(Who {
            holder: lock.as_bytes().and_then(|value| holder(value, *lasts_ms)),
            line: line.iter().filter_map(|place| waiter(place.as_bytes()?, *clock)).collect(),
        })
    }

    async fn list(&self, now: Moment) -> Result<Vec<Listed>> {
        let client = &self.shared.client;
        let mut list = Vec::new();
        for at in client.reach_all(now).await? {
            let mut cursor = b"0".to_vec();
            loop {
                let pattern = self.shared.prefix.pattern();
                let scan: [&[u8]; 6] =
                    [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", KEYS_AT_ONCE];
                let replies = no_error(at.send(&Call::of(&scan), now, Haste::Now).await?)?;
                let Some([Value::Text(next), Value::List(found)]) =
                    replies.first().and_then(Value::as_list)
                else {
                    return Err(unexpected(&replies));
                };
                let keys = found.iter().filter_map(Value::as_text);
                for key in keys.filter_map(|name| self.shared.prefix.key_of(name)) {
                    let who = self.who(&key, now).await?;
                    let (held, n_waiting) = (who.holder.is_some(), who.line.len());
                    list.push(Listed { key, held, n_waiting });
                }
                if next == b"0" {
                    break;
                }
                cursor.clone_from(next);
            }
        }
        list.sort_by(|a, b| a.key.cmp(&b.key));
        list.dedup_by(|a, b| a.key == b.key);
        Ok(list)
    }

    /// Every key at the server has an expiry: there is nothing to clean up.
    async fn tidy(&self, _idle: Duration, _now: Moment) -> Result<usize> {
        Ok(0)
    }
}

/// The holder, unless its lease is over: a key with a line outlives it.
fn holder(value: &[u8], lasts_ms: i64) -> Option<Party> {
    let Some(marked) = value.strip_prefix(b"!") else { return granted(value) };
    if u128::try_from(lasts_ms).ok()? <= LONGEST_PLACE.as_millis() {
        return None;
    }
    granted(marked).or_else(|| {
        let (place, _) = place(value)?;
        let second = std::str::from_utf8(place.get(SECOND)?).ok()?;
        Some(Party { since_us: micros(second), ..party(&text(place.get(INFO_AT..)?)) })
    })
}

/// One who took the lock by itself.
fn granted(value: &[u8]) -> Option<Party> {
    let rest = text(value.get(OWNER.len()..)?.strip_prefix(b"|")?);
    let (since, info) = rest.split_once('|')?;
    Some(Party { since_us: micros(since), ..party(info) })
}

fn micros(second: &str) -> Option<u64> {
    second.parse::<u64>().ok()?.checked_mul(1_000_000)
}

/// One who waits, unless it has not been heard of for long.
fn waiter(whole: &[u8], clock: i64) -> Option<Party> {
    let (place, ends_at) = place(whole)?;
    (clock > ends_at).then(|| party(&text(place.get(INFO_AT..).unwrap_or_default())))
}

/// A place without its end, and what the clock shows then.
fn place(whole: &[u8]) -> Option<(&[u8], i64)> {
    let (place, ends_at) = whole.split_last_chunk()?;
    Some((place, u32::from_le_bytes(*ends_at).into()))
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn party(info: &str) -> Party {
    let mut parts = info.splitn(3, '|');
    Party {
        pid: parts.next().and_then(|pid| pid.parse().ok()),
        host: parts.next().map(str::to_owned),
        label: parts.next().map(str::to_owned),
        ..Party::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_places_are_read() {
        let owner = "0".repeat(32);
        let held = |value: &str, lasts_ms| holder(value.as_bytes(), lasts_ms);
        let party = held(&format!("{owner}|17|42|box|a|b"), 5).unwrap();
        assert_eq!((party.pid, party.since_us), (Some(42), Some(17_000_000)));
        assert_eq!(party.label.as_deref(), Some("a|b"));
        assert!(held(&format!("!{owner}|17|42|box|x"), 3001).is_some());
        assert!(held(&format!("!{owner}|17|42|box|x"), 3000).is_none());
        let channel = "lk:0123456789abcdef:00000001";
        let place = format!("!{owner}0000016000{channel}170000000242|box|me");
        let place = [place.as_bytes(), &897_000_u32.to_le_bytes()].concat();
        let party = waiter(&place, 897_001).unwrap();
        assert_eq!((party.pid, party.label.as_deref()), (Some(42), Some("me")));
        assert!(waiter(&place, 897_000).is_none());
        let party = holder(&place, 5000).unwrap();
        assert_eq!((party.pid, party.label.as_deref()), (Some(42), Some("me")));
        assert_eq!(party.since_us, Some(1_700_000_002_000_000));
        assert!(held("!", 5000).is_none() && held("!é", 5000).is_none());
    }
}
