//! Locks on ranges of bytes, kept by the kernel for an open file description.
//!
//! All ranges lie far beyond the contents of a file. Whoever holds or waits in line has a *write*
//! lock; whoever waits for a place to become free asks for a *read* lock, because questions are
//! asked in a way that sees only write locks: so watching a place never looks like having one.

use std::os::fd::AsFd;

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};

// Places are numbers above 2^41, which a file offset must be able to hold.
const _: () = assert!(size_of::<libc::off_t>() == 8, "the file engine needs 64-bit file offsets");

/// A range of bytes; `end` is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Bytes {
    start: u64,
    end: u64,
}

/// The lock itself: exclusion rests on this byte alone.
pub(in super::super) const LOCK: Bytes = Bytes { start: 1 << 40, end: LAST_LOCK };
/// The gate: whoever joins the line holds it.
pub(in super::super) const GATE: Bytes = Bytes { start: LAST_LOCK, end: LAST_LOCK + 1 };
/// The places in line.
pub(in super::super) const PLACES: Bytes = Bytes { start: 1 << 41, end: END };
/// All of the above; from the very beginning, because the kernel unlocks a whole file faster than
/// any part of it.
pub(in super::super) const ALL: Bytes = Bytes { start: 0, end: END };

const LAST_LOCK: u64 = (1 << 40) + 1;
const END: u64 = i64::MAX as u64;

impl Bytes {
    /// The place with this number alone.
    pub(in super::super) const fn place(number: u64) -> Self {
        Self { start: PLACES.start + number, end: PLACES.start + number + 1 }
    }

    /// The places from this number up to, but without, that number.
    pub(in super::super) const fn places(from: u64, to: u64) -> Self {
        Self { start: PLACES.start + from, end: PLACES.start + to }
    }

    /// The places from this number on.
    pub(in super::super) const fn places_from(from: u64) -> Self {
        Self { start: PLACES.start + from, end: END }
    }

    /// The byte with this number in the range.
    pub(in super::super) const fn nth(self, number: u64) -> u64 {
        self.start + number
    }

    /// What is left below and above when one place is taken out.
    pub(in super::super) fn without(self, place: u64) -> (Option<Self>, Option<Self>) {
        let Self { start, end } = Self::place(place);
        let below = (self.start < start).then_some(Self { start: self.start, end: start });
        let above = (end < self.end).then_some(Self { start: end, end: self.end });
        (below, above)
    }

    fn flock(self, kind: libc::c_int) -> libc::flock {
        let n_bytes = if self.end == END { 0 } else { self.end - self.start };
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.start as libc::off_t,
            // Zero means to the end of all files.
            l_len: n_bytes as libc::off_t,
            l_pid: 0,
        }
    }
}

/// The answer to [`try_take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Tried {
    Taken,
    Busy,
}

/// Takes a range if nobody has any of it.
pub(in super::super) fn try_take(file: impl AsFd, bytes: Bytes) -> nix::Result<Tried> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&bytes.flock(libc::F_WRLCK))) {
        Ok(_) => Ok(Tried::Taken),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(Tried::Busy),
        Err(errno) => Err(errno),
    }
}

/// Takes a range as soon as nobody has any of it; any signal ends the call with `EINTR`.
pub(in super::super) fn take(file: impl AsFd, bytes: Bytes) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLKW(&bytes.flock(libc::F_WRLCK))).map(drop)
}

/// Waits until nobody has the range any more, and watches it from then on.
pub(in super::super) fn watch(file: impl AsFd, bytes: Bytes) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLKW(&bytes.flock(libc::F_RDLCK))).map(drop)
}

/// Gives back whatever we have of the range.
pub(in super::super) fn give_back(file: impl AsFd, bytes: Bytes) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&bytes.flock(libc::F_UNLCK))).map(drop)
}

/// A byte of the range that somebody else has, if there is one; not always the first.
pub(in super::super) fn taken(file: impl AsFd, bytes: Bytes) -> nix::Result<Option<u64>> {
    let mut flock = bytes.flock(libc::F_RDLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut flock))?;
    if libc::c_int::from(flock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    Ok(Some(u64::try_from(flock.l_start).unwrap_or(0).max(bytes.start)))
}

/// A place that somebody else has, as a number.
pub(in super::super) fn taken_place(file: impl AsFd, bytes: Bytes) -> nix::Result<Option<u64>> {
    Ok(taken(file, bytes)?.map(|at| at.saturating_sub(PLACES.start)))
}
