//! Adds what was run here to the store's counts, for people to see.

use super::backoff::jittered;
use super::node::Node;
use super::queue_slots::QueueSlots;
use crate::metrics;
use outlast_core::limits::TRAFFIC_MAX;
use outlast_core::{Error, RunStats, minute_of};
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(2);

/// Takes the counts out of memory every two seconds and records them.
///
/// Nothing depends on them, so little is done for them. Those of a record that failed are dropped: it may have been
/// written unseen, and to count twice would be worse than not to count. A crash loses those of its last seconds.
pub(crate) struct StatsFlusher {
    node: Arc<Node>,
    queues: Vec<Arc<QueueSlots>>,
}

impl StatsFlusher {
    pub(crate) fn new(node: Arc<Node>, queues: Vec<Arc<QueueSlots>>) -> StatsFlusher {
        StatsFlusher { node, queues }
    }

    /// What is counted after the last look is left to the end of the stop: by then every step has run.
    pub(crate) async fn run(self: Arc<StatsFlusher>) {
        loop {
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(jittered(INTERVAL)) => {}
            }
            self.record().await;
        }
    }

    /// Records, or leaves it out.
    pub(crate) async fn record(&self) {
        if let Err(error) = self.run_once().await {
            metrics::store_error("stats_flusher");
            tracing::debug!(%error, "could not record what was run; leaving it out");
        }
    }

    /// Records what has been counted since. The minute is the store's: the clocks of nodes may differ.
    pub(crate) async fn run_once(&self) -> Result<(), Error> {
        if self.node.run_counters.is_empty()
            && self
                .queues
                .iter()
                .all(|queue_slots| queue_slots.waits.is_empty())
        {
            return Ok(());
        }
        let store = self.node.store();
        let minute = minute_of(store.now().await?);
        let waits =
            |queue_slots: &Arc<QueueSlots>| queue_slots.waits.take(&queue_slots.queue, minute);
        let mut counted = RunStats {
            runs: self.node.run_counters.take(minute),
            delays: self.queues.iter().flat_map(waits).collect(),
        };
        while !counted.is_empty() {
            store.add_run_stats(next_batch(&mut counted)).await?;
        }
        Ok(())
    }
}

/// As many counts as go at once.
fn next_batch(left: &mut RunStats) -> RunStats {
    let runs = left.runs.len().min(TRAFFIC_MAX);
    let delays = left.delays.len().min(TRAFFIC_MAX - runs);
    RunStats {
        runs: left.runs.drain(..runs).collect(),
        delays: left.delays.drain(..delays).collect(),
    }
}
