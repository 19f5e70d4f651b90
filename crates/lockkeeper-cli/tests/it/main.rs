//! The command as its users see it: real processes, real signals, exact exit codes.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "test names are sentences")]
#![allow(clippy::unwrap_used, reason = "in a test, that is an assertion")]

mod codes;
mod crowd;
mod embedded;
mod killed;
mod loss;
mod memcached;
mod nested;
mod pages;
mod passed_on;
mod redis;
mod secrets;
mod signals;
mod signals_end_all;
mod status;
mod stopped;
mod streams;
mod support;
mod terminal;
