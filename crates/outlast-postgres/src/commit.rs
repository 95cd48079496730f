//! Writing what steps decided.
//!
//! A commit is one pipeline: lock the own rows, add to histories, spawn, consume, write the rows, empty the inboxes of those that
//! ended, leave word for their children, pass their places in windows on, count them off their parents, and let the
//! next in line through. What only families need is sent only where a claim says that there may be one. Until the rows are written the fence
//! tells ours from lost ones; from then on, what this transaction has written does. So each statement can
//! check for itself. Most batches begin with the writing: only who parks or consumes must look under a lock
//! first, and a batch in which steps of workflows and of machines meet, whose rows are written by two statements.

use crate::claim::{add_if, claim_of, ids_of, references};
use crate::end_instances::Effects;
use crate::error::Failure;
use crate::outcome::{
    self, delay_us, error, has_keyed_children, join, names_literal, parks, received_literal,
    result, status_after, step,
};
use crate::row::{column, pending_cancel, status, time};
use crate::session::Session;
use crate::spawn::spawning;
use crate::statement::{self, Call, Parameter, documents, value};
use crate::tx_settings::TxKind;
use crate::workflow_outcome::{self, Way, answering, way, yielding};
use outlast_core::{
    Answer, CancelRequest, ClaimRef, ClosePolicy, Commit, Committed, Join, Outcome, QueueNames,
    Result, Status, Timestamp, Until,
};
use std::collections::HashMap;
use tokio_postgres::Row;

pub(crate) async fn commit(session: &Session, commits: &[Commit]) -> Result<Committed> {
    Commit::check_batch(commits).map_err(|invalid| invalid.during("commit"))?;
    let mut answers = Commit::foregone(commits);
    let writable: Vec<usize> = (0..commits.len())
        .filter(|&position| answers[position].is_none())
        .collect();
    let mut effects = Effects::default();
    write(session, commits, &writable, &mut answers, &mut effects).await?;
    Ok(Committed {
        answers: answers
            .into_iter()
            .map(|answer| answer.unwrap_or(Answer::Lost))
            .collect(),
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

/// Writes the outcomes at `positions` in one transaction. When the database blames a row, the batch is
/// halved until that row stands alone and is rejected; its neighbours are written.
async fn write(
    session: &Session,
    commits: &[Commit],
    positions: &[usize],
    answers: &mut [Option<Answer>],
    effects: &mut Effects,
) -> Result<()> {
    let mut waiting = vec![positions];
    while let Some(positions) = waiting.pop() {
        if positions.is_empty() {
            continue;
        }
        let batch: Vec<&Commit> = positions
            .iter()
            .map(|&position| &commits[position])
            .collect();
        let written = session
            .retry("commit", || Box::pin(write_or_blame(session, &batch)))
            .await?;
        match written {
            Written::All(batch_answers, batch_effects) => {
                effects.woken.extend(batch_effects.woken);
                effects.cascades |= batch_effects.cascades;
                for (&position, answer) in positions.iter().zip(batch_answers) {
                    answers[position] = Some(answer);
                }
            }
            Written::Blamed(failure) if positions.len() == 1 => {
                answers[positions[0]] = Some(Answer::Rejected(failure.into_invalid()));
            }
            Written::Blamed(_) => {
                let (first, second) = positions.split_at(positions.len() / 2);
                waiting.push(second);
                waiting.push(first);
            }
        }
    }
    Ok(())
}

enum Written {
    All(Vec<Answer>, Effects),
    Blamed(Failure),
}

async fn write_or_blame(session: &Session, batch: &[&Commit]) -> Result<Written, Failure> {
    match write_once(session, batch).await {
        Ok((answers, effects)) => Ok(Written::All(answers, effects)),
        Err(failure) if failure.blames_a_row() => Ok(Written::Blamed(failure)),
        Err(failure) => Err(failure),
    }
}

async fn write_once(
    session: &Session,
    batch: &[&Commit],
) -> Result<(Vec<Answer>, Effects), Failure> {
    let calls = calls(batch);
    let answers = session.transact(TxKind::Write, &calls).await?;
    let mut effects = Effects::default();
    let mut written = Found::default();
    for (call, rows) in calls.iter().zip(&answers) {
        match call.statement.name {
            name if name == statement::COMMIT_SPAWN.name
                || name == statement::COMMIT_SPAWN_ALIKE.name
                || name == statement::COMMIT_FILL_WINDOW.name =>
            {
                add_each_if(&mut effects.woken, rows, "eligible")?
            }
            name if name == statement::COMMIT_APPEND.name => written.add_appended(rows)?,
            name if name == statement::COMMIT_ADVANCE.name
                || name == statement::COMMIT_PROCEED.name =>
            {
                written.add_advanced(rows, &mut effects.woken)?
            }
            name if name == statement::COMMIT_PARK.name || name == statement::COMMIT_RENEW.name => {
                written.add_parked(rows, &mut effects.woken)?
            }
            name if name == statement::COMMIT_FLOW.name => {
                written.add_flowed(rows, &mut effects.woken)?
            }
            _ => effects.add(call.statement, rows)?,
        }
    }
    let answers = batch.iter().map(|commit| written.answer(commit));
    Ok((answers.collect(), effects))
}

/// The statements a batch needs, in the order of the locks.
fn calls<'a>(batch: &[&'a Commit]) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    if locks_first(batch) {
        let all: Vec<ClaimRef> = batch.iter().map(|commit| commit.claim).collect();
        calls.push(statement::COMMIT_LOCK.with([value(ids_of(&all))]));
    }
    calls.extend(workflow_outcome::appending(batch));
    calls.extend(spawning(batch));
    calls.extend(consuming(batch));
    // Before anything ends that a workflow of the batch waits for.
    calls.extend(workflow_outcome::flowing(batch));
    calls.extend(workflow_outcome::proceeding(batch));
    calls.extend(workflow_outcome::renewing(batch));
    calls.extend(advancing(batch));
    calls.extend(parking(batch));
    let ended = claims_where(batch, ends);
    if !ended.is_empty() {
        calls.push(clearing(&ended));
    }
    let parents = claims_where(batch, may_leave_a_cascade);
    if !parents.is_empty() {
        calls.push(closing(&parents));
    }
    let placed = claims_where(batch, |commit| commit.links.window && ends(commit));
    if !placed.is_empty() {
        calls.push(admitting(&placed));
    }
    let joined = claims_where(batch, |commit| commit.links.parent && ends(commit));
    if !joined.is_empty() {
        calls.push(joining(&joined));
    }
    let leaving = claims_where(batch, leaves_its_line);
    if !leaving.is_empty() {
        calls.push(statement::COMMIT_LET_THROUGH.with(references(&leaving)));
    }
    calls
}

