//! What the locks protect: counts in a server of its own, which knows nothing of the locks. It lets
//! one in at a time, with a fence above all before, and takes whatever count that one has reckoned:
//! so an overlap is refused, and would lose counts as well.

use std::io;

use lab::redis::Server;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

use crate::{
    trouble::{Outcome, Trouble},
    worker,
};

const ENTER: &str = include_str!("enter.lua");
const LEAVE: &str = include_str!("leave.lua");

#[derive(Debug)]
pub(crate) struct Witness(Server);

impl Witness {
    pub(crate) fn start() -> Outcome<Self> {
        Ok(Self(Server::start()?))
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// The counts of all keys together.
    pub(crate) fn counted(&self, n_keys: u32) -> Outcome<u64> {
        let mut client = self.0.client()?;
        let mut counted = 0;
        for key in (0..n_keys).map(worker::key) {
            let count = client.command(&["HGET", &key, "count"])?.not_an_error()?.int();
            counted += count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        }
        Ok(counted)
    }
}

/// A connection of one who takes turns.
#[derive(Debug)]
pub(crate) struct Visitor(BufStream<TcpStream>);

impl Visitor {
    pub(crate) async fn connect(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufStream::new(stream)))
    }

    /// Goes in and reads the count.
    pub(crate) async fn enter(&mut self, key: &str, fence: u64) -> Outcome<u64> {
        self.ask(&["EVAL", ENTER, "1", key, &digits(fence)]).await
    }

    /// Writes the count and goes.
    pub(crate) async fn leave(&mut self, key: &str, fence: u64, count: u64) -> Outcome {
        self.ask(&["EVAL", LEAVE, "1", key, &digits(fence), &count.to_string()]).await.map(drop)
    }

    async fn ask(&mut self, words: &[&str]) -> Outcome<u64> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.write_all(bytes.as_bytes()).await?;
        self.0.flush().await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        match line.trim_end().split_at_checked(1) {
            Some((":", number)) => Ok(number.parse().map_err(io::Error::other)?),
            Some(("-", refusal)) => Err(Trouble::Violated(format!("{}: {refusal}", words[3]))),
            _ => Err(Trouble::Failed(format!("the witness said {line:?}"))),
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

    async fn refused<T>(answer: impl Future<Output = Outcome<T>>, why: &str) {
        match answer.await {
            Err(Trouble::Violated(text)) => assert!(text.contains(why), "{text}"),
            Err(Trouble::Failed(text)) => panic!("{text}"),
            Ok(_) => panic!("not refused: {why}"),
        }
    }

    #[tokio::test]
    async fn overlaps_and_old_fences_are_refused() {
        let witness = Witness::start().unwrap();
        let key = worker::key(0);
        let mut first = Visitor::connect(witness.port()).await.unwrap();
        let mut second = Visitor::connect(witness.port()).await.unwrap();
        assert_eq!(first.enter(&key, 9).await.unwrap(), 0);
        refused(second.enter(&key, 10), "OVERLAP").await;
        refused(second.leave(&key, 10, 1), "OVERLAP").await;
        first.leave(&key, 9, 1).await.unwrap();
        for old in [8, 9] {
            refused(second.enter(&key, old), "FENCE").await;
        }
        assert_eq!(second.enter(&key, 10).await.unwrap(), 1);
        refused(first.leave(&key, 9, 1), "OVERLAP").await;
        second.leave(&key, 10, 2).await.unwrap();
        refused(second.leave(&key, 10, 3), "OVERLAP").await;
        assert_eq!(witness.counted(2).unwrap(), 2);
    }
}
