//! Removing what ended long ago.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid};
use std::time::Duration;

/// What a collector asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectRequest {
    /// How long an ended instance is kept.
    pub retention: Duration,
    /// How many to remove at most.
    pub max: usize,
}

impl CollectRequest {
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_delay("retention", self.retention)?;
        limits::check_batch("collect", self.max, BATCH_MAX)
    }
}

/// The answer to a collect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// What was removed, earliest end first.
    pub removed: Vec<InstanceId>,
    /// Whether asking again at once may remove more.
    pub more: bool,
}
