#![doc = include_str!("guide.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// In reading order: what users see, then how it is done, then the contract, then the engines.
pub mod blocking;
mod error;
pub mod event;
mod guard;
mod key;
mod lock;
mod locks;
pub mod observe;
mod owner;
mod several;
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "only engines with servers need all of it")
)]
mod url;

mod alarm;
mod ask;
mod at_hand;
mod book;
mod caught;
pub mod clock;
mod errand;
mod fork;
mod give_back;
mod held;
mod limit;
mod line;
mod mood;
mod next_look;
mod partings;
mod release;
mod roll;
mod seat;
mod steward;
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "only engines with servers need all of it")
)]
mod sync;
mod ticket;
mod turn;

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

pub use crate::{
    error::{Call, Error, ErrorKind, Result},
    guard::{Guard, Loss},
    key::Key,
    lock::{LONGEST_LABEL, LONGEST_TTL, Lock, SHORTEST_TTL},
    locks::{DEFAULT_ANSWER_WITHIN, DEFAULT_CONNECT_WITHIN, DEFAULT_TTL, Locks, LocksBuilder},
    owner::Owner,
    several::{Guards, Several},
    url::without_secrets,
};
