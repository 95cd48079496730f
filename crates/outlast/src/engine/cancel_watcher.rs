//! Tells steps that run here what was wished of their instances.

use super::backoff::{Backoff, jittered};
use super::claims::Phase;
use super::node::Node;
use crate::metrics;
use outlast_core::{ClaimRef, Error, HeldClaim};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// Looks when somebody tells of it, and now and then by itself while steps take long: a hint may be lost.
pub(crate) struct CancelWatcher {
    node: Arc<Node>,
}

impl CancelWatcher {
    pub(crate) fn new(node: Arc<Node>) -> CancelWatcher {
        CancelWatcher { node }
    }

    /// At the pace of the heartbeat: who runs for so long is asked after as often as its worker says that it lives.
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
                () = self.node.wish_alarm.rung(latest) => {}
            }
            // Rung before its time: somebody has told.
            let told = Instant::now() < latest;
            if !told && !self.has_run_since(looked) {
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
                    tracing::warn!(%error, "could not look for what was wished of running steps; trying again");
                    let pause = backoff.next();
                    // What was told is not forgotten.
                    self.node.wish_alarm.ring_in(pause);
                    pause * 2
                }
            };
        }
    }

    fn has_run_since(&self, moment: Instant) -> bool {
        let mut running = self.node.running().into_iter();
        running.any(|code| code.since <= moment)
    }

    /// Asks once what the store has of all that is held here. What was asked to end is told, and what is no longer this
    /// worker's is dropped.
    pub(crate) async fn run_once(&self) -> Result<(), Error> {
        // Before the store is asked: what is claimed meanwhile is not in its answer.
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
                        entry.tell(claim, request);
                    }
                }
                // With an outcome on its way, the claim may have come to its end.
                (None, Phase::CommitPermit) => {}
                (None, Phase::Waiting | Phase::Running(_)) => entry.lose_unless_moved(claim),
            }
        }
        Ok(())
    }
}
