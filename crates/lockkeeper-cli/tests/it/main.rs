//! The command as its users see it: real processes, real signals, exact exit codes.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "test names are sentences")]
#![allow(clippy::unwrap_used, reason = "in a test, that is an assertion")]

mod codes;
mod crowd;
mod embedded;
mod killed;
mod loss;
#[cfg(feature = "memcached")]
mod memcached;
mod nested;
mod not_built_in;
mod pages;
mod passed_on;
#[cfg(feature = "redis")]
mod redis;
mod secrets;
mod signals;
mod signals_end_all;
mod status;
mod stopped;
mod streams;
mod support;
mod terminal;
