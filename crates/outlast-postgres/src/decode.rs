//! Converting rows into the types of outlast-core. No statement is sent from here.
//!
//! Every verb and query reads its answers through this file. A value that does not fit is an error
//! and never a panic. A row may have been changed by hand, and the table has few checks
//! (docs/decisions/0020). Columns are read by name, so their order in a statement is free.

use crate::error::Failure;
use outlast_core::{
    Barrier, CancelRequest, Child, Claim, ClaimRef, ClosePolicy, DroppedChild, Error, Instance,
    InstanceId, JoinProgress, Joined, Json, Parent, Reply, Revision, Scope, SentUpdate, Signal,
    SignalId, SignalRow, Status, Timestamp, Until, UpdateState, WorkerId,
};
use std::time::{Duration, SystemTime};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Reads one column. A value of another type is reported as corrupt, with the column's name.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, Failure> {
    row.try_get(name).map_err(|error| {
        Failure::Verb(Error::Corrupt {
            operation: "read",
            reason: format!("column {name} does not read as expected: {error}"),
            source: Some(error.into()),
        })
    })
}

pub(crate) fn instance_id(row: &Row) -> Result<InstanceId, Failure> {
    column(row, "id").map(InstanceId)
}

pub(crate) fn claim_of(row: &Row) -> Result<ClaimRef, Failure> {
    Ok(ClaimRef {
        id: instance_id(row)?,
        revision: column(row, "revision").map(Revision)?,
    })
}

/// Returns the claim under which a row was changed. The change added one to the revision.
pub(crate) fn claim_before(row: &Row) -> Result<ClaimRef, Failure> {
    Ok(ClaimRef {
        id: instance_id(row)?,
        revision: Revision(column::<i64>(row, "revision")? - 1),
    })
}

pub(crate) fn json(row: &Row, name: &str) -> Result<Json, Failure> {
    Ok(Json::stored(column(row, name)?)?)
}

pub(crate) fn optional_json(row: &Row, name: &str) -> Result<Option<Json>, Failure> {
    column::<Option<String>>(row, name)?
        .map(|text| Json::stored(text).map_err(Failure::from))
        .transpose()
}

pub(crate) fn status(row: &Row, name: &str) -> Result<Status, Failure> {
    Ok(column::<String>(row, name)?.parse()?)
}

pub(crate) fn time(row: &Row, name: &str) -> Result<Timestamp, Failure> {
    column::<SystemTime>(row, name).map(Timestamp::from)
}

pub(crate) fn optional_time(row: &Row, name: &str) -> Result<Option<Timestamp>, Failure> {
    Ok(column::<Option<SystemTime>>(row, name)?.map(Timestamp::from))
}

/// Converts microseconds to a duration. A negative number becomes zero: the moment has passed.
pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Reads a claim without its inbox and children. The claim loads them later if there are any.
///
/// claim/claim.sql answers null for usual values, which costs nothing on the wire: run 1, no
/// events, no cancel. deliver/taken.sql answers the values themselves.
pub(crate) fn claim(row: &Row, queue: &str, now: SystemTime) -> Result<Claim, Failure> {
    Ok(Claim {
        id: instance_id(row)?,
        revision: column(row, "revision").map(Revision)?,
        machine: column(row, "machine")?,
        version: column(row, "machine_version")?,
        step: column(row, "step")?,
        state: json(row, "state")?,
        queue: queue.to_owned(),
        priority: column(row, "priority")?,
        entered: column(row, "entered_revision").map(Revision)?,
        trace: column(row, "trace")?,
        attempt: column(row, "attempt")?,
        crashes: column(row, "crashes")?,
        partition_key: column(row, "partition_key")?,
        correlation_key: column(row, "correlation_key")?,
        parent: parent(row)?,
        position: column(row, "parent_position")?,
        round: column(row, "round")?,
        run: column::<Option<i32>>(row, "run")?.unwrap_or(1),
        events: column::<Option<i32>>(row, "events")?.unwrap_or(0),
        awaits: column::<Option<Vec<String>>>(row, "awaits")?.unwrap_or_default(),
        inbox: Vec::new(),
        children: Vec::new(),
        dropped: dropped(row)?,
        joined: joined(row)?,
        first_failure: column::<Option<i64>>(row, "first_failure")?.map(InstanceId),
        cancel: cancel(row)?,
        windowed: column::<Option<bool>>(row, "held")?.is_some(),
        waited: waited(row, now)?,
        claimed_at: Some(now.into()),
    })
}

/// Returns how long the row has been eligible.
fn waited(row: &Row, now: SystemTime) -> Result<Duration, Failure> {
    let eligible_at: SystemTime = column(row, "eligible_at")?;
    Ok(now.duration_since(eligible_at).unwrap_or_default())
}

