//! The operators' verbs on instances and queues. Each records an operation with its effect.
//!
//! Clients call them. A verb that changes nothing records nothing. Only a retry makes a finished
//! instance live again, and never without its record (I4).

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::cascade::CascadeRow;
use crate::verbs::collect;
use crate::verbs::effects::Effects;
use crate::verbs::end_instances::{TargetRow, record, request_cancel, target_row, terminate_one};
use crate::verbs::inbox;
use outlast_core::{
    CancelAnswer, Cancelled, CascadeAction, DeleteAnswer, Extent, InstanceId, Note, Parent,
    QueueNames, Retried, RetryAnswer, Status, TerminateAnswer, Terminated, Verb,
};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeSet;

const FIRST_FAILURE: &str = include_str!("../../sql/operate/first_failure.sql");
const SET_FIRST_FAILURE: &str = include_str!("../../sql/operate/set_first_failure.sql");
const IS_CASCADING: &str = include_str!("../../sql/operate/is_cascading.sql");
const RETRY: &str = include_str!("../../sql/operate/retry.sql");
const COUNT_AGAIN: &str = include_str!("../../sql/operate/count_again.sql");
const LIVE_PARENT: &str = include_str!("../../sql/operate/live_parent.sql");
const PAUSE: &str = include_str!("../../sql/operate/pause.sql");
const RESUME: &str = include_str!("../../sql/operate/resume.sql");

