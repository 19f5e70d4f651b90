//! Reentrancy: the same owner may come in twice.

use std::sync::Arc;

use super::lock::Lock;
use crate::line::{core::Core, seat::OwnerNumber};

/// Someone who may hold a key more than once at a time: every further acquire of a key it holds
/// succeeds at once, with the same hold and the same fence. The lock is released with the last
/// of its guards. A hold that ran out is not shared, also if nobody was told of that yet: the owner
/// then waits its turn like everybody else.
///
/// Clones are the same owner. Without an owner nobody comes in twice: a task that asks for a key
/// it holds waits for itself.
///
/// ```
/// # fn main() -> lockkeeper::Result<()> { lockkeeper::blocking::block_on(async {
/// let locks = lockkeeper::Locks::connect("memory:").await?;
/// let me = locks.owner();
/// let outer = me.lock("ledger").acquire().await?;
/// let inner = me.lock("ledger").acquire().await?;
/// assert_eq!(outer.fence(), inner.fence());
/// drop(outer);
/// assert!(inner.is_held());
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct Owner {
    core: Arc<Core>,
    number: OwnerNumber,
}

impl Owner {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), number: core.numbers.next() }
    }

    /// A lock that lets this owner in again.
    pub fn lock(&self, key: &str) -> Lock {
        Lock::new(&self.core, key, Some(self.number))
    }
}
