//! Time: the clock, and who is to be woken when. It may import `tools/` and `engine/`.

pub(crate) mod alarms;
pub mod clock;
pub(crate) mod next_check;
pub(crate) mod timers;
