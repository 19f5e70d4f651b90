//! Whether a server is fit for locks, according to its `INFO`.

use crate::engine::error::{Error, ErrorKind, Result};

/// The oldest Redis with all features that we use: RESP3 with subscriptions, scripts that replicate effects.
const OLDEST: (u32, u32) = (6, 2);

/// Refuses a server that would break the promise of the lock, and says what to do.
pub(crate) fn server(info: &str, evicting_allowed: bool, may_move: bool) -> Result<()> {
    let field = |name| field(info, name);
    if let Some(version) = field("redis_version")
        && parsed(version).is_some_and(|version| version < OLDEST)
    {
        let (major, minor) = OLDEST;
        return Err(Error::refused(format!(
            "the server is Redis {version}; {major}.{minor} or newer is needed"
        )));
    }
    let is_replica = is_replica(info);
    if is_replica && may_move {
        let message = "the server is a replica just now; another one is primary, or will be soon";
        return Err(Error::new(ErrorKind::Unreachable, message));
    }
    if is_replica {
        return Err(Error::refused(
            "the server is a replica, where no lock can be taken; name the primary, or use \
             redis+sentinel: to follow it",
        ));
    }
    let policy = field("maxmemory_policy").unwrap_or("noeviction");
    let may_evict = field("maxmemory").is_some_and(|bytes| bytes != "0") && policy != "noeviction";
    if may_evict && !evicting_allowed {
        return Err(Error::refused(format!(
            "the server may throw locks away when its memory is full (maxmemory-policy {policy}); \
             set it to noeviction, or take the risk with evicting=allowed in the URL"
        )));
    }
    Ok(())
}

pub(crate) fn is_replica(info: &str) -> bool {
    field(info, "role") == Some("slave")
}

/// The value of one field of `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_would_break_promises_are_refused() {
        let good = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n";
        assert!(server(good, false, false).is_ok());
        for (from, to, word) in [
            ("7.0.15", "5.0.3", "6.2"),
            ("master", "slave", "replica"),
            ("maxmemory:0", "maxmemory:100", "allkeys-lru"),
        ] {
            let error = server(&good.replace(from, to), false, false).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(server(&good.replace("maxmemory:0", "maxmemory:100"), true, false).is_ok());
        let error = server(&good.replace("master", "slave"), false, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "the primary can be looked for");
    }
}
