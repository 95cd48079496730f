//! Returning the claims of dead workers.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid, QueueNames, WorkerId};

/// What a reaper asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapRequest {
    /// How many claims to return at most.
    pub max: usize,
    /// How often a step may take its worker down before the instance fails (PROTOCOL §3 #14).
    pub crashes_max: i32,
}

impl ReapRequest {
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("reap", self.max, BATCH_MAX)
    }
}

/// The answer to a reap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Returned to their queues, by id.
    pub returned: Vec<InstanceId>,
    /// Failed because they crashed too often, by id.
    pub failed: Vec<InstanceId>,
    /// Workers that were removed because nothing of theirs is left, by id.
    pub removed: Vec<WorkerId>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
    /// Whether children of those that failed are to be told.
    pub cascades: bool,
    /// Whether asking again at once may find more.
    pub more: bool,
}

/// The error of an instance that crashed too often.
pub fn gave_up(crashes: i32, step: &str) -> String {
    format!(
        "gave up: step {step} took its worker down {crashes} times in a row; mend it, then retry the instance"
    )
}