pub(crate) fn signal(row: &Row) -> Result<Signal, Failure> {
    Ok(Signal {
        id: column(row, "id").map(SignalId)?,
        name: column(row, "name")?,
        payload: json(row, "payload")?,
        dedup_key: column(row, "dedup_key")?,
        wants_reply: column(row, "wants_reply")?,
        inserted_at: time(row, "inserted_at")?,
    })
}

pub(crate) fn signal_row(row: &Row) -> Result<SignalRow, Failure> {
    Ok(SignalRow {
        id: column(row, "id").map(SignalId)?,
        target: column(row, "target_id").map(InstanceId)?,
        name: column(row, "name")?,
        payload: optional_json(row, "payload")?,
        dedup_key: column(row, "dedup_key")?,
        wants_reply: column(row, "wants_reply")?,
        inserted_at: time(row, "inserted_at")?,
        consumed_at: optional_time(row, "consumed_at")?,
    })
}

pub(crate) fn update(row: &Row) -> Result<SentUpdate, Failure> {
    let kind: Option<&str> = column(row, "reply_kind")?;
    let has_ended: bool = column(row, "has_ended")?;
    let state = match kind {
        Some(SentUpdate::ENDED) => UpdateState::Ended,
        Some(kind) => UpdateState::Replied(Reply {
            kind: kind.parse()?,
            data: json(row, "reply")?,
            at: time(row, "replied_at")?,
        }),
        None if has_ended => UpdateState::Ended,
        None => UpdateState::Pending,
    };
    Ok(SentUpdate {
        signal: column(row, "id").map(SignalId)?,
        name: column(row, "name")?,
        state,
    })
}

/// Reads a child. A child of an older schema has no position and gets `unplaced`.
///
/// The statements derive `sleeping`, since they do not answer the awaited names of a child.
pub(crate) fn child(row: &Row, unplaced: i32) -> Result<Child, Failure> {
    Ok(Child {
        id: instance_id(row)?,
        round: column(row, "parent_round")?,
        position: column::<Option<i32>>(row, "parent_position")?.unwrap_or(unplaced),
        on_parent_close: close_policy(row, "on_parent_close")?,
        held: column::<Option<bool>>(row, "held")?.unwrap_or(false),
        machine: column(row, "machine")?,
        version: column(row, "machine_version")?,
        run: column(row, "run")?,
        status: status(row, "status")?,
        state: json(row, "state")?,
        result: optional_json(row, "result")?,
        last_error: column(row, "last_error")?,
        finished_at: optional_time(row, "finished_at")?,
    })
}

pub(crate) fn instance(row: &Row) -> Result<Instance, Failure> {
    let awaits: Option<Vec<String>> = column(row, "awaits")?;
    // `sleeping` is not stored: it is a wait without names.
    let awaits_names = awaits.as_ref().is_some_and(|names| !names.is_empty());
    Ok(Instance {
        id: instance_id(row)?,
        machine: column(row, "machine")?,
        version: column(row, "machine_version")?,
        step: column(row, "step")?,
        state: json(row, "state")?,
        status: status(row, "status")?.derived(awaits_names),
        revision: column(row, "revision").map(Revision)?,
        entered: column(row, "entered_revision").map(Revision)?,
        trace: column(row, "trace")?,
        result: optional_json(row, "result")?,
        last_error: column(row, "last_error")?,
        queue: column(row, "queue")?,
        priority: column(row, "priority")?,
        eligible_at: time(row, "eligible_at")?,
        attempt: column(row, "attempt")?,
        crashes: column(row, "crashes")?,
        partition_key: column(row, "partition_key")?,
        locked_by: column::<Option<i64>>(row, "locked_by")?.map(WorkerId),
        awaits,
        await_deadline: optional_time(row, "await_deadline")?,
        needs_all: needs_all(row)?,
        parent: parent(row)?,
        position: column(row, "parent_position")?,
        on_parent_close: close_policy(row, "on_parent_close")?,
        held: column(row, "held")?,
        cancel: cancel(row)?,
        round: column(row, "round")?,
        run: column(row, "run")?,
        events: column(row, "events")?,
        joining: joining(row)?,
        children_pending: column(row, "children_pending")?,
        barrier: barrier(row)?,
        dropped: dropped(row)?,
        correlation_key: column(row, "correlation_key")?,
        correlation_scope: scope(row)?,
        holds_key: column(row, "holds_key")?,
        timeout_at: optional_time(row, "timeout_at")?,
        run_timeout_at: optional_time(row, "run_timeout_at")?,
        inserted_at: time(row, "inserted_at")?,
        updated_at: time(row, "updated_at")?,
        finished_at: optional_time(row, "finished_at")?,
    })
}

/// Returns whether the current park needs all. The flag of an earlier park does not count.
///
/// No verb clears the flag. It is void at any other revision (docs/decisions/0047).
fn needs_all(row: &Row) -> Result<bool, Failure> {
    let parked = column::<Option<i64>>(row, "needs_all_revision")?;
    let revision = column::<i64>(row, "revision")?;
    Ok(parked == Some(revision) && status(row, "status")?.is_parked())
}

