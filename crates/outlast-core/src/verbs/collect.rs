//! Removal of finished instances after their retention: the request and answer of `collect`.

use crate::limits::{self, BATCH_MAX};
use crate::{InstanceId, Invalid};
use std::time::Duration;

/// A request to remove finished instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectRequest {
    /// How long a finished instance is kept.
    pub retention: Duration,
    /// The largest number of instances.
    pub max: usize,
}

impl CollectRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_delay("retention", self.retention)?;
        limits::check_batch("collect", self.max, BATCH_MAX)
    }
}

/// The answer to a collect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The removed instances, earliest end first.
    pub removed: Vec<InstanceId>,
    /// Whether another request may remove more at once.
    pub more: bool,
}
