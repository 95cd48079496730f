//! Adds the run counts of this node to the store, for the dashboard.
//!
//! Every engine with the worker role runs it. No decision may depend on these counts.

use crate::engine::backoff::jittered;
use crate::engine::dispatch::queue_slots::QueueSlots;
use crate::engine::node::Node;
use crate::metrics;
use outlast_core::limits::RUN_STATS_MAX;
use outlast_core::{Error, RunStats, minute_of};
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(2);

/// Takes the counts out of memory every two seconds and writes them.
///
/// The counts of a failed write are dropped. It may have been written without an answer, and a
/// double count is worse than a missing one. A crash loses the counts of the last seconds.
pub(crate) struct StatsFlusher {
    node: Arc<Node>,
    queues: Vec<Arc<QueueSlots>>,
}

impl StatsFlusher {
    pub(crate) fn new(node: Arc<Node>, queues: Vec<Arc<QueueSlots>>) -> StatsFlusher {
        StatsFlusher { node, queues }
    }

    /// Flushes until the engine stops.
    ///
    /// The end of the stop flushes the last counts: by then every step has run.
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

    /// Flushes once; on an error it drops the counts.
    pub(crate) async fn record(&self) {
        if let Err(error) = self.run_once().await {
            metrics::store_error("stats_flusher");
            tracing::debug!(%error, "could not write the run stats; dropping them");
        }
    }

    /// Writes the counts since the last flush. The minute is the store's: clocks of nodes may
    /// differ.
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

/// Returns as many counts as one call takes.
fn next_batch(left: &mut RunStats) -> RunStats {
    let runs = left.runs.len().min(RUN_STATS_MAX);
    let delays = left.delays.len().min(RUN_STATS_MAX - runs);
    RunStats {
        runs: left.runs.drain(..runs).collect(),
        delays: left.delays.drain(..delays).collect(),
    }
}
