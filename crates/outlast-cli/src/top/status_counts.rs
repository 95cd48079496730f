//! Counts every instance by status, one slice of the table at a time.

use outlast::store::Error;
use outlast::{Client, InstanceId, Status};
use outlast_core::limits::STEP_COUNT_MAX;
use outlast_core::{StepCountRequest, StepCounts};
use std::collections::BTreeMap;

/// The maximum number of slices per update. A large table takes several updates, and none takes
/// long.
const SLICES_PER_LOOK: usize = 5;

/// The counts of the last complete pass over the table, and of the current one.
#[derive(Debug, Default)]
pub(super) struct StatusCounts {
    complete: Option<BTreeMap<Status, u64>>,
    under_way: BTreeMap<Status, u64>,
    after: Option<InstanceId>,
}

/// The number of instances by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) by_status: BTreeMap<Status, u64>,
    /// Whether all were counted; otherwise the counts are lower bounds.
    pub(super) complete: bool,
}

impl StatusCounts {
    /// Reads the next slices.
    pub(super) async fn look(&mut self, client: &Client) -> Result<Counts, Error> {
        for _ in 0..SLICES_PER_LOOK {
            let request = StepCountRequest {
                after: self.after,
                limit: STEP_COUNT_MAX,
            };
            let slice = client.admin().count_by_step(request).await?;
            if self.add(slice) {
                break;
            }
        }
        Ok(self.counts())
    }

    /// Adds a slice. Returns whether it was the last of its pass.
    fn add(&mut self, slice: StepCounts) -> bool {
        for group in slice.groups {
            *self.under_way.entry(group.status).or_default() += group.instances;
        }
        self.after = slice.next;
        let is_last = slice.next.is_none();
        if is_last {
            self.complete = Some(std::mem::take(&mut self.under_way));
        }
        is_last
    }

    fn counts(&self) -> Counts {
        match &self.complete {
            Some(complete) => Counts {
                by_status: complete.clone(),
                complete: true,
            },
            None => Counts {
                by_status: self.under_way.clone(),
                complete: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast::store::Timestamp;
    use outlast_core::StepCount;

    fn slice(status: Status, instances: u64, next: Option<i64>) -> StepCounts {
        StepCounts {
            groups: vec![StepCount {
                machine: "checkout".into(),
                version: 1,
                step: "start".into(),
                status,
                instances,
                without_deadline: 0,
                overdue: 0,
                retrying: 0,
                blocked: 0,
                oldest_updated_at: Timestamp(0),
            }],
            next: next.map(InstanceId),
        }
    }

    #[test]
    fn counts_are_replaced_when_a_pass_is_complete() {
        let mut status_counts = StatusCounts::default();
        assert!(!status_counts.add(slice(Status::Done, 20_000, Some(20_000))));
        assert!(!status_counts.counts().complete);
        assert_eq!(status_counts.counts().by_status[&Status::Done], 20_000);
        assert!(status_counts.add(slice(Status::Done, 5, None)));
        assert!(status_counts.counts().complete);
        assert_eq!(status_counts.counts().by_status[&Status::Done], 20_005);
        // The counts of the next pass appear only when it is complete.
        assert!(!status_counts.add(slice(Status::Failed, 7, Some(1))));
        assert_eq!(status_counts.counts().by_status[&Status::Done], 20_005);
        assert!(status_counts.add(slice(Status::Failed, 1, None)));
        assert_eq!(
            status_counts.counts().by_status,
            [(Status::Failed, 8)].into()
        );
    }
}
