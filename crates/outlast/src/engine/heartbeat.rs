//! Renews the worker's one lease.
//!
//! Every engine with the worker role runs it. It never extends the claims of a worker that was
//! declared dead: it registers a new worker instead.

use super::backoff::Backoff;
use super::node::Node;
use crate::lease;
use crate::metrics;
use outlast_core::{Error, Heartbeat as Answer, NewWorker};
use std::sync::Arc;
use tokio::time::Instant;

/// Renews the lease three times in its length.
pub(crate) struct Heartbeat {
    node: Arc<Node>,
}

impl Heartbeat {
    pub(crate) fn new(node: Arc<Node>) -> Heartbeat {
        Heartbeat { node }
    }

    pub(crate) async fn run(self) {
        let interval = self.node.settings.lease / 3;
        let mut backoff = Backoff::default();
        loop {
            let next = match self.run_once().await {
                Ok(()) => {
                    backoff.reset();
                    interval
                }
                Err(error) => {
                    metrics::store_error("heartbeat");
                    tracing::warn!(%error, "could not renew the lease; trying again");
                    backoff.next().min(interval)
                }
            };
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = self.node.lease_alarm.rung(Instant::now() + next) => {}
            }
        }
    }

    /// Renews the lease, or registers a new worker when this one was declared dead.
    pub(crate) async fn run_once(&self) -> Result<(), Error> {
        if let Some(renewed) = self.node.renewed() {
            metrics::lease_age(renewed.elapsed());
        }
        let Some(worker) = self.node.worker() else {
            return self.register().await;
        };
        let sent = lease::now();
        match self
            .node
            .store()
            .heartbeat(worker, self.node.settings.lease)
            .await?
        {
            Answer::Renewed => self.node.set_worker(worker, sent),
            Answer::Gone => {
                tracing::warn!(%worker, "the worker was declared dead and has lost its claims; registering again");
                self.node.lose_all();
                self.register().await?;
            }
        }
        metrics::lease_age(std::time::Duration::ZERO);
        Ok(())
    }

    /// Registers a new worker.
    pub(crate) async fn register(&self) -> Result<(), Error> {
        let settings = &self.node.settings;
        let worker = NewWorker {
            name: settings.name.clone(),
            host: settings.host.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            machines: self.node.code.registry.offers(),
            queues: settings.queues.keys().cloned().collect(),
            lease: settings.lease,
        };
        let sent = lease::now();
        let worker = self.node.store().register(worker).await?;
        self.node.set_worker(worker, sent);
        self.node.client.hub.look_again();
        tracing::info!(%worker, name = settings.name, "registered");
        Ok(())
    }
}
