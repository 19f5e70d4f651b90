//! What proofs and tests need around the locks: folders on a disk, processes that can be killed,
//! real servers, and a look at what a process uses.

mod certificates;
mod folder;
pub mod memcached;
mod ports;
mod process;
pub mod proxy;
pub mod redis;
mod signals;
pub mod usage;
mod wait;
mod wall;

pub use crate::{
    certificates::Certificates,
    folder::{Folder, file_system, program_beside},
    ports::free_port,
    process::Process,
    signals::with_default_signals,
    wait::wait_until,
};

/// A program that is started, by its name or its whole path, and the Debian package that has it.
pub type Program = (&'static str, &'static str);

/// All programs that tests start. Each lab says which it needs; those of the command's tests are here.
pub const PROGRAMS: &[&[Program]] = &[
    &[("sh", "dash"), ("setsid", "util-linux"), ("script", "bsdutils")],
    certificates::PROGRAMS,
    memcached::PROGRAMS,
    redis::PROGRAMS,
    wall::PROGRAMS,
];

/// Nanoseconds on a clock that all processes of the machine share and nobody sets.
pub fn monotonic_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    // This clock is always there; a zero would only ever fail a proof, never pass one.
    time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
