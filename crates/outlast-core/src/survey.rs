//! Counting everything without reading everything at once: a survey walks the table in slices.

use crate::limits::{self, SURVEY_MAX};
use crate::{InstanceId, Invalid, Status, Timestamp};
use std::time::Duration;

/// How often a step has been retried when it counts as one that does not get on.
pub const RETRIES_ALARMING: i32 = 5;
/// How long a deadline may be past before it counts as overdue: timers fire at the due time, not at a sweep.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(10);

/// Which slice to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyRequest {
    /// Where the slice before this one ended; `None` begins a new round.
    pub after: Option<InstanceId>,
    /// How many instances to look at, at most [`SURVEY_MAX`].
    pub limit: usize,
}

impl SurveyRequest {
    /// Whether it can be asked.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("survey", self.limit, SURVEY_MAX)
    }
}

/// The instances of one slice, in the order of their ids, counted by where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Where they stand, in the order of the fields.
    pub groups: Vec<Standing>,
    /// Where to go on; `None` when everything has been seen.
    pub next: Option<InstanceId>,
}

/// Instances of one machine's version that stand at the same step with the same status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The machine.
    pub machine: String,
    /// Its version.
    pub version: i32,
    /// The step; of what has ended, the last one.
    pub step: String,
    /// The status.
    pub status: Status,
    /// How many.
    pub instances: u64,
    /// Of those that wait for a signal, how many have no deadline.
    pub without_deadline: u64,
    /// Of those that wait for a signal, how many should have been woken [`OVERDUE_AFTER`] ago.
    pub overdue: u64,
    /// Of the runnable and executing, how many have been retried [`RETRIES_ALARMING`] times or more.
    pub retrying: u64,
    /// Since when the longest-standing of them has not moved.
    pub oldest_updated_at: Timestamp,
}

/// The children of one round of an instance, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundSummary {
    /// The round, from 1.
    pub round: i32,
    /// How many children of each status are stored, in the order of the statuses; those that there are none of are
    /// left out.
    pub children: Vec<(Status, u64)>,
}
