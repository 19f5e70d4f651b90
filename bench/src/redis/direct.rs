//! The base of a hot key: whoever releases hands the key to the next in a queue at the server and
//! tells it. Two scripts, a socket for each contender, and nothing else: a dead contender would stop it.
//!
//! Contenders are threads with blocking sockets, or tasks of one runtime: on two cores that alone makes a
//! difference of a quarter, so each shape of ours has its own base.

use std::{process, thread, time::Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    runtime::Runtime,
};

use super::{
    raw::{Wire, command},
    talk::{Answer, Request},
    tally::{self, Tally, Tasks},
};
use crate::Result;

const TAKE: &str = include_str!("take.lua");
const GIVE: &str = include_str!("give.lua");
const TTL_MS: &str = "30000";

#[derive(Debug)]
pub(crate) struct Direct {
    contenders: Vec<Contender>,
}

#[derive(Debug)]
struct Contender {
    wire: Wire,
    words: Words,
}

/// What a contender says and hears.
#[derive(Debug)]
struct Words {
    take: Vec<u8>,
    give: Vec<u8>,
    /// The message that the key is ours.
    ours_now: Vec<u8>,
}

const YES: &[u8; 4] = b":1\r\n";

impl Direct {
    pub(crate) fn new(address: &str, request: &Request) -> Result<Self> {
        Ok(Self { contenders: Contender::all(address, request)? })
    }

    pub(crate) fn run(&mut self, request: &Request) -> Result<Answer> {
        let mut tallies = Tally::start(request);
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .contenders
                .iter_mut()
                .zip(&mut tallies)
                .map(|(contender, tally)| scope.spawn(|| contender.run(tally)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a contender panicked")?)
        })?;
        Ok(Tally::sum(&mut tallies, request.window))
    }
}

impl Contender {
    fn all(address: &str, request: &Request) -> Result<Vec<Self>> {
        (0..request.n_contenders)
            .map(|number| Self::new(address, &request.key(number), number))
            .collect()
    }

    fn new(address: &str, key: &str, number: usize) -> Result<Self> {
        let (owner, queue) = (format!("{key}:{}:{number}", process::id()), format!("{key}:queue"));
        let mut wire = Wire::connect(address)?;
        let (take, give) = (wire.load(TAKE)?, wire.load(GIVE)?);
        let call = |hash: &str| command(&["EVALSHA", hash, "2", key, &queue, &owner, TTL_MS]);
        let (take, give) = (call(&take), call(&give));
        // In the third version of the protocol, messages come on the connection of the commands.
        wire.prepare(&[command(&["HELLO", "3"]), command(&["SUBSCRIBE", &owner])])?;
        let ours_now = format!(">3\r\n$7\r\nmessage\r\n${}\r\n{owner}\r\n$1\r\n1\r\n", owner.len());
        Ok(Self { wire, words: Words { take, give, ours_now: ours_now.into_bytes() } })
    }

    fn run(&mut self, tally: &mut Tally) -> Result<()> {
        let Self { wire, words } = self;
        while !tally.is_over() {
            let begun_at = Instant::now();
            wire.send(&words.take)?;
            if !wire.is_next(YES)? {
                wire.expect(&words.ours_now)?;
            }
            tally.held();
            wire.exchange(&words.give, YES)?;
            tally.cycle_took(begun_at);
        }
        Ok(())
    }
}

/// A contender as a task.
#[derive(Debug)]
pub(crate) struct Task {
    stream: BufReader<TcpStream>,
    words: Words,
}

impl Task {
    pub(crate) fn all(runtime: Runtime, address: &str, request: &Request) -> Result<Tasks<Self>> {
        let inside = runtime.enter();
        let contenders = Contender::all(address, request)?.into_iter().map(|contender| {
            let stream = contender.wire.into_stream();
            stream.set_nonblocking(true)?;
            let stream = BufReader::new(TcpStream::from_std(stream)?);
            Ok(Self { stream, words: contender.words })
        });
        let contenders = contenders.collect::<Result<_>>()?;
        drop(inside);
        Ok(Tasks { runtime, contenders })
    }
}

/// Whether the next bytes are these.
async fn is_next(stream: &mut BufReader<TcpStream>, expected: &[u8]) -> Result<bool> {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes == expected)
}

impl tally::Contender for Task {
    async fn cycle(&mut self, tally: &mut Tally) -> Result<()> {
        let Self { stream, words } = self;
        stream.write_all(&words.take).await?;
        if !is_next(stream, YES).await? && !is_next(stream, &words.ours_now).await? {
            return Err("the server did not say that the key is ours".into());
        }
        tally.held();
        stream.write_all(&words.give).await?;
        if !is_next(stream, YES).await? {
            return Err("the key was not ours".into());
        }
        Ok(())
    }
}
