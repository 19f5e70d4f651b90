//! Events for whoever collects `tracing` events.

use crate::engine::event::{Event, Observer};

/// Emits every [`Event`] through `tracing`, under the target `lockkeeper`: losses and trouble as
/// warnings, the rest for debugging.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

impl Observer for Tracing {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Granted { key, fence } => {
                tracing::debug!(target: "lockkeeper", ?key, fence, "granted");
            }
            Event::Passed { key, fence } => {
                tracing::trace!(target: "lockkeeper", ?key, fence, "passed on");
            }
            Event::Waiting { key } => tracing::debug!(target: "lockkeeper", ?key, "waiting"),
            Event::Released { key } => tracing::debug!(target: "lockkeeper", ?key, "released"),
            Event::Troubled { key, error, pause } => {
                tracing::warn!(target: "lockkeeper", ?key, %error, ?pause, "no answer, asking again");
            }
            Event::Lost { key, loss } => tracing::warn!(target: "lockkeeper", ?key, %loss, "lost"),
        }
    }
}
