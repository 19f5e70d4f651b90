//! A job that many machines start at night and one of them does: no runtime, no waiting.
#![allow(clippy::print_stdout, reason = "an example shows something")]

use lockkeeper::{Result, blocking::Locks};

fn main() -> Result<()> {
    let locks = Locks::connect("memory:")?;
    let Some(guard) = locks.lock("nightly").try_acquire()? else {
        println!("somebody else does it tonight");
        return Ok(());
    };
    println!("doing it, with fence {}", guard.fence());
    assert!(locks.lock("nightly").try_acquire()?.is_none());
    guard.release()
}
