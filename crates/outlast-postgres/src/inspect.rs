//! Read-only queries for the API, the dashboard and the command line. They lock nothing.
//!
//! People choose the filters, so every answer is bounded: in rows, in bytes of values
//! (docs/decisions/0043), or by a short timeout.

pub(crate) mod list;
pub(crate) mod step_count;

use crate::decode::{self, column, optional_time, time};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, value};
use crate::session::tx_settings::TxKind;
use outlast_core::limits::{COUNT_MAX, PAGE_BYTES_MAX, PAGE_MAX};
use outlast_core::{
    Child, Count, Filter, Instance, InstanceId, Operation, OperationId, QueueSummary, Result, Rows,
    SentUpdate, SignalId, SignalRow, Status, Timestamp, Worker, WorkerId,
};
use tokio_postgres::Row;

pub(crate) async fn now(session: &Session) -> Result<Timestamp> {
    let rows = ask(session, "now", statement::INSPECT_NOW.with([]), |row| {
        time(row, "now")
    })
    .await?;
    Ok(rows[0])
}

pub(crate) async fn get(session: &Session, id: InstanceId) -> Result<Option<Instance>> {
    let call = statement::INSPECT_GET.with([value(id.0)]);
    look_up(session, "get", call, decode::instance).await
}

pub(crate) async fn find(session: &Session, machine: &str, key: &str) -> Result<Option<Instance>> {
    Filter::check_holder(machine, key).map_err(|invalid| invalid.during("find"))?;
    let call = statement::INSPECT_FIND.with([value(machine), value(key)]);
    look_up(session, "find", call, decode::instance).await
}

pub(crate) async fn signals(
    session: &Session,
    id: InstanceId,
    after: Option<SignalId>,
) -> Result<Rows<SignalRow>> {
    let after = after.map_or(i64::MIN, |id| id.0);
    let call = statement::INSPECT_SIGNALS.with([
        value(id.0),
        value(after),
        value(PAGE_MAX as i64 + 1),
        value(PAGE_BYTES_MAX as i64),
    ]);
    let read = |row: &Row| fitting(row, decode::signal_row);
    let rows = ask(session, "signals", call, read).await?;
    Ok(first_fitting(rows, PAGE_MAX))
}

/// Returns what became of an update.
///
/// A role without rights to the tables asks the function.
pub(crate) async fn update(
    session: &Session,
    id: InstanceId,
    update: &str,
) -> Result<Option<SentUpdate>> {
    SentUpdate::check_id(update).map_err(|invalid| invalid.during("update"))?;
    let statement = match session.enqueue_only {
        true => statement::TRANSACTION_REPLY,
        false => statement::INSPECT_UPDATE,
    };
    let call = statement.with([value(id.0), value(update)]);
    look_up(session, "update", call, decode::update).await
}

pub(crate) async fn children(
    session: &Session,
    id: InstanceId,
    round: Option<i32>,
    after: Option<InstanceId>,
) -> Result<Rows<Child>> {
    let after = after.map_or(i64::MIN, |id| id.0);
    let call = statement::INSPECT_CHILDREN.with([
        value(id.0),
        value(round),
        value(after),
        value(PAGE_MAX as i64 + 1),
        value(PAGE_BYTES_MAX as i64),
    ]);
    let read = |row: &Row| fitting(row, |row| decode::child(row, 0));
    let rows = ask(session, "children", call, read).await?;
    Ok(first_fitting(rows, PAGE_MAX))
}

/// Returns a row of a page, or `None` if its values exceed the page's bound in bytes.
///
/// Such a row comes without its values, so it must not be decoded.
pub(crate) fn fitting<T>(
    row: &Row,
    read: impl Fn(&Row) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    match column(row, "fits")? {
        true => read(row).map(Some),
        false => Ok(None),
    }
}

/// Returns the page of the first rows that fit. The statement asked for one more than `limit`.
///
/// It ends at the first row that does not fit, even if a later one would. The next page begins
/// there, and a gap could never be read.
pub(crate) fn first_fitting<T>(rows: Vec<Option<T>>, limit: usize) -> Rows<T> {
    let found = rows.len();
    let rows: Vec<T> = rows.into_iter().map_while(|row| row).take(limit).collect();
    Rows {
        more: rows.len() < found,
        rows,
    }
}

