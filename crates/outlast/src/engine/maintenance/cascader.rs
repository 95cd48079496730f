//! Cancels or terminates children as their close policy says.
//!
//! Nodes with the maintenance role run it. A parent's end, a join or an operator's request on a
//! tree leaves the work in the table of cascades.

use crate::engine::backoff::{Backoff, jittered};
use crate::engine::node::Node;
use crate::hub::Alarm;
use crate::metrics;
use outlast_core::{CascadeRequest, Cascaded, Error, Hints};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most children in one transaction. Their rows and those of their parents are locked
/// meanwhile.
const BATCH: usize = 500;

/// Works off the stored cascades. Every node may do it: cascaders skip rows that another one has
/// locked.
pub(crate) struct Cascader {
    node: Arc<Node>,
    alarm: Arc<Alarm>,
}

impl Cascader {
    pub(crate) fn new(node: Arc<Node>) -> Cascader {
        let alarm = node.client.hub.cascade_alarm();
        Cascader { node, alarm }
    }

    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            let pause = match self.run_once().await {
                Ok(cascaded) => {
                    backoff.reset();
                    match cascaded.more {
                        true => Duration::ZERO,
                        false => jittered(self.node.settings.poll_interval),
                    }
                }
                Err(error) => {
                    metrics::store_error("cascader");
                    tracing::warn!(%error, "could not run cascades to children; trying again");
                    backoff.next()
                }
            };
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = self.alarm.rung(Instant::now() + pause) => {}
            }
        }
    }

    /// Works on one batch of children.
    pub(crate) async fn run_once(&self) -> Result<Cascaded, Error> {
        let request = CascadeRequest { max: BATCH };
        let cascaded = self.node.store().cascade(request).await?;
        metrics::cascaded(cascaded.requested.len(), cascaded.ended.len());
        let hints = Hints {
            ended: cascaded.ended.clone(),
            cancelled: cascaded.running.clone(),
            ..Hints::now(cascaded.woken.clone())
        };
        self.node.client.hub.publish(self.node.store(), hints);
        Ok(cascaded)
    }
}
