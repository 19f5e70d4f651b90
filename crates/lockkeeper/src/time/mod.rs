//! Time: the clock, and who is to be woken when. It may import `tools/` and `engine/`.

pub(crate) mod alarm;
pub(crate) mod book;
pub mod clock;
pub(crate) mod next_look;
