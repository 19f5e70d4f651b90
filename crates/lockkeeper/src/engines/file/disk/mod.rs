//! What stands in the files: names, bytes, numbers that survive a power loss.

pub(super) mod floor;
pub(super) mod layout;
pub(super) mod ledger;
pub(super) mod name;
pub(super) mod network;
pub(super) mod record;
