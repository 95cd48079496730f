//! What people do to instances and queues, each act recorded beside its effect.

use crate::commit::{self, Ended};
use crate::error::Fault;
use crate::tx::Tx;
use crate::{collect, decode};
use outlast_core::{
    CancelAnswer, Cancelled, DeleteAnswer, InstanceId, Note, Parent, QueueNames, Retried,
    RetryAnswer, Status, Verb,
};
use rusqlite::{OptionalExtension, params};

const STANDING: &str = include_str!("../sql/operate/standing.sql");
const CANCEL: &str = include_str!("../sql/operate/cancel.sql");
const RETRY: &str = include_str!("../sql/operate/retry.sql");
const COUNT_AGAIN: &str = include_str!("../sql/operate/count_again.sql");
const LIVE_PARENT: &str = include_str!("../sql/operate/live_parent.sql");
const RECORD: &str = include_str!("../sql/operate/record.sql");
const PAUSE: &str = include_str!("../sql/operate/pause.sql");
const RESUME: &str = include_str!("../sql/operate/resume.sql");

/// Ends instances as cancelled.
pub(crate) fn cancel(tx: &Tx<'_>, ids: &[InstanceId], note: &Note) -> Result<Cancelled, Fault> {
    let mut woken = QueueNames::new();
    let answers = by_id(ids, |id| cancel_one(tx, id, note, &mut woken))?;
    Ok(Cancelled { answers, woken })
}

fn cancel_one(
    tx: &Tx<'_>,
    id: InstanceId,
    note: &Note,
    woken: &mut QueueNames,
) -> Result<CancelAnswer, Fault> {
    let Some(before) = status(tx, id)? else {
        return Ok(CancelAnswer::NotFound);
    };
    if before.is_terminal() {
        return Ok(CancelAnswer::AlreadyEnded(before));
    }
    let ended = tx
        .prepare(CANCEL)?
        .query_row(params![id.0, note.cancellation(), tx.now.0], Ended::decode)?;
    commit::follow_end(tx, id, &ended, woken)?;
    record(tx, Verb::Cancel, Some((id, before)), None, note)?;
    Ok(CancelAnswer::Cancelled(before))
}

/// Starts failed and cancelled instances again.
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
    let Some(before) = status(tx, id)? else {
        return Ok(RetryAnswer::NotFound);
    };
    if !matches!(before, Status::Failed | Status::Cancelled) {
        return Ok(RetryAnswer::NotEndedBadly(before));
    }
    let (queue, parent) = tx
        .prepare(RETRY)?
        .query_row(params![id.0, tx.now.0], |row| {
            Ok((row.get("queue")?, decode::parent(row)?))
        })?;
    woken.insert(queue);
    if let Some(Parent { id, round }) = parent {
        tx.prepare(COUNT_AGAIN)?
            .execute(params![id.0, round, tx.now.0])?;
    }
    record(tx, Verb::Retry, Some((id, before)), None, note)?;
    Ok(RetryAnswer::Retried)
}

/// Removes ended instances; the record of that stays.
pub(crate) fn delete(
    tx: &Tx<'_>,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Vec<DeleteAnswer>, Fault> {
    by_id(ids, |id| delete_one(tx, id, note))
}

fn delete_one(tx: &Tx<'_>, id: InstanceId, note: &Note) -> Result<DeleteAnswer, Fault> {
    let Some(before) = status(tx, id)? else {
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
    collect::remove(tx, id)?;
    record(tx, Verb::Delete, Some((id, before)), None, note)?;
    Ok(DeleteAnswer::Deleted)
}

/// Stops a queue from giving out work. Answers whether that changed anything.
pub(crate) fn pause(tx: &Tx<'_>, queue: &str, note: &Note) -> Result<bool, Fault> {
    let changed = tx.prepare(PAUSE)?.execute(params![queue, tx.now.0])? == 1;
    if changed {
        record(tx, Verb::Pause, None, Some(queue), note)?;
    }
    Ok(changed)
}

/// Lets a queue give out work again. Answers whether that changed anything.
pub(crate) fn resume(tx: &Tx<'_>, queue: &str, note: &Note) -> Result<bool, Fault> {
    let changed = tx.prepare(RESUME)?.execute([queue])? == 1;
    if changed {
        record(tx, Verb::Resume, None, Some(queue), note)?;
    }
    Ok(changed)
}

/// Acts on each id, lowest first, and answers in the caller's order.
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

fn status(tx: &Tx<'_>, id: InstanceId) -> Result<Option<Status>, Fault> {
    let status = tx
        .prepare(STANDING)?
        .query_row([id.0], |row| decode::word(row, "status"))
        .optional()?;
    Ok(status)
}

fn record(
    tx: &Tx<'_>,
    verb: Verb,
    instance: Option<(InstanceId, Status)>,
    queue: Option<&str>,
    note: &Note,
) -> Result<(), Fault> {
    tx.prepare(RECORD)?.execute(params![
        verb.as_str(),
        instance.map(|(id, _)| id.0),
        queue,
        note.by,
        note.clean_reason(),
        instance.map(|(_, before)| before.as_str()),
        tx.now.0
    ])?;
    Ok(())
}
