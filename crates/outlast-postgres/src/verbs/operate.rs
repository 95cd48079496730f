//! Operators' verbs: cancel, terminate, retry, delete, pause and resume.
//!
//! The client calls this for people and programs. Each verb on instances first locks them by id,
//! in a statement of its own, and decides by what it finds then. What it did is recorded in the
//! same transaction (I4). A verb that changes nothing records nothing.

use crate::decode::{column, instance_id};
use crate::error::Failure;
use crate::session::statement::{self, Call, ids_of, references, value};
use crate::session::tx_settings::TxKind;
use crate::session::{Session, Transaction};
use crate::verbs::effects::{Effects, add_all};
use crate::verbs::end_instances::{EndPlan, LockedInstance, claims, leaving, recording};
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{
    CancelAnswer, Cancelled, DeleteAnswer, Error, Extent, InstanceId, Note, QueueNames, Result,
    Retried, RetryAnswer, Status, TerminateAnswer, Terminated, Verb,
};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

/// Requests cancels. The revision stays, so that no running step loses its claim.
pub(crate) async fn cancel(
    session: &Session,
    ids: &[InstanceId],
    extent: Extent,
    note: &Note,
) -> Result<Cancelled> {
    check("cancel", ids, note)?;
    if ids.is_empty() {
        return Ok(Cancelled::default());
    }
    session
        .retry("cancel", || {
            Box::pin(cancel_once(session, ids, extent, note))
        })
        .await
}

