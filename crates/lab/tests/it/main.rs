//! The servers that the lab starts, seen from outside.

mod server;
