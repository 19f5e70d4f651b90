//! Small tools that know nothing of locks. They may import the contract (`engine/`) only.

pub(crate) mod bell;
pub(crate) mod block_on;
pub(crate) mod caught;
pub(crate) mod fork;
pub(crate) mod linked_queue;
pub(crate) mod sync;
pub(crate) mod url;
