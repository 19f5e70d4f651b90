//! What the server has done, by its own count.

use std::collections::HashMap;

use lab::redis::{Client, Reply};

use crate::trouble::{Outcome, Trouble};

/// How often each command was run, inside scripts too.
#[derive(Debug, Default)]
pub(crate) struct Commands(HashMap<String, u64>);

impl Commands {
    /// Publishes the mark and counts in the same moment, so that what is told on that channel can be
    /// compared with what is counted.
    pub(crate) fn count_and_mark(client: &mut Client, channel: &str, mark: &str) -> Outcome<Self> {
        client.command(&["MULTI"])?.not_an_error()?;
        client.command(&["INFO", "commandstats"])?.not_an_error()?;
        client.command(&["PUBLISH", channel, mark])?.not_an_error()?;
        let replies = client.command(&["EXEC"])?.not_an_error()?;
        let stats = replies.list().first().map(Reply::text);
        stats.map(|stats| Self::parse(&stats)).ok_or_else(|| Trouble::Failed("no counts".into()))
    }

    fn parse(stats: &str) -> Self {
        let count = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        Self(stats.lines().filter_map(count).collect())
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = |(name, calls): (&String, &u64)| (name.clone(), calls - before.of(name));
        Self(self.0.iter().map(since).collect())
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// All but those with these names.
    pub(crate) fn besides(&self, names: &[&str]) -> u64 {
        let others = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        others.map(|(_, calls)| calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_compared() {
        let before = Commands::parse("# Commandstats\r\ncmdstat_get:calls=2,usec=7\r\n");
        let stats = "cmdstat_get:calls=5,usec=7\r\ncmdstat_config|set:calls=1,usec=2\r\n";
        let since = Commands::parse(stats).since(&before);
        assert_eq!((since.of("get"), since.of("config|set"), since.of("set")), (3, 1, 0));
        assert_eq!((since.besides(&["get"]), since.besides(&[])), (1, 4));
    }
}
