//! The base: `SET key owner NX PX` and a script that compares and deletes, on a blocking socket.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Instant,
};

use super::{
    talk::{Answer, Request},
    tally::Tally,
};
use crate::Result;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) else return 0 end";
const TTL_MS: &str = "30000";

/// A connection that knows every answer beforehand: what is not as expected is an error.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    answer: Vec<u8>,
}

impl Wire {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), answer: Vec::new() })
    }

    /// The stream, of which nothing may be left to read.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Takes as many bytes as `expected` has; whether they are the same.
    pub(crate) fn is_next(&mut self, expected: &[u8]) -> Result<bool> {
        self.answer.resize(expected.len(), 0);
        self.stream.read_exact(&mut self.answer)?;
        Ok(self.answer == expected)
    }

    pub(crate) fn expect(&mut self, expected: &[u8]) -> Result<()> {
        if self.is_next(expected)? {
            return Ok(());
        }
        Err(format!("the server answered {:?}", String::from_utf8_lossy(&self.answer)).into())
    }

    pub(crate) fn exchange(&mut self, bytes: &[u8], expected: &[u8]) -> Result<()> {
        self.send(bytes)?;
        self.expect(expected)
    }

    /// Sends commands whose answers nobody needs, and answers the lines of all answers.
    pub(crate) fn prepare(&mut self, commands: &[Vec<u8>]) -> Result<Vec<String>> {
        self.send(&[&commands.concat()[..], &command(&["PING"])].concat())?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            match line.trim_end() {
                "+PONG" => return Ok(lines),
                refusal if refusal.starts_with('-') || refusal.is_empty() => {
                    return Err(format!("the server refused: {refusal}").into());
                }
                other => lines.push(other.to_owned()),
            }
        }
    }

    /// Loads a script; its hash.
    pub(crate) fn load(&mut self, script: &str) -> Result<String> {
        let lines = self.prepare(&[command(&["SCRIPT", "LOAD", script])])?;
        Ok(lines.last().ok_or("no hash")?.clone())
    }
}

/// A command as it goes over the wire.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

/// All contenders on one connection: their commands go in one write, then all answers are taken.
#[derive(Debug)]
pub(crate) struct Raw {
    wire: Wire,
    take: Vec<u8>,
    taken: Vec<u8>,
    give: Vec<u8>,
    given: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(address: &str, request: &Request) -> Result<Self> {
        let mut wire = Wire::connect(address)?;
        let hash = wire.load(RELEASE)?;
        let (mut take, mut give) = (Vec::new(), Vec::new());
        for number in 0..request.n_contenders {
            let (key, owner) = (request.key(number), format!("owner-of-{number:08}"));
            take.extend(command(&["SET", &key, &owner, "NX", "PX", TTL_MS]));
            give.extend(command(&["EVALSHA", &hash, "1", &key, &owner]));
        }
        let (taken, given) =
            (b"+OK\r\n".repeat(request.n_contenders), b":1\r\n".repeat(request.n_contenders));
        Ok(Self { wire, take, taken, give, given })
    }

    pub(crate) fn run(&mut self, request: &Request) -> Result<Answer> {
        let mut tallies = Tally::start(request);
        let begun_at = Instant::now();
        while tallies.iter().any(|tally| !tally.is_over()) {
            let cycle_begun_at = Instant::now();
            self.wire.exchange(&self.take, &self.taken)?;
            tallies.iter_mut().for_each(Tally::held);
            self.wire.exchange(&self.give, &self.given)?;
            tallies[0].cycle_took(cycle_begun_at);
        }
        Ok(Tally::sum(&mut tallies, begun_at.elapsed()))
    }
}
