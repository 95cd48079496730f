//! Counts of all instances by step, slice by slice, and of the children of one instance.
//!
//! The dashboard calls this while it is open. No counters are stored: they would cost every claim
//! and commit (docs/decisions/0025). A slice is one short statement, so no snapshot stays open.

use crate::decode::{column, status, time};
use crate::inspect::ask_planned;
use crate::session::Session;
use crate::session::statement::{self, value};
use outlast_core::limits::COUNT_MAX;
use outlast_core::{
    BLOCKED, Family, InstanceId, NO_PROGRESS, OVERDUE_AFTER, RETRIES_ALARMING, Result,
    RoundSummary, Status, StepCount, StepCountRequest, StepCounts, micros,
};

pub(crate) async fn count_by_step(
    session: &Session,
    request: StepCountRequest,
) -> Result<StepCounts> {
    request
        .check()
        .map_err(|invalid| invalid.during("count_by_step"))?;
    let call = statement::INSPECT_COUNT_BY_STEP.with([
        value(request.after.map_or(i64::MIN, |id| id.0)),
        value(request.limit as i64),
        value(micros(OVERDUE_AFTER)),
        value(RETRIES_ALARMING),
        value(BLOCKED),
        value(NO_PROGRESS),
    ]);
    let rows = ask_planned(session, "count_by_step", call, |row| {
        let counted = StepCount {
            machine: column(row, "machine")?,
            version: column(row, "machine_version")?,
            step: column(row, "step")?,
            status: status(row, "status")?,
            instances: column::<i64>(row, "instances")?.unsigned_abs(),
            without_deadline: column::<i64>(row, "without_deadline")?.unsigned_abs(),
            overdue: column::<i64>(row, "overdue")?.unsigned_abs(),
            retrying: column::<i64>(row, "retrying")?.unsigned_abs(),
            blocked: column::<i64>(row, "blocked")?.unsigned_abs(),
            oldest_updated_at: time(row, "oldest_updated_at")?,
        };
        Ok((counted, column(row, "last").map(InstanceId)?))
    });
    let (groups, last): (Vec<_>, Vec<_>) = rows.await?.into_iter().unzip();
    Ok(StepCounts::of(
        groups,
        last.into_iter().max(),
        request.limit,
    ))
}

pub(crate) async fn rounds(session: &Session, id: InstanceId) -> Result<Vec<RoundSummary>> {
    let call = statement::INSPECT_ROUNDS.with([value(id.0), value(COUNT_MAX as i64)]);
    let counts = ask_planned(session, "rounds", call, |row| {
        let children = column::<i64>(row, "children")?.unsigned_abs();
        Ok((
            column(row, "parent_round")?,
            status(row, "status")?,
            children,
        ))
    });
    Ok(RoundSummary::of(counts.await?))
}

pub(crate) async fn family(session: &Session, id: InstanceId) -> Result<Option<Family>> {
    let call = statement::INSPECT_FAMILY.with([value(id.0), value(COUNT_MAX as i64)]);
    let counts = ask_planned(session, "family", call, |row| {
        let members = column::<i64>(row, "members")?.unsigned_abs();
        Ok((
            status(row, "status")?,
            members,
            column::<bool>(row, "is_cut")?,
        ))
    });
    let mut counts = counts.await?;
    counts.sort_by_key(|(status, ..)| Status::ALL.iter().position(|known| known == status));
    let complete = counts.iter().all(|(_, _, is_cut)| !is_cut);
    let members = counts.into_iter().filter(|(_, members, _)| *members > 0);
    let members: Vec<(Status, u64)> = members
        .map(|(status, members, _)| (status, members))
        .collect();
    Ok((!members.is_empty()).then_some(Family { members, complete }))
}
