//! What users see. It may import everything but the engines, which it opens by URL.

pub mod blocking;
pub(crate) mod guard;
pub(crate) mod lock;
pub(crate) mod locks;
pub(crate) mod owner;
pub(crate) mod several;
