//! Finds the primary, or the node that has a slot.

pub(crate) mod cluster;
pub(crate) mod majority;
pub(crate) mod route;
pub(crate) mod sentinel;
pub(crate) mod table;
pub(crate) mod watch;
