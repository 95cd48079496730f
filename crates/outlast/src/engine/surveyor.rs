//! Measures what only the store knows: depths of queues, the oldest that waits, how many are parked.

use super::backoff::{Backoff, jittered};
use super::node::Node;
use crate::metrics;
use outlast_core::{Error, Filter, Status};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(15);

/// Sets the gauges of the store.
pub(crate) struct Surveyor {
    node: Arc<Node>,
    /// Queues that were seen: one that has become empty is set to zero, not left as it was.
    seen: BTreeSet<String>,
}

impl Surveyor {
    pub(crate) fn new(node: Arc<Node>) -> Surveyor {
        Surveyor {
            node,
            seen: BTreeSet::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let pause = match self.run_once().await {
                Ok(()) => {
                    backoff.reset();
                    jittered(INTERVAL)
                }
                Err(error) => {
                    metrics::store_error("surveyor");
                    tracing::debug!(%error, "could not measure; trying again");
                    backoff.next().max(Duration::from_secs(1))
                }
            };
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Looks once.
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
        for status in [Status::AwaitingSignal, Status::AwaitingChildren] {
            let filter = Filter {
                statuses: vec![status],
                ..Filter::default()
            };
            metrics::parked(status, store.count(filter).await?);
        }
        Ok(())
    }
}
