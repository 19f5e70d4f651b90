//! Redis servers as child processes, alone and together, and a small client to look into them.

mod client;
mod cluster;
mod five;
mod map;
mod reply;
mod secure;
mod sentinels;
mod server;

pub use self::{
    client::Client, cluster::Cluster, five::Five, reply::Reply, secure::Secure,
    sentinels::Sentinels, server::Server,
};
use crate::Program;

/// What this lab starts.
pub const PROGRAMS: &[Program] = &[
    ("redis-server", "redis-server"),
    ("redis-sentinel", "redis-sentinel"),
    ("redis-cli", "redis-tools"),
];