/// Requests the cancel of instances.
pub(crate) fn cancel(
    tx: &Tx<'_>,
    ids: &[InstanceId],
    extent: Extent,
    note: &Note,
) -> Result<Cancelled, Fault> {
    let mut effects = Effects::default();
    leave_for_trees(tx, ids, extent, CascadeAction::Cancel, note, &mut effects)?;
    let answers = by_id(ids, |id| match target_row(tx, id)? {
        Some(row) => request_cancel(tx, &row, note, None, &mut effects),
        None => Ok(CancelAnswer::NotFound),
    })?;
    effects.settle(tx)?;
    Ok(Cancelled {
        answers,
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

/// Finishes instances as cancelled, without asking their machines.
pub(crate) fn terminate(
    tx: &Tx<'_>,
    ids: &[InstanceId],
    extent: Extent,
    note: &Note,
) -> Result<Terminated, Fault> {
    let mut effects = Effects::default();
    leave_for_trees(
        tx,
        ids,
        extent,
        CascadeAction::Terminate,
        note,
        &mut effects,
    )?;
    let answers = by_id(ids, |id| match target_row(tx, id)? {
        Some(row) => terminate_one(tx, &row, note, None, &mut effects),
        None => Ok(TerminateAnswer::NotFound),
    })?;
    effects.settle(tx)?;
    Ok(Terminated {
        answers,
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

/// Makes the cascades over the descendants of instances: each tree once, by id, finished or not.
fn leave_for_trees(
    tx: &Tx<'_>,
    ids: &[InstanceId],
    extent: Extent,
    action: CascadeAction,
    note: &Note,
    effects: &mut Effects,
) -> Result<(), Fault> {
    let roots: BTreeSet<InstanceId> = match extent {
        Extent::One => return Ok(()),
        Extent::Tree => ids.iter().copied().collect(),
    };
    for id in roots {
        let tree = match target_row(tx, id)? {
            Some(row) => CascadeRow::of_tree(id, row.round, action, note),
            None => None,
        };
        tree.into_iter().for_each(|tree| effects.tree(tree));
    }
    Ok(())
}

/// Restarts failed and cancelled instances.
///
/// A released correlation key stays released: another instance may hold it by now (I9).
pub(crate) fn retry(tx: &Tx<'_>, ids: &[InstanceId], note: &Note) -> Result<Retried, Fault> {
    let mut woken = QueueNames::new();
    let answers = by_id(ids, |id| retry_one(tx, id, note, &mut woken))?;
    Ok(Retried { answers, woken })
}

fn retry_one(
    tx: &Tx<'_>,
    id: InstanceId,
    note: &Note,
    woken: &mut QueueNames,
) -> Result<RetryAnswer, Fault> {
    let Some(TargetRow { status: before, .. }) = target_row(tx, id)? else {
        return Ok(RetryAnswer::NotFound);
    };
    if !matches!(before, Status::Failed | Status::Cancelled) {
        return Ok(RetryAnswer::NotEndedBadly(before));
    }
    // An update that the end left unanswered stays ended, also when the instance runs again.
    inbox::end_updates(tx, id)?;
    let (queue, parent) = tx
        .prepare(RETRY)?
        .query_row(params![id.0, tx.now.0], |row| {
            Ok((row.get("queue")?, decode::parent(row)?))
        })?;
    woken.insert(queue);
    // After the child is runnable, so that it is no longer among the failed.
    if let Some(parent) = parent {
        count_again(tx, id, parent)?;
    }
    record(tx, Verb::Retry, Some((id, before)), None, note, None)?;
    Ok(RetryAnswer::Retried)
}

/// Counts a retried child as pending again, if its parent waits for that round (I6).
///
/// A parent that has joined is left alone: its step has read the failure, or will.
fn count_again(tx: &Tx<'_>, child: InstanceId, parent: Parent) -> Result<(), Fault> {
    let first_failure: Option<Option<i64>> = tx
        .prepare(COUNT_AGAIN)?
        .query_row(params![parent.id.0, parent.round, tx.now.0], |row| {
            row.get("first_failure")
        })
        .optional()?;
    // A child that runs again must not stay the first failure of its parent.
    if first_failure == Some(Some(child.0)) {
        let next = first_to_fail(tx, parent)?;
        tx.prepare(SET_FIRST_FAILURE)?
            .execute(params![parent.id.0, next.map(|id| id.0)])?;
    }
    Ok(())
}

/// Returns the first child of a round that failed or was cancelled, and was not retried since.
pub(crate) fn first_to_fail(tx: &Tx<'_>, round: Parent) -> Result<Option<InstanceId>, Fault> {
    let first = tx
        .prepare(FIRST_FAILURE)?
        .query_row(params![round.id.0, round.round], |row| {
            row.get(0).map(InstanceId)
        })
        .optional()?;
    Ok(first)
}

/// Removes finished instances. The recorded operation stays.
///
/// The guards are those of the collector (docs/protocol.md, defect 6). A parent may still read its
/// children's results, and a cascade may still have to reach them.
pub(crate) fn delete(
    tx: &Tx<'_>,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Vec<DeleteAnswer>, Fault> {
    by_id(ids, |id| delete_one(tx, id, note))
}

fn delete_one(tx: &Tx<'_>, id: InstanceId, note: &Note) -> Result<DeleteAnswer, Fault> {
    let Some(TargetRow { status: before, .. }) = target_row(tx, id)? else {
        return Ok(DeleteAnswer::NotFound);
    };
    if !before.is_terminal() {
        return Ok(DeleteAnswer::NotEnded(before));
    }
    let parent = tx
        .prepare(LIVE_PARENT)?
        .query_row([id.0], |row| row.get(0).map(InstanceId))
        .optional()?;
    if let Some(parent) = parent {
        return Ok(DeleteAnswer::ParentLives(parent));
    }
    if tx.prepare(IS_CASCADING)?.exists([id.0])? {
        return Ok(DeleteAnswer::Cascading);
    }
    // In this order: the removal takes the earlier records of the instance with it.
    collect::remove(tx, id)?;
    record(tx, Verb::Delete, Some((id, before)), None, note, None)?;
    Ok(DeleteAnswer::Deleted)
}

/// Pauses a queue. Returns whether that changed anything.
pub(crate) fn pause(tx: &Tx<'_>, queue: &str, note: &Note) -> Result<bool, Fault> {
    let changed = tx.prepare(PAUSE)?.execute(params![queue, tx.now.0])? == 1;
    if changed {
        record(tx, Verb::Pause, None, Some(queue), note, None)?;
    }
    Ok(changed)
}

/// Resumes a queue. Returns whether that changed anything.
pub(crate) fn resume(tx: &Tx<'_>, queue: &str, note: &Note) -> Result<bool, Fault> {
    let changed = tx.prepare(RESUME)?.execute([queue])? == 1;
    if changed {
        record(tx, Verb::Resume, None, Some(queue), note, None)?;
    }
    Ok(changed)
}

/// Acts on each id, lowest first, and returns the answers in the caller's order.
///
/// `act` reads its row itself. An id that is named twice is answered by what the first act left.
fn by_id<A>(
    ids: &[InstanceId],
    mut act: impl FnMut(InstanceId) -> Result<A, Fault>,
) -> Result<Vec<A>, Fault> {
    let mut positions: Vec<usize> = (0..ids.len()).collect();
    positions.sort_by_key(|position| ids[*position]);
    let mut answers = Vec::with_capacity(ids.len());
    for position in positions {
        answers.push((position, act(ids[position])?));
    }
    answers.sort_by_key(|(position, _)| *position);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
