//! Decodes rows into the contract's types. Every verb that reads rows uses it.
//!
//! A column that does not decode is an error of that row, never a panic. Functions that take a row
//! find columns by name; [`Columns`] reads them by position, where that cost would show.

use crate::verbs::effects::ChildPosition;
use outlast_core::{
    Barrier, CancelRequest, Child, ClosePolicy, Event, Instance, InstanceId, JoinProgress, Json,
    Operation, OperationId, Parent, Reply, Revision, SentUpdate, Signal, SignalId, SignalRow,
    Status, Timestamp, Until, UpdateState, View, Worker, WorkerId,
};
use rusqlite::Row;
use rusqlite::types::{FromSql, Type};
use serde::de::DeserializeOwned;
use std::error::Error;
use std::str::FromStr;

/// Decodes a whole instance, for questions.
pub(crate) fn instance(row: &Row<'_>) -> rusqlite::Result<Instance> {
    let guard: Option<String> = row.get("correlation_guard")?;
    let awaits: Option<Vec<String>> = decoded(row, "awaits")?;
    // These statements return the stored word, so `sleeping` is derived here. Statements that do
    // not return `awaits` derive it in SQL.
    let stored: Status = word(row, "status")?;
    Ok(Instance {
        id: InstanceId(row.get("id")?),
        machine: row.get("machine")?,
        version: row.get("machine_version")?,
        step: row.get("step")?,
        state: json(row, "state")?,
        status: stored.derived(awaits.as_ref().is_some_and(|names| !names.is_empty())),
        revision: Revision(row.get("revision")?),
        entered: Revision(row.get("entered_revision")?),
        trace: row.get("trace")?,
        result: optional_json(row, "result")?,
        last_error: row.get("last_error")?,
        queue: row.get("queue")?,
        priority: row.get("priority")?,
        eligible_at: Timestamp(row.get("eligible_at")?),
        attempt: row.get("attempt")?,
        crashes: row.get("crashes")?,
        partition_key: row.get("partition_key")?,
        locked_by: row.get::<_, Option<i64>>("locked_by")?.map(WorkerId),
        awaits,
        await_deadline: optional_timestamp(row, "await_deadline")?,
        needs_all: needs_all(row)?,
        parent: parent(row)?,
        position: row.get("parent_position")?,
        on_parent_close: policy(row, "on_parent_close")?,
        held: row.get("held")?,
        cancel: cancel(row)?,
        round: row.get("round")?,
        run: row.get("run")?,
        events: row.get("events")?,
        joining: joining(row)?,
        children_pending: row.get("children_pending")?,
        barrier: barrier(row)?,
        dropped: list(row, "children_dropped")?,
        correlation_key: row.get("correlation_key")?,
        correlation_scope: decoded(row, "correlation_scope")?,
        holds_key: guard.is_some(),
        timeout_at: optional_timestamp(row, "timeout_at")?,
        run_timeout_at: optional_timestamp(row, "run_timeout_at")?,
        inserted_at: Timestamp(row.get("inserted_at")?),
        updated_at: Timestamp(row.get("updated_at")?),
        finished_at: optional_timestamp(row, "finished_at")?,
    })
}

/// Whether the present park needs all. The stored revision excludes earlier parks.
///
/// A workflow that became runnable instead of parked has the mark at its own revision too, so the
/// status counts as well (docs/decisions/0047).
fn needs_all(row: &Row<'_>) -> rusqlite::Result<bool> {
    let parked: Option<i64> = row.get("needs_all_revision")?;
    let revision: i64 = row.get("revision")?;
    let status: Status = word(row, "status")?;
    Ok(parked == Some(revision) && status.is_parked())
}

