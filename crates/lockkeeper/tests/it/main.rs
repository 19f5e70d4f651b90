//! One binary for all integration tests: each further one would be linked anew.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod cancelling;
mod distant;
mod engines;
mod foreign_code;

mod given_up;
mod house_rules;
mod limits;
mod loss;
mod macros;
mod neighbour;

mod owners;
mod partings;
mod planted;

mod maximum;
mod memcached;
mod panics;
mod pauses;
mod processes;
mod redis;
mod requests;
mod runtimes;
mod several;
mod terms;
mod threads;
mod told;
mod tools;
mod turns;
mod waits;
mod ward;