/// Whether the first statement that writes may not be the first to lock: something is done or looked at before it, or it
/// does not write all the rows, which two statements would lock in an order of their own.
fn locks_first(batch: &[&Commit]) -> bool {
    let proceed = |commit: &&&Commit| way(commit) == Way::Proceeds;
    let proceeding = batch.iter().filter(proceed).count();
    let are_mixed = proceeding > 0 && proceeding < batch.len();
    are_mixed || batch.iter().any(|commit| looks_before_it_writes(commit))
}

/// Whether what its inbox or its children hold decides what is written, or more than its row is.
fn looks_before_it_writes(commit: &Commit) -> bool {
    let looks = match way(commit) {
        Way::Machine => parks(&commit.outcome) || !commit.events.is_empty(),
        Way::Proceeds => false,
        Way::Begins | Way::Renews => true,
    };
    looks || consumes_some(commit)
}

/// Whether it takes signals out of an inbox that stays. The inbox of one that ends is emptied as a whole.
fn consumes_some(commit: &Commit) -> bool {
    commit.outcome.consumes() && !commit.received.is_empty() && !ends(commit)
}

fn ends(commit: &Commit) -> bool {
    commit.outcome.end().is_some()
}

/// Whether children may have to be told: of its end, or of a join that is decided as it begins.
fn may_leave_a_cascade(commit: &Commit) -> bool {
    match join(&commit.outcome) {
        Some(join) => join.rest != ClosePolicy::Abandon,
        None => commit.links.children && ends(commit),
    }
}