/// Decodes a child as its parent sees it.
pub(crate) fn child(row: &Row<'_>) -> rusqlite::Result<Child> {
    Ok(Child {
        id: InstanceId(row.get("id")?),
        round: row.get("parent_round")?,
        position: row.get("parent_position")?,
        on_parent_close: policy(row, "on_parent_close")?,
        // Null: it has no window. False: it has a place.
        held: row.get::<_, Option<bool>>("held")? == Some(true),
        machine: row.get("machine")?,
        version: row.get("machine_version")?,
        run: row.get("run")?,
        status: word(row, "status")?,
        state: json(row, "state")?,
        result: optional_json(row, "result")?,
        last_error: row.get("last_error")?,
        finished_at: optional_timestamp(row, "finished_at")?,
    })
}

/// Decodes a requested cancel, answered or not.
pub(crate) fn cancel(row: &Row<'_>) -> rusqlite::Result<Option<CancelRequest>> {
    let requested_at = optional_timestamp(row, "cancel_requested_at")?;
    let Some(requested_at) = requested_at else {
        return Ok(None);
    };
    Ok(Some(CancelRequest {
        reason: row.get("cancel_reason")?,
        requested_at,
        answered: row.get("cancel_answered")?,
    }))
}

/// Decodes the join sets that a workflow waits for, or has last waited for.
pub(crate) fn joining(row: &Row<'_>) -> rusqlite::Result<Option<Vec<JoinProgress>>> {
    let ranges: Option<Vec<[i32; 4]>> = decoded(row, "joining")?;
    let left: Vec<i32> = list(row, "joining_left")?;
    Ok(ranges.map(|ranges| JoinProgress::stored(&ranges, &left)))
}

/// Decodes the position of a child in its parent's round.
pub(crate) fn child_position(row: &Row<'_>) -> rusqlite::Result<Option<ChildPosition>> {
    let position: Option<i32> = row.get("parent_position")?;
    let place = parent(row)?.zip(position);
    Ok(place.map(|(parent, position)| ChildPosition { parent, position }))
}

/// Decodes the progress of the last fan-out or join; `None` before the first.
fn barrier(row: &Row<'_>) -> rusqlite::Result<Option<Barrier>> {
    let joining: Option<String> = row.get("joining")?;
    if row.get::<_, i32>("round")? == 0 && joining.is_none() {
        return Ok(None);
    }
    Ok(Some(Barrier {
        until: until(row)?,
        window: row.get("join_window")?,
        rest: policy(row, "join_rest")?,
        started: row.get("children_started")?,
        failed: row.get("children_failed")?,
        first_failure: row.get::<_, Option<i64>>("first_failure")?.map(InstanceId),
        joined: optional_word(row, "joined")?,
    }))
}

/// Decodes the condition that wakes a parent that has fanned out.
pub(crate) fn until(row: &Row<'_>) -> rusqlite::Result<Until> {
    let needed: Option<u32> = row.get("join_needs")?;
    let fails_fast: bool = row.get("join_fails_fast")?;
    Ok(match (needed, fails_fast) {
        (Some(needed), _) => Until::Quorum(needed),
        (None, true) => Until::FailFast,
        (None, false) => Until::All,
    })
}

/// Decodes a close policy. The default is stored as null.
pub(crate) fn policy(row: &Row<'_>, column: &str) -> rusqlite::Result<ClosePolicy> {
    Ok(optional_word(row, column)?.unwrap_or_default())
}

/// Encodes a close policy. The default is stored as null.
pub(crate) fn stored(policy: ClosePolicy) -> Option<&'static str> {
    match policy {
        ClosePolicy::Abandon => None,
        ClosePolicy::RequestCancel | ClosePolicy::Terminate => Some(policy.as_str()),
    }
}

/// Decodes an unconsumed signal. Only a tombstone has no payload.
pub(crate) fn signal(row: &Row<'_>) -> rusqlite::Result<Signal> {
    Ok(Signal {
        id: SignalId(row.get("id")?),
        name: row.get("name")?,
        payload: json(row, "payload")?,
        dedup_key: row.get("dedup_key")?,
        wants_reply: row.get("wants_reply")?,
        inserted_at: Timestamp(row.get("inserted_at")?),
    })
}

