//! A cancel that may come while a step runs.

use outlast_core::CancelRequest;
use std::sync::OnceLock;
use tokio::sync::Notify;

/// Whether the instance of a step that runs was asked to end since it was claimed. Every step has one, and few are ever
/// told: it takes no more room than it must.
#[derive(Debug, Default)]
pub(crate) struct CancelFlag {
    request: OnceLock<CancelRequest>,
    came: Notify,
}

impl CancelFlag {
    /// It was asked. To be told twice is to be told.
    pub(crate) fn tell(&self, request: CancelRequest) {
        // First what, then that: who is woken asks why.
        let _ = self.request.set(request);
        self.came.notify_waiters();
    }

    /// What was wished, once it is known.
    pub(crate) fn request(&self) -> Option<&CancelRequest> {
        self.request.get()
    }

    /// Waits until it is.
    pub(crate) async fn came(&self) {
        // Before looking: who is told in between is woken.
        let came = self.came.notified();
        if self.request().is_none() {
            came.await;
        }
    }
}
