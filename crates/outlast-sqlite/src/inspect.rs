//! The questions of `Inspect`. They run on readers and must never write.
//!
//! Each runs in one read transaction, so its statements see the same moment. A page has a bound on
//! its rows and on the bytes of their values (docs/decisions/0043). Without it one question could
//! take the memory of the process.

pub(crate) mod list;
pub(crate) mod step_count;

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::claim::{self, BEFORE_PRIORITIES};
use outlast_core::limits::{COUNT_MAX, PAGE_MAX};
use outlast_core::{
    Child, Count, Instance, InstanceId, Operation, OperationId, QueueSummary, Rows, SentUpdate,
    SignalId, SignalRow, Timestamp, Worker,
};
use rusqlite::{OptionalExtension, Params, Row, params};
use std::collections::{BTreeMap, BTreeSet};

const GET: &str = include_str!("../sql/inspect/instances/get.sql");
const GET_LISTED: &str = include_str!("../sql/inspect/instances/get_listed.sql");
const FIND: &str = include_str!("../sql/inspect/instances/find.sql");
const SIGNALS: &str = include_str!("../sql/inspect/instances/signals.sql");
const UPDATE: &str = include_str!("../sql/inspect/instances/update.sql");
const CHILDREN: &str = include_str!("../sql/inspect/families/children.sql");
const CHILDREN_OF_ROUND: &str = include_str!("../sql/inspect/families/children_of_round.sql");
const NEXT_QUEUE: &str = include_str!("../sql/inspect/queues/next_queue.sql");
const PAUSED_QUEUES: &str = include_str!("../sql/inspect/queues/paused_queues.sql");
const NEXT_HELD_QUEUE: &str = include_str!("../sql/inspect/queues/next_held_queue.sql");
const COUNT_HELD: &str = include_str!("../sql/inspect/queues/count_held.sql");
const COUNT_ELIGIBLE: &str = include_str!("../sql/inspect/queues/count_eligible.sql");
const COUNT_DELAYED: &str = include_str!("../sql/inspect/queues/count_delayed.sql");
const EXECUTING: &str = include_str!("../sql/inspect/queues/executing.sql");
const WORKERS: &str = include_str!("../sql/inspect/queues/workers.sql");
const OPERATIONS: &str = include_str!("../sql/inspect/operations/operations.sql");
const CLOSE_ACTIONS: &str = include_str!("../sql/inspect/operations/close_actions.sql");
const OPERATIONS_OF: &str = include_str!("../sql/inspect/operations/operations_of.sql");

pub(crate) fn get(tx: &Tx<'_>, id: InstanceId) -> Result<Option<Instance>, Fault> {
    let mut statement = tx.prepare(GET)?;
    Ok(statement.query_row([id.0], decode::instance).optional()?)
}

/// Returns an instance of a page. Without `values`, skips its state, result and dropped children.
///
/// `None` does not occur: the same transaction has read the id.
pub(crate) fn get_listed(
    tx: &Tx<'_>,
    id: InstanceId,
    values: bool,
) -> Result<Option<Instance>, Fault> {
    let mut statement = tx.prepare(GET_LISTED)?;
    let found = statement.query_row(params![id.0, values], decode::instance);
    Ok(found.optional()?)
}

/// Returns the instance that holds a key, or the latest that held it (docs/decisions/0046).
pub(crate) fn find(tx: &Tx<'_>, machine: &str, key: &str) -> Result<Option<Instance>, Fault> {
    let mut statement = tx.prepare(FIND)?;
    Ok(statement
        .query_row(params![machine, key], decode::instance)
        .optional()?)
}

pub(crate) fn signals(
    tx: &Tx<'_>,
    id: InstanceId,
    after: Option<SignalId>,
) -> Result<Rows<SignalRow>, Fault> {
    let after = after.map_or(i64::MIN, |id| id.0);
    // One row more than the page shows whether rows follow.
    let values = params![id.0, after, PAGE_MAX as i64 + 1];
    let mut statement = tx.prepare(SIGNALS)?;
    let rows = statement.query_map(values, decode::signal_row)?;
    Ok(Rows::cut(rows, PAGE_MAX, SignalRow::bytes)?)
}

/// Returns what became of an update. One statement, so that it shows one moment.
pub(crate) fn update(
    tx: &Tx<'_>,
    id: InstanceId,
    update: &str,
) -> Result<Option<SentUpdate>, Fault> {
    let mut statement = tx.prepare(UPDATE)?;
    let found = statement.query_row(params![id.0, update], decode::update);
    Ok(found.optional()?)
}

pub(crate) fn children(
    tx: &Tx<'_>,
    id: InstanceId,
    round: Option<i32>,
    after: Option<InstanceId>,
) -> Result<Rows<Child>, Fault> {
    let after = after.map_or(i64::MIN, |id| id.0);
    let limit = PAGE_MAX as i64 + 1;
    // Two statements: within a round `instances_parent` returns the order of the ids. Over all
    // rounds SQLite has to sort, and a statement for both would always sort.
    let mut statement = tx.prepare(match round {
        Some(_) => CHILDREN_OF_ROUND,
        None => CHILDREN,
    })?;
    let rows = match round {
        Some(round) => statement.query_map(params![id.0, round, after, limit], decode::child)?,
        None => statement.query_map(params![id.0, after, limit], decode::child)?,
    };
    Ok(Rows::cut(rows, PAGE_MAX, Child::bytes)?)
}

pub(crate) fn workers(tx: &Tx<'_>) -> Result<Vec<Worker>, Fault> {
    all(tx, WORKERS, [], decode::worker)
}

