//! The bytes: what is sent to a server, over which connection, and what comes back.

pub(crate) mod bucket_set;
pub(crate) mod call;
pub(crate) mod connection;
pub(crate) mod digits;
pub(crate) mod driver;
pub(crate) mod hex;
pub(crate) mod outbox;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod resp;
pub(crate) mod script;
pub(crate) mod slot;