fn parent(row: &Row) -> Result<Option<Parent>, Failure> {
    let id: Option<i64> = column(row, "parent_id")?;
    let round: Option<i32> = column(row, "parent_round")?;
    Ok(id.zip(round).map(|(id, round)| Parent {
        id: InstanceId(id),
        round,
    }))
}

/// Reads a close policy. Null stands for `Abandon`.
pub(crate) fn close_policy(row: &Row, name: &str) -> Result<ClosePolicy, Failure> {
    match column::<Option<&str>>(row, name)? {
        Some(word) => Ok(word.parse()?),
        None => Ok(ClosePolicy::Abandon),
    }
}

fn joined(row: &Row) -> Result<Option<Joined>, Failure> {
    let word: Option<&str> = column(row, "joined")?;
    Ok(word.map(str::parse).transpose()?)
}

fn cancel(row: &Row) -> Result<Option<CancelRequest>, Failure> {
    let answered = column::<Option<bool>>(row, "cancel_answered")?.unwrap_or(false);
    Ok(pending_cancel(row)?.map(|cancel| CancelRequest { answered, ..cancel }))
}

/// Reads the cancel of a statement that returns unanswered cancels only.
pub(crate) fn pending_cancel(row: &Row) -> Result<Option<CancelRequest>, Failure> {
    let Some(requested_at) = optional_time(row, "cancel_requested_at")? else {
        return Ok(None);
    };
    Ok(Some(CancelRequest {
        reason: column::<Option<String>>(row, "cancel_reason")?.unwrap_or_default(),
        requested_at,
        answered: false,
    }))
}

/// Reads the join sets that a workflow waits for.
///
/// A workflow that parked before there were join sets has only its rounds. It waits for all of
/// their children.
fn joining(row: &Row) -> Result<Option<Vec<JoinProgress>>, Failure> {
    let Some(rounds) = column::<Option<Vec<i32>>>(row, "joining")? else {
        return Ok(None);
    };
    let numbers = |name| column::<Option<Vec<i32>>>(row, name);
    let sets = numbers("joining_part")?.unwrap_or_default();
    let firsts = numbers("joining_first")?.unwrap_or_default();
    let lasts = numbers("joining_last")?.unwrap_or_default();
    let of = |numbers: &[i32], n: usize, whole| numbers.get(n).copied().unwrap_or(whole);
    let ranges = rounds.iter().enumerate().map(|(n, round)| {
        [
            of(&sets, n, 1),
            *round,
            of(&firsts, n, 0),
            of(&lasts, n, i32::MAX),
        ]
    });
    let ranges: Vec<[i32; 4]> = ranges.collect();
    let left = match numbers("joining_left")? {
        Some(left) => left,
        None if rounds.is_empty() => Vec::new(),
        None => vec![column(row, "children_pending")?],
    };
    Ok(Some(JoinProgress::stored(&ranges, &left)))
}

/// Reads how children are joined; `None` for an instance that has never waited for any.
fn barrier(row: &Row) -> Result<Option<Barrier>, Failure> {
    let joins = column::<Option<Vec<i32>>>(row, "joining")?.is_some();
    if column::<i32>(row, "round")? == 0 && !joins {
        return Ok(None);
    }
    let window: Option<i32> = column(row, "join_window")?;
    Ok(Some(Barrier {
        until: until(row)?,
        window: window.map(i32::unsigned_abs),
        rest: close_policy(row, "join_rest")?,
        started: column(row, "children_started")?,
        failed: column(row, "children_failed")?,
        first_failure: column::<Option<i64>>(row, "first_failure")?.map(InstanceId),
        joined: joined(row)?,
    }))
}

fn until(row: &Row) -> Result<Until, Failure> {
    let needs: Option<i32> = column(row, "join_needs")?;
    Ok(match needs {
        Some(needs) => Until::Quorum(needs.unsigned_abs()),
        None if column(row, "join_fails_fast")? => Until::FailFast,
        None => Until::All,
    })
}

fn dropped(row: &Row) -> Result<Vec<DroppedChild>, Failure> {
    match optional_json(row, "children_dropped")? {
        Some(list) => Ok(list.decode()?),
        None => Ok(Vec::new()),
    }
}

/// Reads the statuses in which the instance holds its key.
fn scope(row: &Row) -> Result<Option<Scope>, Failure> {
    let Some(words) = column::<Option<Vec<String>>>(row, "correlation_scope")? else {
        return Ok(None);
    };
    let statuses = words
        .iter()
        .map(|word| word.parse())
        .collect::<Result<Vec<Status>, _>>()?;
    Ok(Some(Scope::of(statuses)?))
}