pub(crate) async fn queues(session: &Session) -> Result<Vec<QueueSummary>> {
    let call = statement::INSPECT_QUEUES.with([value(COUNTED_MAX)]);
    ask(session, "queues", call, |row| {
        Ok(QueueSummary {
            name: column(row, "name")?,
            paused: column(row, "paused")?,
            eligible: column(row, "eligible").map(counted)?,
            delayed: column(row, "delayed").map(counted)?,
            executing: column(row, "executing").map(counted)?,
            oldest_eligible_at: optional_time(row, "oldest_eligible_at")?,
        })
    })
    .await
}

pub(crate) async fn workers(session: &Session) -> Result<Vec<Worker>> {
    let call = statement::INSPECT_WORKERS.with([value(COUNT_MAX as i64)]);
    ask(session, "workers", call, |row| {
        Ok(Worker {
            id: column(row, "id").map(WorkerId)?,
            name: column(row, "name")?,
            host: column(row, "host")?,
            version: column(row, "version")?,
            queues: column(row, "queues")?,
            machines: decode::json(row, "machines")?.decode()?,
            started_at: time(row, "started_at")?,
            heartbeat_at: time(row, "heartbeat_at")?,
            lease_expires_at: time(row, "lease_expires_at")?,
        })
    })
    .await
}

pub(crate) async fn operations(
    session: &Session,
    instance: Option<InstanceId>,
) -> Result<Vec<Operation>> {
    let call = statement::INSPECT_OPERATIONS
        .with([value(instance.map(|id| id.0)), value(PAGE_MAX as i64)]);
    ask(session, "operations", call, operation).await
}

pub(crate) async fn close_actions(
    session: &Session,
    parent: InstanceId,
    after: Option<OperationId>,
) -> Result<Vec<Operation>> {
    let after = after.map_or(i64::MIN, |id| id.0);
    let call = statement::INSPECT_CLOSE_ACTIONS.with([
        value(parent.0),
        value(after),
        value(PAGE_MAX as i64),
    ]);
    ask(session, "close_actions", call, operation).await
}

fn operation(row: &Row) -> Result<Operation, Failure> {
    let before: Option<String> = column(row, "status_before")?;
    Ok(Operation {
        id: column(row, "id").map(OperationId)?,
        verb: column::<String>(row, "verb")?.parse()?,
        instance: column::<Option<i64>>(row, "instance_id")?.map(InstanceId),
        queue: column(row, "queue")?,
        by: column(row, "operator")?,
        reason: column(row, "reason")?,
        cause: column::<Option<i64>>(row, "cause_id")?.map(InstanceId),
        status_before: before.map(|word| word.parse::<Status>()).transpose()?,
        at: time(row, "at")?,
    })
}

/// Runs one query in its own read-only transaction.
pub(crate) async fn ask<T: Send>(
    session: &Session,
    operation: &'static str,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Vec<T>> {
    ask_as(session, TxKind::Inspect, operation, call, read).await
}

/// Runs a lookup by key, without a transaction around it.
///
/// Programs poll these lookups. Their plan is fixed, as that of the verbs' statements. On a direct
/// connection the statement goes alone, which is one message instead of three.
async fn look_up<T: Send>(
    session: &Session,
    operation: &'static str,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Option<T>> {
    let found = ask_planned(session, operation, call, read).await?;
    Ok(found.into_iter().next())
}

/// Runs a read-only query with a fixed plan, so that the planner cannot choose to read more.
///
/// For queries that promise a bound on what they read (docs/decisions/0006). The kind is that of
/// verbs that write, whose settings fix the plans. It works on a standby too.
pub(crate) async fn ask_planned<T: Send>(
    session: &Session,
    operation: &'static str,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Vec<T>> {
    ask_as(session, TxKind::Write, operation, call, read).await
}

/// Runs one query, and tries again when a pooler has lost its statement.
async fn ask_as<T: Send>(
    session: &Session,
    tx_kind: TxKind,
    operation: &'static str,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Vec<T>> {
    let call = std::slice::from_ref(&call);
    let read = &read;
    session
        .retry(operation, || {
            Box::pin(async move {
                let answers = session.transact(tx_kind, call).await?;
                answers[0].iter().map(read).collect()
            })
        })
        .await
}

/// One more than the largest count answered, to know whether there are more.
pub(crate) const COUNTED_MAX: i64 = COUNT_MAX as i64 + 1;

pub(crate) fn counted(instances: i64) -> Count {
    let instances = instances.unsigned_abs();
    match instances > COUNT_MAX {
        true => Count::AtLeast(COUNT_MAX),
        false => Count::Exactly(instances),
    }
}