pub(crate) fn signal_row(row: &Row<'_>) -> rusqlite::Result<SignalRow> {
    Ok(SignalRow {
        id: SignalId(row.get("id")?),
        target: InstanceId(row.get("target_id")?),
        name: row.get("name")?,
        payload: optional_json(row, "payload")?,
        dedup_key: row.get("dedup_key")?,
        wants_reply: row.get("wants_reply")?,
        inserted_at: Timestamp(row.get("inserted_at")?),
        consumed_at: optional_timestamp(row, "consumed_at")?,
    })
}

pub(crate) fn update(row: &Row<'_>) -> rusqlite::Result<SentUpdate> {
    let kind: Option<String> = row.get("reply_kind")?;
    let has_ended: bool = row.get("has_ended")?;
    let state = match kind.as_deref() {
        Some(SentUpdate::ENDED) => UpdateState::Ended,
        Some(_) => UpdateState::Replied(Reply {
            kind: word(row, "reply_kind")?,
            data: json(row, "reply")?,
            at: Timestamp(row.get("replied_at")?),
        }),
        None if has_ended => UpdateState::Ended,
        None => UpdateState::Pending,
    };
    Ok(SentUpdate {
        signal: SignalId(row.get("id")?),
        name: row.get("name")?,
        state,
    })
}

pub(crate) fn worker(row: &Row<'_>) -> rusqlite::Result<Worker> {
    Ok(Worker {
        id: WorkerId(row.get("id")?),
        name: row.get("name")?,
        host: row.get("host")?,
        version: row.get("version")?,
        machines: list(row, "machines")?,
        queues: list(row, "queues")?,
        started_at: Timestamp(row.get("started_at")?),
        heartbeat_at: Timestamp(row.get("heartbeat_at")?),
        lease_expires_at: Timestamp(row.get("lease_expires_at")?),
    })
}

pub(crate) fn operation(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        id: OperationId(row.get("id")?),
        verb: word(row, "verb")?,
        instance: row.get::<_, Option<i64>>("instance_id")?.map(InstanceId),
        queue: row.get("queue")?,
        by: row.get("operator")?,
        reason: row.get("reason")?,
        cause: row.get::<_, Option<i64>>("cause_id")?.map(InstanceId),
        status_before: optional_word(row, "status_before")?,
        at: Timestamp(row.get("at")?),
    })
}

pub(crate) fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        run: row.get("run")?,
        seq: row.get("seq")?,
        at: Timestamp(row.get("at")?),
        kind: word(row, "kind")?,
        call: row.get("call")?,
        name: row.get("name")?,
        data: json(row, "data")?,
    })
}

pub(crate) fn view(row: &Row<'_>) -> rusqlite::Result<View> {
    Ok(View {
        name: row.get("name")?,
        revision: Revision(row.get("revision")?),
        at: Timestamp(row.get("at")?),
        data: json(row, "data")?,
    })
}

pub(crate) fn parent(row: &Row<'_>) -> rusqlite::Result<Option<Parent>> {
    let id: Option<i64> = row.get("parent_id")?;
    let round: Option<i32> = row.get("parent_round")?;
    Ok(id
        .map(InstanceId)
        .zip(round)
        .map(|(id, round)| Parent { id, round }))
}

/// Reads the columns of a row in the order of the statement.
///
/// For the hot path: looking a column up by name would take longer than reading it.
///
/// A column that is added to such a statement must be read here in the same place, or every later
/// column shifts. The statements are those of `verbs/claim.rs` and `verbs/commit/fenced_row.rs`.
pub(crate) struct Columns<'a, 's> {
    row: &'a Row<'s>,
    read: usize,
}

impl<'a, 's> Columns<'a, 's> {
    pub(crate) fn of(row: &'a Row<'s>) -> Columns<'a, 's> {
        Columns { row, read: 0 }
    }