pub(crate) fn operations(
    tx: &Tx<'_>,
    instance: Option<InstanceId>,
) -> Result<Vec<Operation>, Fault> {
    let limit = PAGE_MAX as i64;
    match instance {
        Some(id) => all(tx, OPERATIONS_OF, params![id.0, limit], decode::operation),
        None => all(tx, OPERATIONS, [limit], decode::operation),
    }
}

pub(crate) fn close_actions(
    tx: &Tx<'_>,
    parent: InstanceId,
    after: Option<OperationId>,
) -> Result<Vec<Operation>, Fault> {
    let after = after.map_or(i64::MIN, |id| id.0);
    let values = params![parent.0, after, PAGE_MAX as i64];
    all(tx, CLOSE_ACTIONS, values, decode::operation)
}

/// Returns every queue that is paused or has a runnable, held or executing row.
///
/// Queues are not stored, so their names are gathered from the indexes. A queue whose instances
/// are all parked or finished is not listed.
pub(crate) fn queues(tx: &Tx<'_>) -> Result<Vec<QueueSummary>, Fault> {
    let paused: BTreeSet<String> = all(tx, PAUSED_QUEUES, [], |row| row.get(0))?
        .into_iter()
        .collect();
    let executing: BTreeMap<String, i64> =
        all(tx, EXECUTING, [], |row| Ok((row.get(0)?, row.get(1)?)))?
            .into_iter()
            .collect();
    let mut names: BTreeSet<String> = paused.iter().chain(executing.keys()).cloned().collect();
    names.extend(skip_over_queues(tx, NEXT_QUEUE)?);
    names.extend(skip_over_queues(tx, NEXT_HELD_QUEUE)?);
    let summary = |name: String| {
        let depth = Depth::of(tx, &name)?;
        Ok(QueueSummary {
            paused: paused.contains(&name),
            eligible: counted(depth.eligible),
            delayed: counted(depth.delayed),
            executing: counted(executing.get(&name).copied().unwrap_or_default()),
            oldest_eligible_at: depth.oldest_eligible_at,
            name,
        })
    };
    names.into_iter().map(summary).collect()
}

/// Returns the queues of an index, by one lookup each, however many rows a queue has.
fn skip_over_queues(tx: &Tx<'_>, next: &'static str) -> Result<Vec<String>, Fault> {
    let mut names: Vec<String> = Vec::new();
    let mut statement = tx.prepare(next)?;
    loop {
        let before = names.last().map(String::as_str).unwrap_or_default();
        match statement.query_row([before], |row| row.get(0)).optional()? {
            Some(name) => names.push(name),
            None => return Ok(names),
        }
    }
}

/// The runnable rows of a queue, counted a little beyond the reported maximum.
#[derive(Default)]
struct Depth {
    eligible: i64,
    delayed: i64,
    oldest_eligible_at: Option<Timestamp>,
}

impl Depth {
    fn of(tx: &Tx<'_>, queue: &str) -> Result<Depth, Fault> {
        // Held rows are outside the pick index, but they wait in the queue too.
        let mut depth = Depth::held(tx, queue)?;
        let mut priority = BEFORE_PRIORITIES;
        while let Some(next) = claim::next_priority(tx, queue, priority)? {
            priority = next;
            depth.add_priority(tx, queue, priority)?;
        }
        Ok(depth)
    }

    fn held(tx: &Tx<'_>, queue: &str) -> Result<Depth, Fault> {
        let mut statement = tx.prepare(COUNT_HELD)?;
        let held = statement.query_row(params![queue, tx.now.0, COUNTED_MAX], |row| {
            Ok(Depth {
                eligible: row.get("eligible")?,
                delayed: row.get("delayed")?,
                oldest_eligible_at: row.get::<_, Option<i64>>("oldest")?.map(Timestamp),
            })
        })?;
        Ok(held)
    }

    /// Counts one priority, so that counting eligible rows does not walk delayed ones.
    fn add_priority(&mut self, tx: &Tx<'_>, queue: &str, priority: i64) -> Result<(), Fault> {
        let (eligible, first) = tx
            .prepare(COUNT_ELIGIBLE)?
            .query_row(params![queue, priority, tx.now.0, COUNTED_MAX], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
            })?;
        let delayed: i64 = tx
            .prepare(COUNT_DELAYED)?
            .query_row(params![queue, priority, tx.now.0, COUNTED_MAX], |row| {
                row.get(0)
            })?;
        let first = first.map(Timestamp);
        self.eligible += eligible;
        self.delayed += delayed;
        self.oldest_eligible_at = self.oldest_eligible_at.into_iter().chain(first).min();
        Ok(())
    }
}

/// One more than the reported maximum, to detect that there are more.
pub(crate) const COUNTED_MAX: i64 = COUNT_MAX as i64 + 1;

/// Turns a count up to [`COUNTED_MAX`] into an answer.
pub(crate) fn counted(count: i64) -> Count {
    let count = count.unsigned_abs();
    if count > COUNT_MAX {
        Count::AtLeast(COUNT_MAX)
    } else {
        Count::Exactly(count)
    }
}

/// Returns all rows of a statement that has a bound of its own.
///
/// Takes also texts that were built for the question, so the connection's cache keeps the
/// statement. Verbs use [`Tx::prepare`], which is faster.
pub(crate) fn all<T>(
    tx: &Tx<'_>,
    sql: &str,
    values: impl Params,
    decode: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = tx.prepare_made(sql)?;
    let rows = statement
        .query_map(values, decode)?
        .collect::<rusqlite::Result<_>>()?;
    #[cfg(test)]
    crate::executed::record_run(sql, &statement);
    Ok(rows)
}
