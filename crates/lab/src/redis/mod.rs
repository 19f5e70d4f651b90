//! Redis servers as child processes, alone and together, and a small client to look into them.

mod client;
mod five;
mod reply;
mod secure;
mod server;

pub use self::{client::Client, five::Five, reply::Reply, secure::Secure, server::Server};
