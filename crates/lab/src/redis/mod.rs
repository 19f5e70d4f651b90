//! Redis servers as child processes, alone and together, and a small client to look into them.

mod client;
mod reply;
mod server;

pub use self::{client::Client, reply::Reply, server::Server};
