//! Wake-ups of waits whose deadline has passed: the answer of `fire`.

use crate::{InstanceId, QueueNames};
use std::time::Duration;

/// The answer to a fire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// The instances that were woken, earliest deadline first.
    pub woken_instances: Vec<InstanceId>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether a join that was decided by its deadline left work for
    /// [`cascade`](crate::Store::cascade).
    pub cascades: bool,
    /// The time until the next deadline; zero when one has already passed.
    pub next_due_in: Option<Duration>,
    /// The time until the next instance times out; zero when
    /// [`time_out`](crate::Store::time_out) has work now.
    pub next_timeout_in: Option<Duration>,
}
