//! Gives back the claims of dead workers: workers whose lease expired.
//!
//! Nodes with the maintenance role run it. The fence makes a wrong guess harmless: a late commit
//! changes nothing.

use crate::engine::backoff::{Backoff, jittered};
use crate::engine::node::Node;
use crate::metrics;
use outlast_core::{Error, Hints, InstanceId, ReapRequest, Reaped};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most claims given back in one transaction.
const BATCH: usize = 1_000;

/// Looks for expired leases. Every node may do it: reapers skip rows that another one has locked.
pub(crate) struct Reaper {
    node: Arc<Node>,
}

impl Reaper {
    pub(crate) fn new(node: Arc<Node>) -> Reaper {
        Reaper { node }
    }

    /// Waits one lease after the start and after any gap.
    ///
    /// When the database or this node was away, live workers had no chance to renew their leases
    /// (docs/protocol.md, defect 16).
    pub(crate) async fn run(self) {
        let lease = self.node.settings.lease;
        let interval = (lease / 4).min(Duration::from_secs(2));
        let mut backoff = Backoff::default();
        let mut looked = Instant::now();
        let mut pause = lease;
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("reaper-does-not-wait-at-the-start") {
            pause = Duration::ZERO;
        }
        loop {
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            #[cfg(outlast_mutants)]
            if outlast_core::mutant::is("reaper-does-not-wait-after-a-gap") {
                looked = Instant::now();
            }
            if looked.elapsed() > lease + pause {
                looked = Instant::now();
                pause = lease;
                continue;
            }
            pause = match self.run_once().await {
                Ok(reaped) => {
                    backoff.reset();
                    if reaped.more {
                        Duration::ZERO
                    } else {
                        jittered(interval)
                    }
                }
                Err(error) => {
                    metrics::store_error("reaper");
                    tracing::warn!(%error, "could not reap dead workers; trying again");
                    lease.max(backoff.next())
                }
            };
            #[cfg(outlast_mutants)]
            if outlast_core::mutant::is("reaper-does-not-wait-after-an-error") {
                pause = interval;
            }
            looked = Instant::now();
        }
    }

    /// Gives back a batch of claims of dead workers.
    pub(crate) async fn run_once(&self) -> Result<Reaped, Error> {
        let request = ReapRequest {
            max: BATCH,
            crashes_max: self.node.settings.crashes_max,
        };
        let reaped = self.node.store().reap(request).await?;
        metrics::reaped(reaped.returned.len(), reaped.failed.len());
        for worker in &reaped.removed {
            tracing::info!(%worker, "removed a worker whose lease has expired");
        }
        let mut hints = Hints::now(reaped.woken.clone());
        hints.ended.extend(&reaped.failed);
        hints.cascades = reaped.cascades;
        self.node.client.hub.publish(self.node.store(), hints);
        // Send the hints first: lost attempts run again before they are reported.
        for (ids, next) in [(&reaped.returned, "retry"), (&reaped.failed, "failed")] {
            for id in ids {
                self.report(*id, next).await;
            }
        }
        Ok(reaped)
    }

    /// Reports an attempt that ended with its worker.
    ///
    /// The row is read for the names of its machine and step. Another worker may have moved it to
    /// a later step meanwhile.
    async fn report(&self, id: InstanceId, next: &'static str) {
        let instance = match self.node.store().get(id).await {
            Ok(Some(instance)) => instance,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(instance = %id, %error, next, "the worker of a step died");
                return;
            }
        };
        let (machine, step) = (instance.machine, instance.step);
        tracing::warn!(
            instance = %id,
            machine,
            version = instance.version,
            step,
            attempt = instance.attempt,
            crashes = instance.crashes,
            kind = "crash",
            error = "its worker died or lost its lease",
            next = if next == "retry" { "tried again" } else { next },
            "the step failed"
        );
        metrics::failed(machine, step, "crash", next);
    }
}
