//! Sends cancel requests to steps that run here, and drops steps whose claim is lost.
//!
//! It reads the store and never writes to it.

use super::backoff::{Backoff, jittered};
use super::claims::Phase;
use super::node::Node;
use crate::metrics;
use outlast_core::{ClaimRef, Error, HeldClaim};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// Checks when a hint asks for it, and regularly while steps run long: a hint may be lost.
pub(crate) struct CancelWatcher {
    node: Arc<Node>,
}

impl CancelWatcher {
    pub(crate) fn new(node: Arc<Node>) -> CancelWatcher {
        CancelWatcher { node }
    }

    /// Checks long-running steps as often as the heartbeat renews the lease.
    pub(crate) async fn run(self) {
        let interval = self.node.settings.lease / 3;
        let mut backoff = Backoff::default();
        let mut looked = Instant::now();
        let mut pause = jittered(interval);
        loop {
            let latest = Instant::now() + pause;
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = self.node.cancel_alarm.rung(latest) => {}
            }
            // The alarm rang before its time: a hint came.
            let is_hinted = Instant::now() < latest;
            if !is_hinted && !self.has_run_since(looked) {
                looked = Instant::now();
                continue;
            }
            looked = Instant::now();
            pause = match self.run_once().await {
                Ok(()) => {
                    backoff.reset();
                    jittered(interval)
                }
                Err(error) => {
                    metrics::store_error("cancel_watcher");
                    tracing::warn!(%error, "could not check running steps for cancellation; trying again");
                    let pause = backoff.next();
                    // Keep the alarm set, so that the hint is not lost with this failure.
                    self.node.cancel_alarm.ring_in(pause);
                    pause * 2
                }
            };
        }
    }

    fn has_run_since(&self, moment: Instant) -> bool {
        let mut running = self.node.running().into_iter();
        running.any(|code| code.since <= moment)
    }

    /// Asks the store once for the claims held here.
    ///
    /// A step whose instance was asked to end receives the request. A claim that is no longer this
    /// worker's is dropped.
    pub(crate) async fn run_once(&self) -> Result<(), Error> {
        // List the claims before the store is asked: its answer lacks claims that are taken
        // meanwhile.
        let before = self.node.holdings();
        let (Some(worker), false) = (self.node.worker(), before.is_empty()) else {
            return Ok(());
        };
        let stored = self.node.store().claims_of(worker).await?;
        let stored: HashMap<ClaimRef, HeldClaim> =
            stored.into_iter().map(|held| (held.claim, held)).collect();
        for (entry, claim, doing) in before {
            match (stored.get(&claim), doing) {
                (Some(HeldClaim { cancel, .. }), _) => {
                    if let Some(request) = cancel.clone() {
                        entry.set_cancel(claim, request);
                    }
                }
                // An outcome is under way, so it may have ended the claim.
                (None, Phase::Committing) => {}
                (None, Phase::Waiting | Phase::Running(_)) => entry.lose_unless_moved(claim),
            }
        }
        Ok(())
    }
}
