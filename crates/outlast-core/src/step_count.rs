//! Counting everything without reading everything at once: a survey walks the table in slices.

use crate::limits::{self, STEP_COUNT_MAX};
use crate::{InstanceId, Invalid, Status, Timestamp};
use std::time::Duration;

/// How often a step has been retried when it counts as one that does not get on.
pub const RETRIES_ALARMING: i32 = 5;
/// How long a deadline may be past before it counts as overdue: timers fire at the due time, not at a sweep.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(10);

/// Which slice to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCountRequest {
    /// Where the slice before this one ended; `None` begins a new round.
    pub after: Option<InstanceId>,
    /// How many instances to look at, at most [`STEP_COUNT_MAX`].
    pub limit: usize,
}

impl StepCountRequest {
    /// Whether it can be asked.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_batch("count_by_step", self.limit, STEP_COUNT_MAX)
    }
}

/// The instances of one slice, in the order of their ids, counted by where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Where they stand, in the order of the fields.
    pub groups: Vec<StepCount>,
    /// Where to go on; `None` when everything has been seen.
    pub next: Option<InstanceId>,
}

impl StepCounts {
    /// What a store has counted, put in order. `last` is the last instance of the slice, whose `limit` was asked for.
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

/// Instances of one machine's version that stand at the same step with the same status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCount {
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
    /// Of those that wait for a signal or sleep, how many should have been woken more than [`OVERDUE_AFTER`] ago.
    pub overdue: u64,
    /// Of the runnable and executing, how many have been retried [`RETRIES_ALARMING`] times or more.
    pub retrying: u64,
    /// Of the runnable and executing, how many are blocked. The error of a workflow whose code does not fit its history begins
    /// with [`BLOCKED`](crate::BLOCKED); that of any instance that commits without progress begins with
    /// [`CIRCLES`](crate::CIRCLES). What a codec has encoded is not counted.
    pub blocked: u64,
    /// Since when the longest-standing of them has not moved.
    pub oldest_updated_at: Timestamp,
}

impl StepCount {
    /// What its instances have in common.
    pub fn place(&self) -> (&str, i32, &str, Status) {
        (&self.machine, self.version, &self.step, self.status)
    }

    /// Adds instances of the same place, from another slice.
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
    /// How many children of each status are stored, in the order of the statuses; those that there are none of are
    /// left out.
    pub children: Vec<(Status, u64)>,
}

impl RoundSummary {
    /// Puts counts of (round, status, children) together, in any order.
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

    fn standing(machine: &str, status: Status, instances: u64) -> StepCount {
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
    fn a_full_slice_says_where_to_go_on_and_one_that_is_not_does_not() {
        let groups = vec![
            standing("b", Status::Runnable, 1),
            standing("a", Status::Failed, 1),
            standing("a", Status::Done, 1),
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
    fn counts_of_children_are_put_together_by_round() {
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
