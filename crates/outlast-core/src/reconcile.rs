//! Looking for what should not exist: parks and holds that nothing would ever end.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, QueueNames};

/// What a reconciler asks for: one page of instances, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileRequest {
    /// Start after this id; `None` starts from the beginning.
    pub after: Option<InstanceId>,
    /// How many instances to look at.
    pub max: usize,
}

impl ReconcileRequest {
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("reconcile", self.max, BATCH_MAX)
    }
}

/// The answer to a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Parents whose count of children did not fit and was mended, by id. Finding one is a fault of
    /// this software and worth a report.
    pub joins: Vec<InstanceId>,
    /// Instances held behind a partition key that nobody uses, or for a place in a window in which nobody runs, freed,
    /// by id. Likewise a fault.
    pub holds: Vec<InstanceId>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// Where the next page starts; `None` when this was the last.
    pub next: Option<InstanceId>,
}
