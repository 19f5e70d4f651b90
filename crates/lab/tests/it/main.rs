//! The servers that the lab starts, seen from outside.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod cluster;
mod five;
mod memcached;
mod proxy;
mod secure;
mod sentinels;
mod server;
