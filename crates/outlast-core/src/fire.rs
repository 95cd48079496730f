//! Waking waits whose deadline has come.

use crate::{InstanceId, QueueNames};
use std::time::Duration;

/// The answer to a fire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// The instances that were woken, earliest deadline first.
    pub woken_instances: Vec<InstanceId>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// Whether children are to be told that their join was decided without them.
    pub cascades: bool,
    /// How long until the next deadline; zero when one has already come.
    pub next_due_in: Option<Duration>,
}
