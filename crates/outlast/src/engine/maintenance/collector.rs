//! Deletes finished instances after their retention.
//!
//! Nodes with the maintenance role run it. It never deletes a child before its parent has
//! finished.

use crate::engine::backoff::{Backoff, jittered};
use crate::engine::node::Node;
use crate::metrics;
use outlast_core::{CollectRequest, Collected, Error};
use std::sync::Arc;
use std::time::Duration;

/// The most instances deleted in one transaction.
const BATCH: usize = 1_000;
/// The pause between two checks. A shorter retention shortens it.
const INTERVAL: Duration = Duration::from_secs(60);

/// Deletes finished instances past their retention, in bounded batches.
pub(crate) struct Collector {
    node: Arc<Node>,
    retention: Duration,
}

impl Collector {
    pub(crate) fn new(node: Arc<Node>, retention: Duration) -> Collector {
        Collector { node, retention }
    }

    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            let pause = match self.run_once().await {
                Ok(collected) => {
                    backoff.reset();
                    let interval = INTERVAL.min(self.retention).max(Duration::from_secs(1));
                    if collected.more {
                        Duration::ZERO
                    } else {
                        jittered(interval)
                    }
                }
                Err(error) => {
                    metrics::store_error("collector");
                    tracing::warn!(%error, "could not remove ended instances; trying again");
                    backoff.next()
                }
            };
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Deletes one batch.
    pub(crate) async fn run_once(&self) -> Result<Collected, Error> {
        let request = CollectRequest {
            retention: self.retention,
            max: BATCH,
        };
        let collected = self.node.store().collect(request).await?;
        metrics::collected(collected.removed.len());
        Ok(collected)
    }
}
