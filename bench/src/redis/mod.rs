//! Redis: against raw sockets and against every peer, each in a process of its own language.

mod direct;
mod foreign;
mod judge;
mod ours;
mod peers;
mod raw;
mod rounds;
mod tables;
mod talk;
mod tally;
mod team;
mod worker;

pub(crate) use self::{
    tables::{hot, many, one, redlock},
    worker::run as work,
};
