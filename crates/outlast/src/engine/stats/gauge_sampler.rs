//! Sets the gauges that need a query: queue depths, the longest waits, parked instances.
//!
//! Nodes with the maintenance role run it. Nothing depends on its results.

use crate::engine::backoff::jittered;
use crate::engine::node::Node;
use crate::metrics;
use outlast_core::{Error, Filter, Status};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(15);
/// No index covers parked instances: counting them reads the table, up to the bound of a count.
const PARKED_INTERVAL: Duration = Duration::from_secs(300);

/// Sets the gauges of the store.
pub(crate) struct GaugeSampler {
    node: Arc<Node>,
    /// The queues seen so far. A queue that becomes empty is set to zero and does not keep its old
    /// value.
    seen: BTreeSet<String>,
    /// When to count the parked instances again.
    parked_due: Instant,
}

impl GaugeSampler {
    pub(crate) fn new(node: Arc<Node>) -> GaugeSampler {
        GaugeSampler {
            node,
            seen: BTreeSet::new(),
            parked_due: Instant::now(),
        }
    }

    /// Samples until the engine stops.
    ///
    /// A failed query is skipped: an immediate retry would add to the load of the store.
    pub(crate) async fn run(mut self) {
        loop {
            if let Err(error) = self.run_once().await {
                metrics::store_error("gauge_sampler");
                tracing::debug!(%error, "could not read the gauges; skipping this sample");
            }
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(jittered(INTERVAL)) => {}
            }
        }
    }

    /// Samples the gauges once.
    pub(crate) async fn run_once(&mut self) -> Result<(), Error> {
        let store = self.node.store();
        let now = store.now().await?;
        let queues = store.queues().await?;
        let mut empty = std::mem::take(&mut self.seen);
        for queue in &queues {
            empty.remove(&queue.name);
            self.seen.insert(queue.name.clone());
            let waited = queue.oldest_eligible_at.map(|oldest| now.since(oldest));
            metrics::queue(queue, waited.unwrap_or_default());
        }
        empty.iter().for_each(|queue| metrics::queue_empty(queue));
        if Instant::now() >= self.parked_due {
            self.parked_due = Instant::now() + jittered(PARKED_INTERVAL);
            self.count_parked().await?;
        }
        Ok(())
    }

    async fn count_parked(&self) -> Result<(), Error> {
        let parked = [
            Status::AwaitingSignal,
            Status::Sleeping,
            Status::AwaitingChildren,
        ];
        for status in parked {
            let filter = Filter {
                statuses: vec![status],
                ..Filter::default()
            };
            metrics::parked(status, self.node.store().count(filter).await?);
        }
        Ok(())
    }
}
