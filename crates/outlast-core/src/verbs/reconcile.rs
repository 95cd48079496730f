//! Repair of waits and holds that nothing would ever end: the request and answer of `reconcile`.
//!
//! The reconciler calls it. A healthy database never needs a repair.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, QueueNames};

/// A request to check one page of instances, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileRequest {
    /// Start after this id; `None` starts from the beginning.
    pub after: Option<InstanceId>,
    /// How many instances to check.
    pub max: usize,
}

impl ReconcileRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("reconcile", self.max, BATCH_MAX)
    }
}

/// The answer to a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Parents whose count of children was wrong and was repaired, by id. Each is a bug in Outlast
    /// and worth a report.
    pub joins: Vec<InstanceId>,
    /// Instances that waited for a free partition key or an empty window, and were released, by
    /// id. Each is a bug too.
    pub holds: Vec<InstanceId>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// The start of the next page; `None` after the last page.
    pub next: Option<InstanceId>,
}
