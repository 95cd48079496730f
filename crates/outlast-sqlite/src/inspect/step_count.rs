//! Counts all instances by step, slice by slice, and the family of one instance.
//!
//! No counter is stored, so that commits do not contend for one (docs/decisions/0025). A count
//! reads rows and must have a bound.

use crate::decode;
use crate::error::Fault;
use crate::inspect::{COUNTED_MAX, all};
use crate::tx::Tx;
use outlast_core::limits::COUNT_MAX;
use outlast_core::{
    BLOCKED, Family, InstanceId, NO_PROGRESS, OVERDUE_AFTER, RETRIES_ALARMING, RoundSummary,
    Status, StepCount, StepCountRequest, StepCounts, Timestamp,
};
use rusqlite::{Row, params};
use std::collections::BTreeMap;

const COUNT_BY_STEP: &str = include_str!("../../sql/inspect/instances/count_by_step.sql");
const FAMILY: &str = include_str!("../../sql/inspect/families/family.sql");
const ROUNDS: &str = include_str!("../../sql/inspect/families/rounds.sql");

/// Counts one slice. The caller adds the slices up, and pauses between them.
///
/// Each slice sees its own moment: an instance that moves meanwhile may count twice or not at all.
pub(crate) fn count_by_step(tx: &Tx<'_>, request: StepCountRequest) -> Result<StepCounts, Fault> {
    let after = request.after.map_or(i64::MIN, |id| id.0);
    let overdue_before = tx.now - OVERDUE_AFTER;
    let values = params![
        after,
        request.limit as i64,
        overdue_before.0,
        RETRIES_ALARMING,
        BLOCKED,
        NO_PROGRESS
    ];
    let rows = all(tx, COUNT_BY_STEP, values, |row| {
        Ok((step_count(row)?, InstanceId(row.get("last")?)))
    })?;
    let (groups, last): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    // Each group has its own last id. The next slice begins after the highest of them.
    Ok(StepCounts::of(
        groups,
        last.into_iter().max(),
        request.limit,
    ))
}

fn step_count(row: &Row<'_>) -> rusqlite::Result<StepCount> {
    Ok(StepCount {
        machine: row.get("machine")?,
        version: row.get("machine_version")?,
        step: row.get("step")?,
        status: decode::word(row, "status")?,
        instances: decode::count(row, "instances")?,
        without_deadline: decode::count(row, "without_deadline")?,
        overdue: decode::count(row, "overdue")?,
        retrying: decode::count(row, "retrying")?,
        blocked: decode::count(row, "blocked")?,
        oldest_updated_at: Timestamp(row.get("oldest_updated_at")?),
    })
}

/// Counts an instance and its descendants by status.
///
/// Counts here and not in SQL: the statement returns one row more than the maximum, which shows
/// that the family is larger.
pub(crate) fn family(tx: &Tx<'_>, id: InstanceId) -> Result<Option<Family>, Fault> {
    let statuses = all(tx, FAMILY, params![id.0, COUNTED_MAX], |row| {
        decode::word::<Status>(row, "status")
    })?;
    let complete = statuses.len() as u64 <= COUNT_MAX;
    let mut counts: BTreeMap<Status, u64> = BTreeMap::new();
    for status in statuses.into_iter().take(COUNT_MAX as usize) {
        *counts.entry(status).or_default() += 1;
    }
    let members: Vec<(Status, u64)> = counts.into_iter().collect();
    Ok((!members.is_empty()).then_some(Family { members, complete }))
}

/// Counts the children of an instance by round and status.
///
/// At the maximum the newest rounds are counted, and the oldest are left out.
pub(crate) fn rounds(tx: &Tx<'_>, id: InstanceId) -> Result<Vec<RoundSummary>, Fault> {
    let values = params![id.0, COUNT_MAX as i64];
    let counts = all(tx, ROUNDS, values, |row| {
        let status = decode::word(row, "status")?;
        let children = decode::count(row, "children")?;
        Ok((row.get("parent_round")?, status, children))
    })?;
    Ok(RoundSummary::of(counts))
}
