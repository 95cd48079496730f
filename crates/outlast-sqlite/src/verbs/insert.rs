//! The insert verb, and the insertion of children by fan-outs.
//!
//! Clients, `commit`, `signal_or_insert` and users' own transactions call it. With one writer,
//! keys need no order here. PostgreSQL takes them in order, so that two batches cannot deadlock
//! (docs/protocol.md, defect 7).

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::{claim, lease};
use outlast_core::{
    Inserted, Inserts, InstanceId, NewInstance, Parent, Revision, Scope, Start, Status, Timestamp,
    WorkerId, micros,
};
use rusqlite::{OptionalExtension, params};
use std::collections::HashMap;

const INSTANCE: &str = include_str!("../../sql/insert/instance.sql");
const HOLDER: &str = include_str!("../../sql/insert/holder.sql");

/// Inserts instances, and claims for `claim_for` those that it can start at once.
pub(crate) fn insert(
    tx: &Tx<'_>,
    rows: &[NewInstance],
    claim_for: Option<WorkerId>,
) -> Result<Inserts, Fault> {
    if let Some(worker) = claim_for {
        lease::require_alive(tx, "insert", worker)?;
    }
    let mut answer = Inserts::default();
    let mut paused = Paused::default();
    for row in rows {
        let worker = match claim_for {
            Some(worker) if can_be_handed_over(tx, row, &mut paused)? => Some(worker),
            Some(_) | None => None,
        };
        let inserted = match add(tx, row, None, worker)? {
            Added::New(id) => Inserted::New {
                id,
                claimed: worker.map(|_| Revision(1)),
            },
            Added::Occupied(holder) => Inserted::Duplicate { holder },
        };
        // A claimed row needs no hint: its worker has it.
        if inserted.new_id().is_some() && worker.is_none() && is_eligible(tx, row) {
            answer.woken.insert(row.queue.clone());
        }
        answer.rows.push(inserted);
    }
    Ok(answer)
}

/// The result of inserting a row.
pub(crate) enum Added {
    New(InstanceId),
    /// This instance holds its correlation key (I9).
    Occupied(Option<InstanceId>),
}

/// The parent and the position of a child.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) parent: Parent,
    pub(crate) position: u32,
    /// Whether it waits for a place in the window of its siblings; `None` without a window.
    pub(crate) held: Option<bool>,
}

/// Inserts one row: executing when `worker` is given, runnable otherwise.
pub(crate) fn add(
    tx: &Tx<'_>,
    new: &NewInstance,
    birth: Option<Birth>,
    worker: Option<WorkerId>,
) -> Result<Added, Fault> {
    let (status, revision) = match worker {
        // As after an insert and a claim.
        Some(_) => (Status::Executing, 1),
        None => (Status::Runnable, 0),
    };
    let correlation = new.correlation.as_ref();
    let starts_at = eligible_at(tx, new).max(tx.now);
    let inserted = tx.prepare(INSTANCE)?.execute(params![
        new.machine,
        new.version,
        new.step,
        new.state.as_str(),
        status.as_str(),
        revision,
        new.queue,
        new.priority,
        eligible_at(tx, new).0,
        new.partition_key,
        worker.map(|worker| worker.0),
        birth.map(|birth| birth.parent.id.0),
        birth.map(|birth| birth.parent.round),
        correlation.map(|it| it.key.as_str()),
        correlation.map(|it| words(it.scope)),
        tx.now.0,
        new.trace,
        birth.map(|birth| birth.position),
        // The schema refuses a policy on a row without a parent.
        birth.and_then(|_| decode::stored(new.on_parent_close)),
        birth.and_then(|birth| birth.held),
        new.timeout.map(micros),
        new.run_timeout.map(micros),
        // A start in the past does not shorten a timeout.
        new.timeout.map(|timeout| (starts_at + timeout).0),
        new.run_timeout.map(|timeout| (starts_at + timeout).0),
    ])?;
    // Asked first: a conflict leaves the id of an earlier insert in the connection.
    if inserted == 1 {
        return Ok(Added::New(InstanceId(tx.connection.last_insert_rowid())));
    }
    let key = correlation.map(|it| it.key.as_str());
    let holder = tx
        .prepare(HOLDER)?
        .query_row(params![new.machine, key], |row| row.get(0).map(InstanceId))
        .optional()?;
    Ok(Added::Occupied(holder))
}

/// Whether the instance is eligible at once.
pub(crate) fn is_eligible(tx: &Tx<'_>, new: &NewInstance) -> bool {
    eligible_at(tx, new) <= tx.now
}

/// Returns the moment from which the instance can be claimed, by the store's clock (I10).
fn eligible_at(tx: &Tx<'_>, new: &NewInstance) -> Timestamp {
    match new.start {
        Start::Now => tx.now,
        Start::After(delay) => tx.now + delay,
        Start::At(at) => at,
    }
}

/// The queues that this verb has checked, and whether each is paused.
type Paused = HashMap<String, bool>;

/// Whether the worker may get the new row as its claim.
///
/// Not with a scope without `executing`: the insert writes the key as held, and only a change of
/// status releases it. Not with a partition key: the line of the key decides which row is next.
fn can_be_handed_over(tx: &Tx<'_>, new: &NewInstance, paused: &mut Paused) -> Result<bool, Fault> {
    let keeps_its_key = new
        .correlation
        .as_ref()
        .is_none_or(|it| it.scope.contains(Status::Executing));
    if !keeps_its_key || new.partition_key.is_some() || !is_eligible(tx, new) {
        return Ok(false);
    }
    if let Some(paused) = paused.get(&new.queue) {
        return Ok(!paused);
    }
    let found = claim::is_paused(tx, &new.queue)?;
    paused.insert(new.queue.clone(), found);
    Ok(!found)
}

/// Encodes a scope as a JSON array of status words. The statements search it for a quoted word.
fn words(scope: Scope) -> String {
    let words: Vec<String> = scope
        .statuses()
        .map(|status| format!("\"{status}\""))
        .collect();
    format!("[{}]", words.join(","))
}
