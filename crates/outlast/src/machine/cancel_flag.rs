//! The flag that a cancel sets while a step runs.
//!
//! The cancel watcher sets it; the step reads it through its context.

use outlast_core::CancelRequest;
use std::sync::OnceLock;
use tokio::sync::Notify;

/// Whether the instance of a running step was cancelled since its claim.
///
/// Every step has a flag and few are ever set, so it is kept small.
#[derive(Debug, Default)]
pub(crate) struct CancelFlag {
    request: OnceLock<CancelRequest>,
    came: Notify,
}

impl CancelFlag {
    /// Sets the flag. A second cancel changes nothing.
    pub(crate) fn set(&self, request: CancelRequest) {
        // The request before the wake-up: a woken task reads the request.
        let _ = self.request.set(request);
        self.came.notify_waiters();
    }

    /// Returns the cancel, once it is known.
    pub(crate) fn request(&self) -> Option<&CancelRequest> {
        self.request.get()
    }

    /// Waits until the flag is set.
    pub(crate) async fn came(&self) {
        // Subscribes before it reads, so that a cancel in between still wakes this task.
        let came = self.came.notified();
        if self.request().is_none() {
            came.await;
        }
    }
}
