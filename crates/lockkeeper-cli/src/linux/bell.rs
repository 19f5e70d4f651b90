//! A waker that a sleeping `poll` hears.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    task::Wake,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Rung by the library when a future should be polled again.
#[derive(Debug)]
pub(super) struct Bell(EventFd);

impl Bell {
    pub(super) fn new() -> nix::Result<Self> {
        EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map(Self)
    }

    /// Must come before the next poll of the future, never after it.
    pub(super) fn silence(&self) {
        // An error means that it was silent already.
        let _ = self.0.read();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // An error means that it has been ringing 2^64 times, and still does.
        let _ = self.0.write(1);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
