//! What the locks protect: a count for each key, in a server that no fault reaches. It refuses a
//! fence smaller than it has seen, takes any other count that it is given, and keeps a tally of
//! what was lost by that.

use std::io;

use lab::redis::Server;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

use super::N_KEYS;
use crate::{
    trouble::{Outcome, Trouble},
    worker,
};

const READ: &str = include_str!("read.lua");
const WRITE: &str = include_str!("write.lua");

#[derive(Debug)]
pub(crate) struct Resource(Server);

/// What became of all that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) n_taken: u64,
    /// Writes that undid another one.
    pub(crate) n_lost: u64,
}

impl Resource {
    pub(crate) fn start() -> Outcome<Self> {
        Ok(Self(Server::start()?))
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// All keys together.
    pub(crate) fn taken(&self) -> Outcome<Taken> {
        let mut client = self.0.client()?;
        let mut taken = Taken::default();
        for key in (0..N_KEYS).map(worker::key) {
            let mut number = |field| {
                let reply = client.command(&["HGET", &key, field])?.not_an_error()?;
                io::Result::Ok(reply.int().and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
            };
            let (count, n_taken, n_lost) = (number("count")?, number("taken")?, number("lost")?);
            taken.n_taken += n_taken;
            // Either way of counting may find what the other does not.
            taken.n_lost += n_lost.max(n_taken.abs_diff(count));
        }
        Ok(taken)
    }
}

/// What the resource answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The count, and the number of this step among all steps at this key.
    Done { count: u64, step: u64 },
    /// The fence is smaller than one it has seen.
    Stale,
}

/// A connection to it.
#[derive(Debug)]
pub(crate) struct Desk(BufStream<TcpStream>);

impl Desk {
    pub(crate) async fn connect(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufStream::new(stream)))
    }

    pub(crate) async fn read(&mut self, key: &str, fence: u64) -> Outcome<Answer> {
        self.ask(&["EVAL", READ, "1", key, &digits(fence)]).await
    }

    pub(crate) async fn write(&mut self, key: &str, fence: u64, count: u64) -> Outcome<Answer> {
        self.ask(&["EVAL", WRITE, "1", key, &digits(fence), &count.to_string()]).await
    }

    async fn ask(&mut self, words: &[&str]) -> Outcome<Answer> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.write_all(bytes.as_bytes()).await?;
        self.0.flush().await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let strange = || Trouble::Failed(format!("the resource said {line:?}"));
        match line.trim_end().split_at_checked(1) {
            Some(("-", refusal)) if refusal.contains("STALE") => Ok(Answer::Stale),
            Some(("+", numbers)) => {
                let (count, step) = numbers.split_once(' ').ok_or_else(strange)?;
                Ok(Answer::Done { count: count.parse()?, step: step.parse()? })
            }
            _ => Err(strange()),
        }
    }
}

/// All of one length, so that they compare as texts.
fn digits(fence: u64) -> String {
    format!("{fence:020}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn smaller_fences_are_refused_and_lost_updates_are_counted() {
        let resource = Resource::start().unwrap();
        let key = worker::key(0);
        let mut desk = Desk::connect(resource.port()).await.unwrap();
        let done = |count, step| Answer::Done { count, step };
        assert_eq!(desk.read(&key, 9).await.unwrap(), done(0, 1));
        assert_eq!(desk.write(&key, 9, 1).await.unwrap(), done(1, 2));
        assert_eq!(desk.read(&key, 10).await.unwrap(), done(1, 3));
        assert_eq!(desk.write(&key, 9, 2).await.unwrap(), Answer::Stale);
        assert_eq!(desk.read(&key, 9).await.unwrap(), Answer::Stale);
        assert_eq!(desk.write(&key, 10, 2).await.unwrap(), done(2, 4));
        assert_eq!(resource.taken().unwrap(), Taken { n_taken: 2, n_lost: 0 });
        // Two with the same fence that have read the same count.
        assert_eq!(desk.write(&key, 10, 2).await.unwrap(), done(2, 5));
        assert_eq!(resource.taken().unwrap(), Taken { n_taken: 3, n_lost: 1 });
    }
}
