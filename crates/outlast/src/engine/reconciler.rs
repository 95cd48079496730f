//! Looks for what should not exist: joins that miscount, holds that nobody would end.

use super::backoff::{Backoff, jittered};
use super::node::Node;
use crate::metrics;
use outlast_core::{Error, Hints, InstanceId, ReconcileRequest};
use std::sync::Arc;
use std::time::Duration;

/// Instances looked at in one transaction.
const PAGE: usize = 1_000;
/// Between two pages: the walk is a background check, not a load.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two walks.
const WALK_INTERVAL: Duration = Duration::from_secs(600);

/// Walks through all instances, page by page.
pub(crate) struct Reconciler {
    node: Arc<Node>,
}

impl Reconciler {
    pub(crate) fn new(node: Arc<Node>) -> Reconciler {
        Reconciler { node }
    }

    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        let mut after = None;
        let mut pause = jittered(WALK_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.run_once(after).await {
                Ok(next) => {
                    backoff.reset();
                    after = next;
                    jittered(if next.is_some() {
                        PAGE_INTERVAL
                    } else {
                        WALK_INTERVAL
                    })
                }
                Err(error) => {
                    metrics::store_error("reconciler");
                    tracing::warn!(%error, "could not reconcile; trying again");
                    backoff.next()
                }
            };
        }
    }

    /// Looks at one page, and answers where the next one starts.
    pub(crate) async fn run_once(
        &self,
        after: Option<InstanceId>,
    ) -> Result<Option<InstanceId>, Error> {
        let request = ReconcileRequest { after, max: PAGE };
        let found = self.node.store().reconcile(request).await?;
        metrics::mended(found.joins.len() + found.holds.len());
        for id in &found.joins {
            tracing::error!(instance = %id, "mended a join that miscounted; please report it");
        }
        for id in &found.holds {
            tracing::error!(instance = %id, "freed an instance that was held behind a partition key or for a place in a window, and nobody would have; please report it");
        }
        let hints = Hints::now(found.woken);
        self.node.client.hub.publish(self.node.store(), hints);
        Ok(found.next)
    }
}
