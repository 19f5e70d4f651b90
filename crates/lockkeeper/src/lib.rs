#![doc = include_str!("guide.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// In reading order: what users see, then how it is done, then the contract, then the engines.
mod api;
mod line;
pub mod observe;
mod time;
#[cfg_attr(
    not(all(feature = "memory", feature = "redis")),
    allow(dead_code, reason = "only these engines together need all of it")
)]
mod tools;

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod engine;
pub mod engines;

#[cfg(feature = "macros")]
mod macros;
/// What the code made by `#[locked]` calls; not for anybody else.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::macros::*;
}
#[cfg(feature = "macros")]
pub use lockkeeper_macros::locked;

#[doc(inline)]
pub use crate::{api::blocking, engine::event, time::clock};
pub use crate::{
    api::{
        guard::Guard,
        lock::Lock,
        locks::{DEFAULT_ANSWER_WITHIN, DEFAULT_CONNECT_WITHIN, DEFAULT_TTL, Locks, LocksBuilder},
        owner::Owner,
        several::{Guards, Several},
    },
    engine::{
        LONGEST_LABEL, LONGEST_TTL, SHORTEST_TTL,
        error::{Call, Error, ErrorKind, Result},
        event::Loss,
        key::Key,
    },
    tools::url::without_secrets,
};
