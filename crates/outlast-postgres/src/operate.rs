//! What people do to instances and queues.

use crate::claim::{add_all, add_if, ids_of, references};
use crate::commit::{clearing, joining};
use crate::error::Failure;
use crate::opening::Purpose;
use crate::row::{column, instance_id, status};
use crate::session::Session;
use crate::statement::{self, Call, value};
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{
    CancelAnswer, Cancelled, ClaimRef, DeleteAnswer, Error, InstanceId, Note, QueueNames, Result,
    Retried, RetryAnswer, Revision, Status, Verb,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn cancel(
    session: &Session,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Cancelled> {
    check("cancel", ids, note)?;
    if ids.is_empty() {
        return Ok(Cancelled::default());
    }
    session
        .retry("cancel", || Box::pin(cancel_once(session, ids, note)))
        .await
}

async fn cancel_once(
    session: &Session,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Cancelled, Failure> {
    let mut transaction = session.begin(Purpose::Write).await?;
    let found = found(transaction.run(&[locking(ids)]).await?)?;
    let alive = matching(&found, |status| !status.is_terminal());
    let mut woken = QueueNames::new();
    if !alive.is_empty() {
        let [ids, revisions] = references(&alive);
        // The rows end first: a parent cancelled together with its child no longer waits for it.
        let calls = [
            statement::OPERATE_CANCEL.with([ids, revisions, value(note.cancellation())]),
            clearing(&alive),
            joining(&alive),
            statement::COMMIT_LET_THROUGH.with(references(&alive)),
            recording(Verb::Cancel, note, &alive, &found),
        ];
        let answers = transaction.finish(&calls).await?;
        for row in &answers[2] {
            add_if(&mut woken, row, "released")?;
        }
        add_all(&mut woken, &answers[3])?;
    } else {
        transaction.finish(&[]).await?;
    }
    let mut fresh: BTreeSet<InstanceId> = alive.iter().map(|claim| claim.id).collect();
    let answers = ids
        .iter()
        .map(|id| match found.get(id) {
            None => CancelAnswer::NotFound,
            Some(was) if fresh.remove(id) => CancelAnswer::Cancelled(was.status),
            Some(was) if was.status.is_terminal() => CancelAnswer::AlreadyEnded(was.status),
            Some(_) => CancelAnswer::AlreadyEnded(Status::Cancelled),
        })
        .collect();
    Ok(Cancelled { answers, woken })
}

pub(crate) async fn retry(session: &Session, ids: &[InstanceId], note: &Note) -> Result<Retried> {
    check("retry", ids, note)?;
    if ids.is_empty() {
        return Ok(Retried::default());
    }
    session
        .retry("retry", || Box::pin(retry_once(session, ids, note)))
        .await
}

async fn retry_once(
    session: &Session,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Retried, Failure> {
    let mut transaction = session.begin(Purpose::Write).await?;
    let found = found(transaction.run(&[locking(ids)]).await?)?;
    let bad = matching(&found, |status| {
        matches!(status, Status::Failed | Status::Cancelled)
    });
    let mut woken = QueueNames::new();
    if bad.is_empty() {
        transaction.finish(&[]).await?;
    } else {
        let calls = [
            statement::OPERATE_LOCK_PARENTS.with([value(ids_of(&bad))]),
            statement::OPERATE_REJOIN.with(references(&bad)),
            statement::OPERATE_RETRY.with(references(&bad)),
            recording(Verb::Retry, note, &bad, &found),
        ];
        let answers = transaction.finish(&calls).await?;
        add_all(&mut woken, &answers[2])?;
    }
    let mut fresh: BTreeSet<InstanceId> = bad.iter().map(|claim| claim.id).collect();
    let answers = ids
        .iter()
        .map(|id| match found.get(id) {
            None => RetryAnswer::NotFound,
            Some(_) if fresh.remove(id) => RetryAnswer::Retried,
            Some(was) if matches!(was.status, Status::Failed | Status::Cancelled) => {
                RetryAnswer::NotEndedBadly(Status::Runnable)
            }
            Some(was) => RetryAnswer::NotEndedBadly(was.status),
        })
        .collect();
    Ok(Retried { answers, woken })
}

pub(crate) async fn delete(
    session: &Session,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Vec<DeleteAnswer>> {
    check("delete", ids, note)?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    session
        .retry("delete", || Box::pin(delete_once(session, ids, note)))
        .await
}

async fn delete_once(
    session: &Session,
    ids: &[InstanceId],
    note: &Note,
) -> Result<Vec<DeleteAnswer>, Failure> {
    let mut transaction = session.begin(Purpose::Write).await?;
    let all: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let answers = transaction
        .run(&[locking(ids), statement::OPERATE_DELETE.with([value(all)])])
        .await?;
    let (mut verdicts, mut found, mut removed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for row in &answers[1] {
        let (id, was) = (instance_id(row)?, status(row, "status")?);
        let claim = ClaimRef {
            id,
            revision: Revision(0),
        };
        let verdict = match column::<Option<i64>>(row, "parent_id")? {
            _ if column(row, "removed")? => {
                removed.push(claim);
                DeleteAnswer::Deleted
            }
            Some(parent) if was.is_terminal() => DeleteAnswer::ParentLives(InstanceId(parent)),
            _ => DeleteAnswer::NotEnded(was),
        };
        verdicts.insert(id, verdict);
        found.insert(id, Found { status: was, claim });
    }
    removed.sort_by_key(|claim| claim.id);
    transaction
        .finish(&[recording(Verb::Delete, note, &removed, &found)])
        .await?;
    let mut gone = BTreeSet::new();
    Ok(ids
        .iter()
        .map(|id| match verdicts.get(id) {
            Some(DeleteAnswer::Deleted) if !gone.insert(*id) => DeleteAnswer::NotFound,
            Some(verdict) => *verdict,
            None => DeleteAnswer::NotFound,
        })
        .collect())
}

pub(crate) async fn pause(session: &Session, queue: &str, note: &Note) -> Result<bool> {
    switch(session, "pause", statement::OPERATE_PAUSE, queue, note).await
}

pub(crate) async fn resume(session: &Session, queue: &str, note: &Note) -> Result<bool> {
    switch(session, "resume", statement::OPERATE_RESUME, queue, note).await
}

async fn switch(
    session: &Session,
    operation: &'static str,
    statement: statement::Statement,
    queue: &str,
    note: &Note,
) -> Result<bool> {
    note.check().map_err(|invalid| invalid.during(operation))?;
    limits::check_name("queue", queue).map_err(|invalid| invalid.during(operation))?;
    session
        .retry(operation, || {
            Box::pin(async move {
                let call = statement.with([
                    value(queue),
                    value(note.by.as_str()),
                    value(note.clean_reason()),
                ]);
                let answers = session.transact(Purpose::Write, &[call]).await?;
                Ok(!answers[0].is_empty())
            })
        })
        .await
}

fn check(operation: &'static str, ids: &[InstanceId], note: &Note) -> Result<(), Error> {
    note.check().map_err(|invalid| invalid.during(operation))?;
    limits::check_batch(operation, ids.len(), BATCH_MAX)
        .map_err(|invalid| invalid.during(operation))
}

fn locking(ids: &[InstanceId]) -> Call<'static> {
    statement::OPERATE_LOCK.with([value(ids.iter().map(|id| id.0).collect::<Vec<i64>>())])
}

/// An instance as it was when the operator's transaction locked it.
struct Found {
    status: Status,
    claim: ClaimRef,
}

fn found(answers: Vec<Vec<tokio_postgres::Row>>) -> Result<BTreeMap<InstanceId, Found>, Failure> {
    answers[0]
        .iter()
        .map(|row| {
            let id = instance_id(row)?;
            let claim = ClaimRef {
                id,
                revision: column(row, "revision").map(Revision)?,
            };
            Ok((
                id,
                Found {
                    status: status(row, "status")?,
                    claim,
                },
            ))
        })
        .collect()
}

fn matching(
    found: &BTreeMap<InstanceId, Found>,
    condition: impl Fn(Status) -> bool,
) -> Vec<ClaimRef> {
    found
        .values()
        .filter(|was| condition(was.status))
        .map(|was| was.claim)
        .collect()
}

fn recording<'a>(
    verb: Verb,
    note: &'a Note,
    changed: &[ClaimRef],
    found: &BTreeMap<InstanceId, Found>,
) -> Call<'a> {
    let statuses: Vec<&'static str> = changed
        .iter()
        .map(|claim| found[&claim.id].status.as_str())
        .collect();
    statement::OPERATE_RECORD.with([
        value(verb.as_str()),
        value(note.by.as_str()),
        value(note.clean_reason()),
        value(changed.iter().map(|claim| claim.id.0).collect::<Vec<i64>>()),
        value(statuses),
    ])
}
