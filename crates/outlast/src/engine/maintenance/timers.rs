//! Wakes waits and joins at their deadline.
//!
//! Nodes with the maintenance role run it. The database's clock decides what is due, never the
//! node's.

use crate::engine::backoff::{Backoff, jittered};
use crate::engine::node::Node;
use crate::hub::Alarm;
use crate::metrics;
use outlast_core::{Error, Fired, Hints};
use std::sync::Arc;
use tokio::time::Instant;

/// The most waits woken in one transaction.
const BATCH: usize = 1_000;

/// Sleeps until the next deadline, but no longer than the poll interval.
pub(crate) struct Timers {
    node: Arc<Node>,
    alarm: Arc<Alarm>,
}

impl Timers {
    pub(crate) fn new(node: Arc<Node>) -> Timers {
        let alarm = node.client.hub.timer_alarm();
        Timers { node, alarm }
    }

    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            let poll = jittered(self.node.settings.poll_interval);
            let next = match self.run_once().await {
                Ok(fired) => {
                    backoff.reset();
                    fired.next_due_in.map_or(poll, |next| next.min(poll))
                }
                Err(error) => {
                    metrics::store_error("timers");
                    tracing::warn!(%error, "could not wake waits whose deadline has come; trying again");
                    backoff.next()
                }
            };
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = self.alarm.rung(Instant::now() + next) => {}
            }
        }
    }

    /// Wakes a batch of waits whose deadline has come.
    pub(crate) async fn run_once(&self) -> Result<Fired, Error> {
        let fired = self.node.store().fire(BATCH).await?;
        metrics::timeouts(fired.woken_instances.len());
        let hints = Hints {
            cascades: fired.cascades,
            ..Hints::now(fired.woken.clone())
        };
        self.node.client.hub.publish(self.node.store(), hints);
        Ok(fired)
    }
}