async fn cancel_once(
    session: &Session,
    ids: &[InstanceId],
    extent: Extent,
    note: &Note,
) -> Result<Cancelled, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    let found = found(transaction.run(&[locking(ids)]).await?)?;
    let mut plan = EndPlan::new(note, None);
    found.values().for_each(|was| plan.cancel(was));
    let tree = tree(extent, Verb::Cancel, note, &found);
    let effects = carry_out(transaction, &plan, tree).await?;
    let mut requested: BTreeSet<InstanceId> =
        plan.requested.iter().map(LockedInstance::id).collect();
    let mut ended: BTreeSet<InstanceId> =
        plan.never_started.iter().map(LockedInstance::id).collect();
    let newly_requested = requested.clone();
    // An instance that is named twice has, the second time, the state that the first mention left.
    let answers = ids
        .iter()
        .map(|id| match found.get(id) {
            None => CancelAnswer::NotFound,
            Some(was) if requested.remove(id) => CancelAnswer::Requested(was.status),
            Some(_) if ended.remove(id) => CancelAnswer::NeverStarted,
            Some(was) if was.status.is_terminal() => CancelAnswer::AlreadyEnded(was.status),
            Some(was) if newly_requested.contains(id) => {
                CancelAnswer::AlreadyRequested(woken(was.status))
            }
            Some(was) if was.cancel_requested() => CancelAnswer::AlreadyRequested(was.status),
            Some(_) => CancelAnswer::AlreadyEnded(Status::Cancelled),
        })
        .collect();
    Ok(Cancelled {
        answers,
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

/// Returns the status of an instance after a cancel request.
fn woken(status: Status) -> Status {
    match status {
        Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren => Status::Runnable,
        Status::Runnable
        | Status::Executing
        | Status::Done
        | Status::Failed
        | Status::Cancelled => status,
    }
}

/// Ends instances in any status. The revision moves on, so the fence drops a running outcome.
pub(crate) async fn terminate(
    session: &Session,
    ids: &[InstanceId],
    extent: Extent,
    note: &Note,
) -> Result<Terminated> {
    check("terminate", ids, note)?;
    if ids.is_empty() {
        return Ok(Terminated::default());
    }
    session
        .retry("terminate", || {
            Box::pin(terminate_once(session, ids, extent, note))
        })
        .await
}

async fn terminate_once(
    session: &Session,
    ids: &[InstanceId],
    extent: Extent,
    note: &Note,
) -> Result<Terminated, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    let found = found(transaction.run(&[locking(ids)]).await?)?;
    let mut plan = EndPlan::new(note, None);
    found.values().for_each(|was| plan.terminate(was));
    let tree = tree(extent, Verb::Terminate, note, &found);
    let effects = carry_out(transaction, &plan, tree).await?;
    let mut fresh: BTreeSet<InstanceId> = plan.terminated.iter().map(LockedInstance::id).collect();
    let answers = ids
        .iter()
        .map(|id| match found.get(id) {
            None => TerminateAnswer::NotFound,
            Some(was) if fresh.remove(id) => TerminateAnswer::Terminated(was.status),
            Some(was) if was.status.is_terminal() => TerminateAnswer::AlreadyEnded(was.status),
            Some(_) => TerminateAnswer::AlreadyEnded(Status::Cancelled),
        })
        .collect();
    Ok(Terminated {
        answers,
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

/// Leaves cascades to all descendants of these instances, finished or not.
///
/// The instances are locked, so none of them is starting children that the cascade would miss.
fn tree<'a>(
    extent: Extent,
    verb: Verb,
    note: &'a Note,
    found: &'a BTreeMap<InstanceId, LockedInstance>,
) -> Option<Call<'a>> {
    match extent {
        Extent::One => None,
        Extent::Tree => leaving(verb.as_str(), note, found.values()),
    }
}

/// Sends a plan with the commit, and reads its effects.
async fn carry_out(
    transaction: Transaction<'_>,
    plan: &EndPlan<'_>,
    tree: Option<Call<'_>>,
) -> Result<Effects, Failure> {
    let calls = plan.calls(tree);
    let answers = transaction.finish(&calls).await?;
    EndPlan::effects(&calls, &answers)
}

/// Restarts failed and cancelled instances.
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
    let mut transaction = session.begin(TxKind::Write).await?;
    let found = found(transaction.run(&[locking(ids)]).await?)?;
    let ended_badly =
        |was: &&LockedInstance| matches!(was.status, Status::Failed | Status::Cancelled);
    let bad: Vec<LockedInstance> = found.values().filter(ended_badly).copied().collect();
    let mut woken = QueueNames::new();
    if bad.is_empty() {
        transaction.finish(&[]).await?;
    } else {
        let claims = claims(&bad);
        // Parents are locked before the children are written, so that no parent wakes while its
        // child starts again (docs/decisions/0008). The count matches the children at their old
        // revision, so it comes before the statement that moves the revision on.
        let calls = [
            statement::OPERATE_LOCK_PARENTS.with([value(ids_of(&claims))]),
            statement::OPERATE_REJOIN.with(references(&claims)),
            // An update that the end left unanswered stays ended, also when the instance runs
            // again.
            statement::INBOX_END_UPDATES.with([value(ids_of(&claims))]),
            statement::OPERATE_RETRY.with(references(&claims)),
            recording(Verb::Retry, note, &bad, None),
        ];
        let answers = transaction.finish(&calls).await?;
        add_all(&mut woken, &answers[3])?;
    }
    let mut fresh: BTreeSet<InstanceId> = bad.iter().map(LockedInstance::id).collect();
    let answers = ids
        .iter()
        .map(|id| match found.get(id) {
            None => RetryAnswer::NotFound,
            Some(_) if fresh.remove(id) => RetryAnswer::Retried,
            // Named a second time: the first mention has restarted it.
            Some(was) if matches!(was.status, Status::Failed | Status::Cancelled) => {
                RetryAnswer::NotEndedBadly(Status::Runnable)
            }
            Some(was) => RetryAnswer::NotEndedBadly(was.status),
        })
        .collect();
    Ok(Retried { answers, woken })
}

/// Removes finished instances. Their children stay, and keep the id of a parent that is gone.
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
    let mut transaction = session.begin(TxKind::Write).await?;
    let all: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let answers = transaction
        .run(&[locking(ids), statement::OPERATE_DELETE.with([value(all)])])
        .await?;
    let found = found_in(&answers[0])?;
    // The statement removes what it may. For a row that stays it answers the reason.
    let (mut verdicts, mut removed) = (BTreeMap::new(), Vec::new());
    for row in &answers[1] {
        let id = instance_id(row)?;
        let lives = |was: &&LockedInstance| !was.status.is_terminal();
        let verdict = match column::<Option<i64>>(row, "parent_id")? {
            _ if column(row, "removed")? => {
                removed.extend(found.get(&id));
                DeleteAnswer::Deleted
            }
            _ if let Some(was) = found.get(&id).filter(lives) => DeleteAnswer::NotEnded(was.status),
            Some(parent) => DeleteAnswer::ParentLives(InstanceId(parent)),
            None => DeleteAnswer::Cascading,
        };
        verdicts.insert(id, verdict);
    }
    removed.sort_by_key(LockedInstance::id);
    transaction
        .finish(&[recording(Verb::Delete, note, &removed, None)])
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

/// Pauses or resumes a queue in one statement, which records only a change.
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
                let answers = session.transact(TxKind::Write, &[call]).await?;
                Ok(!answers[0].is_empty())
            })
        })
        .await
}

pub(super) fn check(operation: &'static str, ids: &[InstanceId], note: &Note) -> Result<(), Error> {
    note.check().map_err(|invalid| invalid.during(operation))?;
    limits::check_batch(operation, ids.len(), BATCH_MAX)
        .map_err(|invalid| invalid.during(operation))
}

pub(super) fn locking(ids: &[InstanceId]) -> Call<'static> {
    statement::OPERATE_LOCK.with([value(ids.iter().map(|id| id.0).collect::<Vec<i64>>())])
}

pub(super) fn found(
    answers: Vec<Vec<Row>>,
) -> Result<BTreeMap<InstanceId, LockedInstance>, Failure> {
    found_in(&answers[0])
}

/// Returns the instances that the operator's transaction has locked.
fn found_in(rows: &[Row]) -> Result<BTreeMap<InstanceId, LockedInstance>, Failure> {
    rows.iter()
        .map(|row| LockedInstance::read(row).map(|found| (found.id(), found)))
        .collect()
}
