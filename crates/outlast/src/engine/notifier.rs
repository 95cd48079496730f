//! Receives hints from other nodes. The hub sends this node's own hints.
//!
//! A lost hint costs time and nothing else: every loop also polls.

use super::backoff::Backoff;
use super::node::Node;
use crate::metrics;
use outlast_core::{Error, Listen};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The pause before a store without notifications is asked again. Its server may have been too
/// busy to answer in time.
const DEAF_INTERVAL: Duration = Duration::from_secs(60);

/// Passes hints of other nodes to the hub of this one.
pub(crate) struct Notifier {
    node: Arc<Node>,
    listener: Option<Box<dyn Listen>>,
}

/// The result of one wait for hints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// Hints were passed on.
    Hints,
    /// The store cannot notify, so all nodes poll.
    Unsupported,
}

impl Notifier {
    pub(crate) fn new(node: Arc<Node>) -> Notifier {
        Notifier {
            node,
            listener: None,
        }
    }

    pub(crate) async fn run(mut self) {
        let stop: CancellationToken = self.node.stop.everything.clone();
        let mut backoff = Backoff::default();
        loop {
            let received = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                received = self.run_once() => received,
            };
            match received {
                Ok(Notified::Hints) => backoff.reset(),
                Ok(Notified::Unsupported) => {
                    if !paused(DEAF_INTERVAL, &stop).await {
                        return;
                    }
                }
                Err(error) => {
                    metrics::store_error("notifier");
                    tracing::warn!(%error, "could not receive hints from other nodes; polling until the connection is back");
                    self.listener = None;
                    if !paused(backoff.next(), &stop).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for the next hints and passes them on.
    pub(crate) async fn run_once(&mut self) -> Result<Notified, Error> {
        let listener = match &mut self.listener {
            Some(listener) => listener,
            None => {
                let Some(listener) = self.node.store().listen().await? else {
                    return Ok(Notified::Unsupported);
                };
                // Hints sent before this node listened are lost, so every loop looks again.
                self.node.client.hub.look_again();
                self.listener.insert(listener)
            }
        };
        let hints = listener.next().await?;
        metrics::hints_heard();
        self.node.client.hub.notify_local(&hints);
        Ok(Notified::Hints)
    }
}

/// Waits, and returns whether to go on.
async fn paused(pause: Duration, stop: &CancellationToken) -> bool {
    tokio::time::timeout(pause, stop.cancelled()).await.is_err()
}
