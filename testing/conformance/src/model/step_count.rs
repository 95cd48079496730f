//! Counts all instances by step, and the children of one instance.

use super::Tables;
use outlast_core::{
    BLOCKED, Instance, InstanceId, NO_PROGRESS, OVERDUE_AFTER, RETRIES_ALARMING, Result,
    RoundSummary, Status, StepCount, StepCountRequest, StepCounts, Timestamp, limits,
};
use std::collections::BTreeMap;

impl Tables {
    pub(super) fn count_by_step(
        &self,
        request: StepCountRequest,
        now: Timestamp,
    ) -> Result<StepCounts> {
        request
            .check()
            .map_err(|invalid| invalid.during("count_by_step"))?;
        let rows = self.instances.values();
        let slice = rows
            .filter(|row| Some(row.id) > request.after)
            .take(request.limit);
        let mut groups: BTreeMap<_, StepCount> = BTreeMap::new();
        let mut last = None;
        for row in slice {
            let key = (&row.machine, row.version, &row.step, row.status);
            let group = groups.entry(key).or_insert_with(|| empty_count(row));
            count(group, row, now);
            last = Some(row.id);
        }
        Ok(StepCounts::of(
            groups.into_values().collect(),
            last,
            request.limit,
        ))
    }

    pub(super) fn rounds(&self, id: InstanceId) -> Vec<RoundSummary> {
        let children = self.instances.values();
        let children = children.filter_map(|row| {
            let parent = row.parent.filter(|parent| parent.id == id)?;
            Some((parent.round, row.status))
        });
        let mut newest_first: Vec<(i32, Status)> = children.collect();
        newest_first.sort_by_key(|(round, _)| -round);
        newest_first.truncate(limits::COUNT_MAX as usize);
        let mut counts: BTreeMap<(i32, Status), u64> = BTreeMap::new();
        for child in newest_first {
            *counts.entry(child).or_default() += 1;
        }
        let counts = counts.into_iter();
        RoundSummary::of(
            counts
                .map(|((round, status), n)| (round, status, n))
                .collect(),
        )
    }
}

fn empty_count(row: &Instance) -> StepCount {
    StepCount {
        machine: row.machine.clone(),
        version: row.version,
        step: row.step.clone(),
        status: row.status,
        instances: 0,
        without_deadline: 0,
        overdue: 0,
        retrying: 0,
        blocked: 0,
        oldest_updated_at: row.updated_at,
    }
}

fn count(group: &mut StepCount, row: &Instance, now: Timestamp) {
    let waits = matches!(row.status, Status::AwaitingSignal | Status::Sleeping);
    let works = matches!(row.status, Status::Runnable | Status::Executing);
    let is_overdue = |deadline: Timestamp| deadline < now - OVERDUE_AFTER;
    let error = row.last_error.as_deref().unwrap_or_default();
    let is_blocked = row.events > 0 && error.starts_with(BLOCKED) || error.starts_with(NO_PROGRESS);
    group.instances += 1;
    group.without_deadline += u64::from(waits && row.await_deadline.is_none());
    group.overdue += u64::from(waits && row.await_deadline.is_some_and(is_overdue));
    group.retrying += u64::from(works && row.attempt >= RETRIES_ALARMING);
    group.blocked += u64::from(works && is_blocked);
    group.oldest_updated_at = group.oldest_updated_at.min(row.updated_at);
}