/// Whether somebody may wait behind it.
fn leaves_its_line(commit: &Commit) -> bool {
    commit.links.partition_key && !commit.outcome.keeps_claim()
}

/// What ends mean for the parents, once this transaction has written them.
pub(crate) fn joining(ended: &[ClaimRef]) -> Call<'static> {
    statement::COMMIT_JOIN.with(references(ended))
}

/// What ends mean for those who wait for a place in a window, once this transaction has written them.
pub(crate) fn admitting(ended: &[ClaimRef]) -> Call<'static> {
    statement::COMMIT_ADMIT.with(references(ended))
}

/// What ends mean for the children, once this transaction has written them.
pub(crate) fn closing(ended: &[ClaimRef]) -> Call<'static> {
    statement::COMMIT_CLOSE.with(references(ended))
}

/// What an end means for the inbox.
pub(crate) fn clearing<'a>(ended: &[ClaimRef]) -> Call<'a> {
    statement::COMMIT_CLEAR.with([value(ids_of(ended))])
}

fn claims_where(batch: &[&Commit], condition: impl Fn(&Commit) -> bool) -> Vec<ClaimRef> {
    let commits = batch.iter().filter(|commit| condition(commit));
    commits.map(|commit| commit.claim).collect()
}

fn consuming<'a>(batch: &[&Commit]) -> Option<Call<'a>> {
    let mut consumers: Vec<&Commit> = batch.to_vec();
    consumers.retain(|commit| consumes_some(commit));
    if consumers.is_empty() {
        return None;
    }
    let claims: Vec<ClaimRef> = consumers.iter().map(|commit| commit.claim).collect();
    let [ids, revisions] = references(&claims);
    let received: Vec<String> = consumers
        .iter()
        .map(|commit| received_literal(commit))
        .collect();
    let yields = yielding(&consumers);
    Some(statement::COMMIT_CONSUME.with([ids, revisions, value(received), yields]))
}

/// The rows that go on or end.
fn advancing<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| way(commit) == Way::Machine && !parks(&commit.outcome));
    if rows.is_empty() {
        return None;
    }
    // Where nothing was locked before, this is the order of the locks.
    rows.sort_by_key(|commit| commit.claim.id);
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("rows-in-the-order-given") {
        rows.sort_by_key(|row| batch.iter().position(|commit| commit.claim == row.claim));
    }
    let outcomes = || rows.iter().map(|commit| &commit.outcome);
    let [ids, revisions] = claimed(&rows);
    Some(
        statement::COMMIT_ADVANCE.with([
            ids,
            revisions,
            value(
                outcomes()
                    .map(|outcome| status_after(outcome).as_str())
                    .collect::<Vec<_>>(),
            ),
            value(outcomes().map(step).collect::<Vec<_>>()),
            value(documents(outcomes().map(Outcome::state))),
            value(outcomes().map(delay_us).collect::<Vec<_>>()),
            value(documents(outcomes().map(result))),
            value(outcomes().map(error).collect::<Vec<_>>()),
            answering(&rows),
        ]),
    )
}

/// The rows that wait, for signals or for children.
fn parking<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| parks(&commit.outcome));
    if rows.is_empty() {
        return None;
    }
    let outcomes = || rows.iter().map(|commit| &commit.outcome);
    let [ids, revisions] = claimed(&rows);
    let received = rows.iter().map(|commit| received_literal(commit));
    let joins = || outcomes().map(join);
    Some(
        statement::COMMIT_PARK.with([
            ids,
            revisions,
            value(outcomes().map(Outcome::is_fan_out).collect::<Vec<bool>>()),
            value(outcomes().map(step).collect::<Vec<_>>()),
            value(documents(outcomes().map(Outcome::state))),
            value(outcomes().map(delay_us).collect::<Vec<_>>()),
            value(outcomes().map(names_literal).collect::<Vec<_>>()),
            value(received.collect::<Vec<_>>()),
            value(outcomes().map(has_keyed_children).collect::<Vec<bool>>()),
            answering(&rows),
            value(
                joins()
                    .map(|j| j.and_then(outcome::needs))
                    .collect::<Vec<_>>(),
            ),
            value(joins().map(fails_fast).collect::<Vec<bool>>()),
            value(outcomes().map(outcome::window).collect::<Vec<_>>()),
            value(joins().map(rest).collect::<Vec<_>>()),
        ]),
    )
}

