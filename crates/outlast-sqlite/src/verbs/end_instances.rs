//! Cancelling and terminating single instances: shared by operators' verbs and by cascades.
//!
//! Both record an operation, with the parent that caused it if there is one. The caller settles
//! the [`Effects`] after its last instance. A cancel must leave the revision alone: the running
//! step has had effects, and its outcome must still be written (docs/decisions/0027).

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::partition_line;
use crate::verbs::effects::{ChildPosition, Effects, Ended};
use crate::verbs::inbox;
use outlast_core::{
    CancelAnswer, ClosePolicy, InstanceId, Note, Status, TerminateAnswer, Timestamp, Verb,
};
use rusqlite::{OptionalExtension, Row, params};

const TARGET_ROW: &str = include_str!("../../sql/operate/target_row.sql");
const CANCEL: &str = include_str!("../../sql/operate/cancel.sql");
const HASTEN: &str = include_str!("../../sql/operate/hasten.sql");
const TERMINATE: &str = include_str!("../../sql/operate/terminate.sql");
const RECORD: &str = include_str!("../../sql/operate/record.sql");

/// Requests the cancel of an instance.
///
/// An instance that waits for a place in a window has not begun, and is finished at once.
pub(crate) fn request_cancel(
    tx: &Tx<'_>,
    row: &TargetRow,
    note: &Note,
    cause: Option<InstanceId>,
    effects: &mut Effects,
) -> Result<CancelAnswer, Fault> {
    let before = row.status;
    let answer = if before.is_terminal() {
        return Ok(CancelAnswer::AlreadyEnded(before));
    } else if row.held == Some(true) {
        // No step has run that `on_cancel` could clean up after.
        end(tx, row, note.cancellation(), effects)?;
        CancelAnswer::NeverStarted
    } else if row.is_cancelled {
        return Ok(CancelAnswer::AlreadyRequested(before));
    } else {
        tx.prepare(CANCEL)?
            .execute(params![row.id.0, note.cancellation(), tx.now.0])?;
        // A running step is not touched. Its outcome meets the cancel (`FencedRow::meets_cancel`).
        hasten(tx, row, effects)?;
        CancelAnswer::Requested(before)
    };
    record(tx, Verb::Cancel, Some((row.id, before)), None, note, cause)?;
    Ok(answer)
}

/// Wakes an instance that is not executing, so that it answers its cancel.
fn hasten(tx: &Tx<'_>, row: &TargetRow, effects: &mut Effects) -> Result<(), Fault> {
    let waits = match row.status {
        Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren => true,
        Status::Runnable => row.eligible_at > tx.now,
        Status::Executing | Status::Done | Status::Failed | Status::Cancelled => false,
    };
    if !waits {
        return Ok(());
    }
    tx.prepare(HASTEN)?.execute(params![row.id.0, tx.now.0])?;
    effects.woken.insert(row.queue.clone());
    // The earlier eligible_at may make it the first row of its partition key. Otherwise it stays
    // held: a cancel does not break the order of the key (I8).
    if let Some(key) = row.partition_key.as_ref().filter(|_| row.blocked) {
        partition_line::let_through(tx, key, &mut effects.woken)?;
    }
    Ok(())
}

/// Finishes an instance as cancelled, in any status.
///
/// The statement raises the revision, so the outcome of a running step is lost.
pub(crate) fn terminate_one(
    tx: &Tx<'_>,
    row: &TargetRow,
    note: &Note,
    cause: Option<InstanceId>,
    effects: &mut Effects,
) -> Result<TerminateAnswer, Fault> {
    let before = row.status;
    if before.is_terminal() {
        return Ok(TerminateAnswer::AlreadyEnded(before));
    }
    end(tx, row, note.termination(), effects)?;
    record(
        tx,
        Verb::Terminate,
        Some((row.id, before)),
        None,
        note,
        cause,
    )?;
    Ok(TerminateAnswer::Terminated(before))
}

/// Ends an instance, with the effects of an outcome that ends it.
fn end(tx: &Tx<'_>, row: &TargetRow, error: String, effects: &mut Effects) -> Result<(), Fault> {
    tx.prepare(TERMINATE)?
        .execute(params![row.id.0, error, tx.now.0])?;
    inbox::empty(tx, row.id)?;
    effects.ended(Ended {
        id: row.id,
        status: Status::Cancelled,
        // Also of a row that never executed: it may have been the first of its line.
        partition_key: row.partition_key.clone(),
        child_position: row.child_position,
        had_place: row.held == Some(false),
        round: row.round,
    });
    Ok(())
}

/// The status of an instance, and its links to other rows, before the verb acts on it.
pub(crate) struct TargetRow {
    pub(crate) id: InstanceId,
    pub(crate) status: Status,
    pub(crate) round: i32,
    /// The action on it when its parent finishes.
    pub(crate) on_parent_close: ClosePolicy,
    partition_key: Option<String>,
    child_position: Option<ChildPosition>,
    held: Option<bool>,
    queue: String,
    eligible_at: Timestamp,
    blocked: bool,
    /// Whether a cancel was requested before.
    is_cancelled: bool,
}

/// Reads an instance to act on; `None` when it is not stored.
pub(crate) fn target_row(tx: &Tx<'_>, id: InstanceId) -> Result<Option<TargetRow>, Fault> {
    let target_row = tx
        .prepare(TARGET_ROW)?
        .query_row([id.0], TargetRow::decode)
        .optional()?;
    Ok(target_row)
}

impl TargetRow {
    fn decode(row: &Row<'_>) -> rusqlite::Result<TargetRow> {
        Ok(TargetRow {
            id: InstanceId(row.get("id")?),
            status: decode::word(row, "status")?,
            round: row.get("round")?,
            on_parent_close: decode::policy(row, "on_parent_close")?,
            partition_key: row.get("partition_key")?,
            child_position: decode::child_position(row)?,
            held: row.get("held")?,
            queue: row.get("queue")?,
            eligible_at: Timestamp(row.get("eligible_at")?),
            blocked: row.get("blocked")?,
            is_cancelled: row.get("is_cancelled")?,
        })
    }
}

/// Records an operation, in the transaction of its effect (I4).
pub(crate) fn record(
    tx: &Tx<'_>,
    verb: Verb,
    instance: Option<(InstanceId, Status)>,
    queue: Option<&str>,
    note: &Note,
    cause: Option<InstanceId>,
) -> Result<(), Fault> {
    tx.prepare(RECORD)?.execute(params![
        verb.as_str(),
        instance.map(|(id, _)| id.0),
        queue,
        note.by,
        note.clean_reason(),
        instance.map(|(_, before)| before.as_str()),
        tx.now.0,
        cause.map(|id| id.0)
    ])?;
    Ok(())
}
