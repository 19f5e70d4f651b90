//! What the Redis engine promises, on a real server.

pub(crate) mod combined;
mod commands;
pub(crate) mod contender;
pub(crate) mod held;
mod renewed;
pub(crate) mod split;
pub(crate) mod torture;
mod witness;

use tokio::runtime::{Builder, Runtime};

use crate::trouble::{Outcome, Trouble};

/// What most users have, on a small machine.
fn two_threads() -> Outcome<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// The server is well all the time, so whatever the locks complain of is a broken promise.
fn broken(error: &lockkeeper::Error) -> Trouble {
    Trouble::Violated(error.to_string())
}
