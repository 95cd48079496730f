//! Counts by machine, step and status: the request and answer of `count_by_step`.
//!
//! A caller walks the table in slices, so that no query reads the whole table at once.

use crate::limits::{self, STEP_COUNT_MAX};
use crate::{InstanceId, Invalid, Status, Timestamp};
use std::time::Duration;

/// Retries from which a step counts as making no progress.
pub const RETRIES_ALARMING: i32 = 5;
/// How long a deadline may be past before it counts as overdue. Timers fire when they are due, so
/// a delay of this size is a fault.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(10);

/// The slice to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCountRequest {
    /// The end of the previous slice; `None` starts from the beginning.
    pub after: Option<InstanceId>,
    /// How many instances to read, at most [`STEP_COUNT_MAX`].
    pub limit: usize,
}

impl StepCountRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("count_by_step", self.limit, STEP_COUNT_MAX)
    }
}

/// The counts of one slice of instances, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// The counts, in the order of the fields.
    pub groups: Vec<StepCount>,
    /// The start of the next slice; `None` at the end of the table.
    pub next: Option<InstanceId>,
}

impl StepCounts {
    /// Sorts the counts of a store.
    ///
    /// `last` is the last instance of the slice, `limit` its requested size.
    pub fn of(mut groups: Vec<StepCount>, last: Option<InstanceId>, limit: usize) -> StepCounts {
        groups.sort_by(|a, b| a.place().cmp(&b.place()));
        let seen: u64 = groups.iter().map(|group| group.instances).sum();
        let is_full = seen >= limit as u64;
        StepCounts {
            groups,
            next: last.filter(|_| is_full),
        }
    }
}

/// A count of instances with the same machine, version, step and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCount {
    /// The machine.
    pub machine: String,
    /// Its version.
    pub version: i32,
    /// The step; for finished instances the last one.
    pub step: String,
    /// The status.
    pub status: Status,
    /// How many.
    pub instances: u64,
    /// Instances that wait for a signal without a deadline.
    pub without_deadline: u64,
    /// Instances that wait for a signal or sleep, and should have been woken more than
    /// [`OVERDUE_AFTER`] ago.
    pub overdue: u64,
    /// Runnable and executing instances that were retried [`RETRIES_ALARMING`] times or more.
    pub retrying: u64,
    /// Runnable and executing instances that are blocked.
    ///
    /// The error of a workflow whose code does not fit its history begins with
    /// [`BLOCKED`](crate::BLOCKED). The error of an instance that commits without progress begins
    /// with [`NO_PROGRESS`](crate::NO_PROGRESS). Errors that a codec has encoded are not counted.
    pub blocked: u64,
    /// The earliest last change of these instances.
    pub oldest_updated_at: Timestamp,
}

impl StepCount {
    /// Returns the key of the count: machine, version, step and status.
    pub fn place(&self) -> (&str, i32, &str, Status) {
        (&self.machine, self.version, &self.step, self.status)
    }

    /// Adds a count with the same key, from another slice.
    pub fn add(&mut self, more: &StepCount) {
        self.instances += more.instances;
        self.without_deadline += more.without_deadline;
        self.overdue += more.overdue;
        self.retrying += more.retrying;
        self.blocked += more.blocked;
        self.oldest_updated_at = self.oldest_updated_at.min(more.oldest_updated_at);
    }
}

/// The children of one round of an instance, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundSummary {
    /// The round, from 1.
    pub round: i32,
    /// The count of each status, in the order of the statuses; zero counts are left out.
    pub children: Vec<(Status, u64)>,
}

impl RoundSummary {
    /// Groups counts of (round, status, children) by round. They may come in any order.
    pub fn of(mut counts: Vec<(i32, Status, u64)>) -> Vec<RoundSummary> {
        counts.sort_unstable();
        let rounds = counts.chunk_by(|one, next| one.0 == next.0);
        let summary = |counts: &[(i32, Status, u64)]| RoundSummary {
            round: counts[0].0,
            children: counts.iter().map(|&(_, status, n)| (status, n)).collect(),
        };
        rounds.map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_count(machine: &str, status: Status, instances: u64) -> StepCount {
        StepCount {
            machine: machine.into(),
            version: 1,
            step: "start".into(),
            status,
            instances,
            without_deadline: 0,
            overdue: 0,
            retrying: 0,
            blocked: 0,
            oldest_updated_at: Timestamp(0),
        }
    }

    #[test]
    fn only_a_full_slice_returns_where_to_continue() {
        let groups = vec![
            step_count("b", Status::Runnable, 1),
            step_count("a", Status::Failed, 1),
            step_count("a", Status::Done, 1),
        ];
        let last = Some(InstanceId(7));
        let full = StepCounts::of(groups.clone(), last, 3);
        assert_eq!(full.next, last);
        let places: Vec<_> = full.groups.iter().map(StepCount::place).collect();
        assert_eq!(places[0], ("a", 1, "start", Status::Done));
        assert_eq!(places[1], ("a", 1, "start", Status::Failed));
        assert_eq!(StepCounts::of(groups, last, 4).next, None);
    }

    #[test]
    fn counts_of_children_are_grouped_by_round() {
        let counts = vec![
            (2, Status::Done, 5),
            (1, Status::Failed, 1),
            (1, Status::Done, 3),
        ];
        let rounds = RoundSummary::of(counts);
        let first = vec![(Status::Done, 3), (Status::Failed, 1)];
        assert_eq!((rounds[0].round, &rounds[0].children), (1, &first));
        assert_eq!(rounds[1].children, [(Status::Done, 5)]);
    }
}