fn fails_fast(join: Option<&Join>) -> bool {
    join.is_some_and(|join| join.until == Until::FailFast)
}

fn rest(join: Option<&Join>) -> Option<&'static str> {
    join.and_then(|join| outcome::policy(join.rest))
}

fn claimed(rows: &[&Commit]) -> [Parameter<'static>; 2] {
    let claims: Vec<ClaimRef> = rows.iter().map(|commit| commit.claim).collect();
    references(&claims)
}

/// What the store decided about an outcome.
enum Decided {
    /// It went on or ended as the outcome says; when it keeps its claim, there may be a cancel to answer.
    Advanced(Timestamp, Option<CancelRequest>),
    /// It came to this.
    Parked(Timestamp, Status),
    /// It was not written: a cancel comes first.
    Yielded(CancelRequest),
}

/// What the statements of a batch tell, by claim and not by instance: a batch may hold a lost claim beside the one
/// that counts.
#[derive(Default)]
struct Found {
    decided: HashMap<ClaimRef, Decided>,
    /// When the events were written that were written apart from their outcome.
    appended: HashMap<ClaimRef, Timestamp>,
}

impl Found {
    fn add_appended(&mut self, rows: &[Row]) -> Result<(), Failure> {
        for row in rows {
            self.appended.insert(claim_of(row)?, time(row, "at")?);
        }
        Ok(())
    }

    /// Adds the claims whose outcomes were written, and the queues that have more to run.
    fn add_advanced(&mut self, rows: &[Row], woken: &mut QueueNames) -> Result<(), Failure> {
        self.decided.reserve(rows.len());
        for row in rows {
            add_woken(woken, row)?;
            let decided = Decided::Advanced(time(row, "at")?, pending_cancel(row)?);
            self.decided.insert(claim_of(row)?, decided);
        }
        Ok(())
    }

    fn add_parked(&mut self, rows: &[Row], woken: &mut QueueNames) -> Result<(), Failure> {
        for row in rows {
            add_woken(woken, row)?;
            let decided = Decided::Parked(time(row, "at")?, status(row, "status")?);
            self.decided.insert(claim_of(row)?, decided);
        }
        Ok(())
    }

    /// A workflow may have met a cancel instead.
    fn add_flowed(&mut self, rows: &[Row], woken: &mut QueueNames) -> Result<(), Failure> {
        for row in rows {
            add_woken(woken, row)?;
            let decided = match pending_cancel(row)? {
                Some(cancel) => Decided::Yielded(cancel),
                None => Decided::Parked(time(row, "at")?, status(row, "status")?),
            };
            self.decided.insert(claim_of(row)?, decided);
        }
        Ok(())
    }

    fn answer(&mut self, commit: &Commit) -> Answer {
        let (at, status, cancel) = match self.decided.remove(&commit.claim) {
            None => return Answer::Lost,
            Some(Decided::Yielded(cancel)) => return Answer::Cancel(cancel),
            Some(Decided::Advanced(at, cancel)) => (at, status_after(&commit.outcome), cancel),
            Some(Decided::Parked(at, status)) => {
                let awaits_names = !commit.outcome.awaited_names().is_empty();
                (at, status.derived(awaits_names), None)
            }
        };
        Answer::Committed {
            revision: commit.claim.revision.next(),
            status,
            cancel,
            // The moment of its events, when those were written before it.
            at: self.appended.remove(&commit.claim).unwrap_or(at),
        }
    }
}

fn add_woken(woken: &mut QueueNames, row: &Row) -> Result<(), Failure> {
    if let Some(queue) = column::<Option<&str>>(row, "woken")?
        && !woken.contains(queue)
    {
        woken.insert(queue.to_owned());
    }
    Ok(())
}

fn add_each_if(woken: &mut QueueNames, rows: &[Row], condition: &str) -> Result<(), Failure> {
    rows.iter()
        .try_for_each(|row| add_if(woken, row, condition))
}
