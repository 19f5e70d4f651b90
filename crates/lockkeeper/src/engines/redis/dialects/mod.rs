//! How the lock is made.

pub(crate) mod foreign_claim;
pub(crate) mod native;
pub(crate) mod plain;
pub(crate) mod redisson;
pub(crate) mod redlock;
pub(crate) mod renewals;
#[cfg(test)]
mod scripts_tests;
