//! A runtime of our own, for those who have none: threads that block, and the steward.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use tokio::runtime::{Builder, Handle};

use crate::{
    engine::error::{Error, ErrorKind, Result},
    tools::sync::{Flag, locked},
};

/// A thread with a runtime; it starts when first needed and ends with its owner.
#[derive(Debug)]
pub(crate) struct OwnRuntime {
    /// The thread's name.
    name: String,
    handle: Mutex<Option<Handle>>,
    stop: Arc<Flag>,
}

impl OwnRuntime {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), handle: Mutex::default(), stop: Arc::default() }
    }

    pub(crate) fn handle(&self) -> Result<Handle> {
        let mut known = locked(&self.handle);
        if let Some(handle) = &*known {
            return Ok(handle.clone());
        }
        let no_thread = |error| {
            Error::new(ErrorKind::Other, "the system has no thread to spare").because(error)
        };
        let runtime = Builder::new_current_thread().enable_io().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let stop = Arc::clone(&self.stop);
        thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || runtime.block_on(stop.raised()))
            .map_err(no_thread)?;
        *known = Some(handle.clone());
        Ok(handle)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        self.stop.raise();
    }
}