    pub(crate) fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.row.get(self.read);
        self.read += 1;
        value
    }

    /// Reads a text without copying it.
    pub(crate) fn next_str(&mut self) -> rusqlite::Result<&'a str> {
        let position = self.read;
        self.read += 1;
        let value = self.row.get_ref(position)?;
        value.as_str().map_err(|error| conversion(position, error))
    }

    pub(crate) fn next_json(&mut self) -> rusqlite::Result<Json> {
        let text = self.next()?;
        Json::stored(text).map_err(|error| conversion(self.read - 1, error))
    }

    /// Reads the position of a child in its parent's round.
    pub(crate) fn next_child_position(&mut self) -> rusqlite::Result<Option<ChildPosition>> {
        let (parent, position): (Option<Parent>, Option<i32>) = (self.next_parent()?, self.next()?);
        let place = parent.zip(position);
        Ok(place.map(|(parent, position)| ChildPosition { parent, position }))
    }

    pub(crate) fn next_parent(&mut self) -> rusqlite::Result<Option<Parent>> {
        let (id, round): (Option<i64>, Option<i32>) = (self.next()?, self.next()?);
        Ok(id.zip(round).map(|(id, round)| Parent {
            id: InstanceId(id),
            round,
        }))
    }

    /// Reads a requested cancel, answered or not.
    pub(crate) fn next_cancel(&mut self) -> rusqlite::Result<Option<CancelRequest>> {
        let (requested_at, reason): (Option<i64>, Option<String>) = (self.next()?, self.next()?);
        let answered = self.next()?;
        Ok(requested_at.zip(reason).map(|(at, reason)| CancelRequest {
            reason,
            requested_at: Timestamp(at),
            answered,
        }))
    }

    /// Reads an enum that is stored as a word, or null.
    pub(crate) fn next_word<T>(&mut self) -> rusqlite::Result<Option<T>>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        let position = self.read;
        let word: Option<String> = self.next()?;
        word.map(|word| word.parse())
            .transpose()
            .map_err(|error| conversion(position, error))
    }

    /// Reads a list stored as JSON. Null is an empty list.
    pub(crate) fn next_list<T: DeserializeOwned>(&mut self) -> rusqlite::Result<Vec<T>> {
        let position = self.read;
        self.read += 1;
        match self.row.get_ref(position)?.as_str_or_null() {
            // Most rows have an empty list, which needs no parser.
            Ok(None | Some("[]")) => Ok(Vec::new()),
            Ok(Some(text)) => {
                serde_json::from_str(text).map_err(|error| conversion(position, error))
            }
            Err(error) => Err(conversion(position, error)),
        }
    }
}

/// Makes the error of a column that cannot be decoded.
///
/// [`Fault::unreadable_row`](crate::error::Fault::unreadable_row) recognises it by its kind.
fn conversion(position: usize, error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(position, Type::Text, Box::new(error))
}

/// Decodes an enum that is stored as a word, such as a status or a verb.
pub(crate) fn word<T>(row: &Row<'_>, column: &str) -> rusqlite::Result<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let word: String = row.get(column)?;
    word.parse().map_err(|error| unreadable(row, column, error))
}

fn optional_word<T>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let word: Option<String> = row.get(column)?;
    word.map(|word| word.parse())
        .transpose()
        .map_err(|error| unreadable(row, column, error))
}

/// Decodes a count, which no statement returns below zero.
pub(crate) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}

/// Decodes a JSON document.
///
/// Checks its syntax and not its limits: a document of an older version must stay readable.
pub(crate) fn json(row: &Row<'_>, column: &str) -> rusqlite::Result<Json> {
    Json::stored(row.get(column)?).map_err(|error| unreadable(row, column, error))
}

/// Decodes a list stored as JSON. Null is an empty list.
pub(crate) fn list<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Vec<T>> {
    Ok(decoded(row, column)?.unwrap_or_default())
}

pub(crate) fn decoded<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| unreadable(row, column, error))
}

fn optional_json(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Json>> {
    let text: Option<String> = row.get(column)?;
    text.map(Json::stored)
        .transpose()
        .map_err(|error| unreadable(row, column, error))
}

fn optional_timestamp(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

fn unreadable(
    row: &Row<'_>,
    column: &str,
    error: impl Error + Send + Sync + 'static,
) -> rusqlite::Error {
    let position = row.as_ref().column_index(column).unwrap_or_default();
    conversion(position, error)
}
