//! Wakes waits and joins at their deadline, and fails instances that take too long.
//!
//! Nodes with the maintenance role run it. The database's clock decides what is due, never the
//! node's.

use crate::engine::backoff::{Backoff, jittered};
use crate::engine::node::Node;
use crate::hub::Alarm;
use crate::metrics;
use outlast_core::{Error, Fired, Hints, TimedOut};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most instances woken or ended in one transaction.
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
            let next = match self.fire_all().await {
                Ok(next) => {
                    backoff.reset();
                    next.map_or(poll, |next| next.min(poll))
                }
                Err(error) => {
                    metrics::store_error("timers");
                    tracing::warn!(%error, "could not act on instances whose deadline has come; trying again");
                    backoff.next()
                }
            };
            #[cfg(outlast_mutants)]
            let next = match outlast_core::mutant::is("timers-are-late") {
                true => next + Duration::from_millis(100),
                false => next,
            };
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = self.alarm.rung(Instant::now() + next) => {}
            }
        }
    }

    /// Does both once, and returns the time until there is more to do.
    ///
    /// An instance that has taken too long is ended only when `fire` has seen it: without timeouts
    /// there is one transaction.
    async fn fire_all(&self) -> Result<Option<Duration>, Error> {
        let fired = self.run_once().await?;
        let next_timeout_in = match fired.next_timeout_in {
            Some(Duration::ZERO) => self.time_out_once().await?.next_timeout_in,
            next => next,
        };
        Ok([fired.next_due_in, next_timeout_in]
            .into_iter()
            .flatten()
            .min())
    }

    /// Fails a batch of instances that have taken too long.
    pub(crate) async fn time_out_once(&self) -> Result<TimedOut, Error> {
        let timed_out = self.node.store().time_out(BATCH).await?;
        metrics::timed_out(timed_out.ended.len());
        let hints = Hints {
            cascades: timed_out.cascades,
            ended: timed_out.ended.clone(),
            cancelled: timed_out.running.clone(),
            ..Hints::now(timed_out.woken.clone())
        };
        self.node.client.hub.publish(self.node.store(), hints);
        Ok(timed_out)
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
