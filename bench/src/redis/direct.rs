//! The base of a hot key: whoever releases hands the key to the next in a queue at the server and
//! tells it. Two scripts, a blocking socket and a thread for each contender, and nothing else: a
//! dead contender would stop it.

use std::{process, thread, time::Instant};

use super::{
    raw::{Wire, command},
    talk::{Answer, Request},
    tally::Tally,
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
    take: Vec<u8>,
    give: Vec<u8>,
    /// The message that the key is ours.
    ours_now: Vec<u8>,
}

impl Direct {
    pub(crate) fn new(address: &str, request: &Request) -> Result<Self> {
        let contenders = (0..request.n_contenders)
            .map(|number| Contender::new(address, &request.key(number), number));
        Ok(Self { contenders: contenders.collect::<Result<_>>()? })
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
    fn new(address: &str, key: &str, number: usize) -> Result<Self> {
        let (owner, queue) = (format!("{key}:{}:{number}", process::id()), format!("{key}:queue"));
        let mut wire = Wire::connect(address)?;
        let (take, give) = (wire.load(TAKE)?, wire.load(GIVE)?);
        let call = |hash: &str| command(&["EVALSHA", hash, "2", key, &queue, &owner, TTL_MS]);
        let (take, give) = (call(&take), call(&give));
        // In the third version of the protocol, messages come on the connection of the commands.
        wire.prepare(&[command(&["HELLO", "3"]), command(&["SUBSCRIBE", &owner])])?;
        let ours_now = format!(">3\r\n$7\r\nmessage\r\n${}\r\n{owner}\r\n$1\r\n1\r\n", owner.len());
        Ok(Self { wire, take, give, ours_now: ours_now.into_bytes() })
    }

    fn run(&mut self, tally: &mut Tally) -> Result<()> {
        while !tally.is_over() {
            let begun_at = Instant::now();
            self.wire.send(&self.take)?;
            if !self.wire.is_next(b":1\r\n")? {
                self.wire.expect(&self.ours_now)?;
            }
            tally.held();
            self.wire.exchange(&self.give, b":1\r\n")?;
            tally.cycle_took(begun_at);
        }
        Ok(())
    }
}
