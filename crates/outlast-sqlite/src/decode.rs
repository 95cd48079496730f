//! From columns to the contract's types.

use outlast_core::{
    Child, Instance, InstanceId, Json, Operation, Parent, Revision, Signal, SignalId, SignalRow,
    Status, Timestamp, Worker, WorkerId,
};
use rusqlite::Row;
use rusqlite::types::{FromSql, Type};
use serde::de::DeserializeOwned;
use std::error::Error;
use std::str::FromStr;

pub(crate) fn instance(row: &Row<'_>) -> rusqlite::Result<Instance> {
    let guard: Option<String> = row.get("correlation_guard")?;
    Ok(Instance {
        id: InstanceId(row.get("id")?),
        machine: row.get("fsm")?,
        version: row.get("fsm_version")?,
        step: row.get("step")?,
        state: json(row, "state")?,
        status: word(row, "status")?,
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
        awaits: decoded(row, "awaits")?,
        await_deadline: optional_timestamp(row, "await_deadline")?,
        parent: parent(row)?,
        round: row.get("round")?,
        children_pending: row.get("children_pending")?,
        dropped: list(row, "children_dropped")?,
        correlation_key: row.get("correlation_key")?,
        correlation_scope: decoded(row, "correlation_scope")?,
        holds_key: guard.is_some(),
        inserted_at: Timestamp(row.get("inserted_at")?),
        updated_at: Timestamp(row.get("updated_at")?),
        finished_at: optional_timestamp(row, "finished_at")?,
    })
}

pub(crate) fn child(row: &Row<'_>) -> rusqlite::Result<Child> {
    Ok(Child {
        id: InstanceId(row.get("id")?),
        round: row.get("parent_round")?,
        machine: row.get("fsm")?,
        version: row.get("fsm_version")?,
        status: word(row, "status")?,
        state: json(row, "state")?,
        result: optional_json(row, "result")?,
        last_error: row.get("last_error")?,
    })
}

pub(crate) fn signal(row: &Row<'_>) -> rusqlite::Result<Signal> {
    Ok(Signal {
        id: SignalId(row.get("id")?),
        name: row.get("name")?,
        payload: json(row, "payload")?,
        dedup_key: row.get("dedup_key")?,
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
        inserted_at: Timestamp(row.get("inserted_at")?),
        consumed_at: optional_timestamp(row, "consumed_at")?,
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
    let before: Option<String> = row.get("status_before")?;
    Ok(Operation {
        verb: word(row, "verb")?,
        instance: row.get::<_, Option<i64>>("instance_id")?.map(InstanceId),
        queue: row.get("queue")?,
        by: row.get("operator")?,
        reason: row.get("reason")?,
        status_before: before
            .map(|word| word.parse::<Status>())
            .transpose()
            .map_err(|error| unreadable(row, "status_before", error))?,
        at: Timestamp(row.get("at")?),
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

/// The columns of a row in the order of its statement: on the hot path, to look each up by its name would
/// take longer than to read it.
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

    /// A text, where it lies.
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

    pub(crate) fn next_parent(&mut self) -> rusqlite::Result<Option<Parent>> {
        let (id, round): (Option<i64>, Option<i32>) = (self.next()?, self.next()?);
        Ok(id.zip(round).map(|(id, round)| Parent {
            id: InstanceId(id),
            round,
        }))
    }

    /// A list as JSON; empty when there is none.
    pub(crate) fn next_list<T: DeserializeOwned>(&mut self) -> rusqlite::Result<Vec<T>> {
        let position = self.read;
        self.read += 1;
        match self.row.get_ref(position)?.as_str_or_null() {
            Ok(None | Some("[]")) => Ok(Vec::new()),
            Ok(Some(text)) => {
                serde_json::from_str(text).map_err(|error| conversion(position, error))
            }
            Err(error) => Err(conversion(position, error)),
        }
    }
}

fn conversion(position: usize, error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(position, Type::Text, Box::new(error))
}

/// A status or a verb.
pub(crate) fn word<T>(row: &Row<'_>, column: &str) -> rusqlite::Result<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let word: String = row.get(column)?;
    word.parse().map_err(|error| unreadable(row, column, error))
}

/// How many there are of something.
pub(crate) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}

pub(crate) fn json(row: &Row<'_>, column: &str) -> rusqlite::Result<Json> {
    Json::stored(row.get(column)?).map_err(|error| unreadable(row, column, error))
}

/// A column of JSON as a value; the default when there is none.
pub(crate) fn list<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Vec<T>> {
    Ok(decoded(row, column)?.unwrap_or_default())
}

fn decoded<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
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
