//! Which server is asked, and how it is reached.

pub(crate) mod behind;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod connections;
pub(crate) mod distinct_servers;
pub(crate) mod find;
pub(crate) mod handshake;
pub(crate) mod replicas;
pub(crate) mod settings;
