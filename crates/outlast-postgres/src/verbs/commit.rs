//! Commits: writes the outcomes of steps.
//!
//! The engine's committer calls this. No outcome is written without the fence.
//!
//! A commit is one pipeline of statements in the order of their locks:
//!
//! - lock the rows;
//! - append events to histories, write views, and reply to updates;
//! - insert children;
//! - consume signals;
//! - write the rows;
//! - clear the inboxes of finished instances;
//! - leave cascades for their children;
//! - admit waiting children into windows;
//! - count finished children off their parents;
//! - unblock the next row of a partition key.
//!
//! The statements for families are sent only if a claim says that there may be a family
//! (docs/decisions/0017).
//!
//! Before the rows are written, the fence separates held claims from lost ones. After that, `xmin`
//! does: it marks the rows that this transaction wrote. So each statement checks for itself. Rust
//! cannot tell a statement which claims were lost: all are sent before the first answer
//! (docs/decisions/0008).
//!
//! Most batches start with the write. A batch locks first if a row parks or consumes: such a row
//! must look at its inbox under its lock (docs/protocol.md, defect 2). It also locks first if it
//! mixes workflows and machines: two statements write their rows.

pub(crate) mod outcome;
mod release;
mod spawn;
mod workflow_outcome;

pub(crate) use release::release;

use crate::decode::{claim_of, column, pending_cancel, status, time};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, Parameter, documents, ids_of, references, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::effects::{
    Effects, add_if, admitting, clearing, closing, joining, letting_through,
};
use outcome::{
    delay_us, error, has_keyed_children, join, names_literal, number_literal, parks,
    received_literal, status_after, step, text_literal,
};
use outlast_core::{
    Answer, CancelRequest, ClaimRef, ClosePolicy, Commit, Committed, Join, NewReply, Outcome,
    QueueNames, Result, SignalId, Status, Timestamp, Until,
};
use spawn::spawning;
use std::collections::HashMap;
use tokio_postgres::Row;
use workflow_outcome::{WrittenBy, answering, written_by, yielding};

/// Writes a batch of outcomes, and answers each by its position.
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
            // Every position has its answer by now.
            .map(|answer| answer.unwrap_or(Answer::Lost))
            .collect(),
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

/// Writes the outcomes at `positions` in one transaction.
///
/// If the database rejects a row, halves the batch until that row is alone. Only that row is
/// rejected; its neighbours are written (docs/protocol.md, defects 4 and 12). The error does not
/// say which row it was. Each half is a transaction of its own.
///
/// After another error some halves may be written. A caller that sends the batch again gets
/// `Lost` for them (docs/protocol.md, defect 13).
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
                // The first half is popped first, so that the order of the batch stays.
                let (first, second) = positions.split_at(positions.len() / 2);
                waiting.push(second);
                waiting.push(first);
            }
        }
    }
    Ok(())
}

/// The result of one try to write a batch.
enum Written {
    /// The transaction was committed. A lost claim is one of the answers.
    All(Vec<Answer>, Effects),
    /// Nothing was written, because the database refuses at least one row.
    Blamed(Failure),
}

/// Writes a batch once. A refused row is an answer here: as an error it would end the verb.
async fn write_or_blame(session: &Session, batch: &[&Commit]) -> Result<Written, Failure> {
    match write_once(session, batch).await {
        Ok((answers, effects)) => Ok(Written::All(answers, effects)),
        Err(failure) if failure.blames_a_row() => Ok(Written::Blamed(failure)),
        Err(failure) => Err(failure),
    }
}

/// Sends the statements of a batch, and reads their answers by the names of the statements.
async fn write_once(
    session: &Session,
    batch: &[&Commit],
) -> Result<(Vec<Answer>, Effects), Failure> {
    let calls = calls(batch);
    let answers = session.transact(TxKind::Write, &calls).await?;
    let mut effects = Effects::default();
    let mut written = BatchAnswers::default();
    for (call, rows) in calls.iter().zip(&answers) {
        match call.statement.name {
            name if name == statement::COMMIT_SPAWN.name
                || name == statement::COMMIT_SPAWN_ALIKE.name
                || name == statement::WINDOW_FILL.name =>
            {
                add_each_if(&mut effects.woken, rows, "eligible")?
            }
            name if name == statement::HISTORY_APPEND.name => written.add_appended(rows)?,
            name if name == statement::COMMIT_ADVANCE.name
                || name == statement::COMMIT_ADVANCE_WORKFLOW.name =>
            {
                written.add_advanced(rows, &mut effects.woken)?
            }
            name if name == statement::COMMIT_PARK.name
                || name == statement::COMMIT_CONTINUE_AS_NEW.name =>
            {
                written.add_parked(rows, &mut effects.woken)?
            }
            name if name == statement::COMMIT_PARK_WORKFLOW.name => {
                written.add_flowed(rows, &mut effects.woken)?
            }
            _ => effects.add(call.statement, rows)?,
        }
    }
    let answers = batch.iter().map(|commit| written.answer(commit));
    Ok((answers.collect(), effects))
}

/// Returns the statements that a batch needs, in the order of their locks.
///
/// Up to the park, each statement matches its rows by the fence. The statements after it match by
/// the next revision and `xmin`, or by the end that was written. A statement that is moved over
/// this border finds no rows.
fn calls<'a>(batch: &[&'a Commit]) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    if locks_first(batch) {
        let all: Vec<ClaimRef> = batch.iter().map(|commit| commit.claim).collect();
        calls.push(statement::COMMIT_LOCK.with([value(ids_of(&all))]));
    }
    // These five leave the revision alone, so the fence still matches after them. Children become
    // visible with the commit: none of them can end before its parent is parked.
    calls.extend(workflow_outcome::appending(batch));
    calls.extend(workflow_outcome::publishing(batch));
    calls.extend(replying(batch));
    calls.extend(spawning(batch));
    calls.extend(consuming(batch));
    // Before any row ends: a workflow of this batch may wait for a child that ends in this batch.
    calls.extend(workflow_outcome::flowing(batch));
    calls.extend(workflow_outcome::proceeding(batch));
    calls.extend(workflow_outcome::continuing_as_new(batch));
    calls.extend(advancing(batch));
    calls.extend(parking(batch));
    // No delivery can add a signal behind this: it waits for the row, and finds it finished
    // (docs/protocol.md, defect 10).
    let ended = claims_where(batch, ends);
    if !ended.is_empty() {
        calls.push(clearing(&ended));
    }
    let parents = claims_where(batch, may_leave_a_cascade);
    if !parents.is_empty() {
        calls.push(closing(&parents));
    }
    // Siblings before parents. A terminate of a child that waits for a slot locks in this order.
    let placed = claims_where(batch, |commit| commit.links.window && ends(commit));
    if !placed.is_empty() {
        calls.push(admitting(&placed));
    }
    // After all own rows: two commits with the same parent then wait for one count only, not for
    // each other's rows (docs/decisions/0008).
    let joined = claims_where(batch, |commit| commit.links.parent && ends(commit));
    if !joined.is_empty() {
        calls.push(joining(&joined));
    }
    let leaving = claims_where(batch, leaves_its_line);
    if !leaving.is_empty() {
        calls.push(letting_through(&leaving));
    }
    calls
}

/// Returns whether the batch must lock its rows by commit/lock.sql before the first write.
///
/// It must if a statement reads or writes before the rows are written. Otherwise a reap or a
/// terminate between two statements would leave half an outcome, such as consumed signals without
/// the next step.
///
/// It also must if two statements write the rows. Each would lock its rows in its own order, and
/// two batches could deadlock (docs/protocol.md, defect 7).
fn locks_first(batch: &[&Commit]) -> bool {
    let proceed = |commit: &&&Commit| written_by(commit) == WrittenBy::Proceed;
    let proceeding = batch.iter().filter(proceed).count();
    let are_mixed = proceeding > 0 && proceeding < batch.len();
    are_mixed || batch.iter().any(|commit| looks_before_it_writes(commit))
}

/// Returns whether the outcome depends on the inbox or the children, or writes more than its row.
fn looks_before_it_writes(commit: &Commit) -> bool {
    let looks = match written_by(commit) {
        WrittenBy::AdvanceOrPark => parks(&commit.outcome) || !commit.events.is_empty(),
        // One statement writes the row and its events.
        WrittenBy::Proceed => false,
        WrittenBy::Flow | WrittenBy::ContinueAsNew => true,
    };
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("reply-does-not-lock") {
        return looks || !commit.views.is_empty() || consumes_some(commit);
    }
    looks || !commit.views.is_empty() || !commit.replies.is_empty() || consumes_some(commit)
}

/// Returns whether the outcome consumes signals of an inbox that stays.
///
/// The inbox of a finished instance is cleared as a whole. An outcome without received signals
/// needs no lock for an inbox that it does not read.
fn consumes_some(commit: &Commit) -> bool {
    commit.outcome.consumes() && !commit.received.is_empty() && !ends(commit)
}

fn ends(commit: &Commit) -> bool {
    commit.outcome.end().is_some()
}

/// Returns whether the outcome may leave a cascade: by its end, or by a join decided at its start.
fn may_leave_a_cascade(commit: &Commit) -> bool {
    match join(&commit.outcome) {
        // A quorum above the number of started children is decided at once.
        Some(join) => join.rest != ClosePolicy::Abandon,
        None => commit.links.children && ends(commit),
    }
}

/// Returns whether a row may wait behind this one for its partition key.
///
/// Every outcome that leaves `executing` frees the key, a retry and a park too (I8).
fn leaves_its_line(commit: &Commit) -> bool {
    commit.links.partition_key && !commit.outcome.keeps_claim()
}

/// Returns the claims whose outcomes meet the condition.
///
/// Lost claims are among them: nothing is known about them before the answers.
fn claims_where(batch: &[&Commit], condition: impl Fn(&Commit) -> bool) -> Vec<ClaimRef> {
    let commits = batch.iter().filter(|commit| condition(commit));
    commits.map(|commit| commit.claim).collect()
}

/// Writes replies to updates, which are consumed by that.
///
/// Before the look of a park into the inbox, and before an end clears it.
fn replying<'a>(batch: &[&Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&Commit> = batch.to_vec();
    rows.retain(|commit| !commit.replies.is_empty());
    if rows.is_empty() {
        return None;
    }
    let [ids, revisions] = claimed(&rows);
    let signals = rows.iter().map(|row| {
        let signals = row.replies.iter().map(|reply| Some(reply.signal));
        number_literal(signals)
    });
    let texts = |of: fn(&NewReply) -> &str| {
        let literal = |row: &&Commit| text_literal(row.replies.iter().map(of));
        value(rows.iter().map(literal).collect::<Vec<String>>())
    };
    Some(statement::INBOX_REPLY.with([
        ids,
        revisions,
        yielding(&rows),
        value(signals.collect::<Vec<String>>()),
        texts(|reply| reply.kind.as_str()),
        texts(|reply| reply.data.as_str()),
    ]))
}

/// Consumes exactly the signals that the steps received (I7).
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
    Some(statement::INBOX_CONSUME.with([ids, revisions, value(received), yields]))
}

/// Writes the rows that go on to a step or finish.
fn advancing<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| written_by(commit) == WrittenBy::AdvanceOrPark && !parks(&commit.outcome));
    if rows.is_empty() {
        return None;
    }
    // If the batch locked nothing before, this order is the order of the locks.
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
            value(documents(outcomes().map(Outcome::result))),
            value(outcomes().map(error).collect::<Vec<_>>()),
            answering(&rows),
        ]),
    )
}

/// Writes the rows that park, for signals or for children.
///
/// The rows are not sorted: commit/lock.sql holds them all already.
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

/// The store's decision about an outcome.
enum Decided {
    /// The row went on or finished, as the outcome says. A kept claim may have a cancel to answer,
    /// and signals since the claim.
    Advanced(Timestamp, Option<CancelRequest>, Option<SignalId>),
    /// The row has this status after the park. A workflow that only started children may have kept
    /// its claim.
    Parked(Timestamp, Status, Option<SignalId>),
    /// Nothing was written: the step must answer this cancel first.
    Yielded(CancelRequest),
}

/// The answers of a batch's statements, by claim.
///
/// Not by instance: a batch may hold a lost claim beside the current claim of the same instance. A
/// claim that no statement answers is lost.
#[derive(Default)]
struct BatchAnswers {
    decided: HashMap<ClaimRef, Decided>,
    /// The times of events that were written by a separate statement, before their outcomes.
    appended: HashMap<ClaimRef, Timestamp>,
}

impl BatchAnswers {
    /// Adds the times of events. The outcome itself is written by a later statement.
    fn add_appended(&mut self, rows: &[Row]) -> Result<(), Failure> {
        for row in rows {
            self.appended.insert(claim_of(row)?, time(row, "at")?);
        }
        Ok(())
    }

    /// Adds the claims whose outcomes were written, and the queues that now have more to run.
    fn add_advanced(&mut self, rows: &[Row], woken: &mut QueueNames) -> Result<(), Failure> {
        self.decided.reserve(rows.len());
        for row in rows {
            add_woken(woken, row)?;
            let decided =
                Decided::Advanced(time(row, "at")?, pending_cancel(row)?, latest_signal(row)?);
            self.decided.insert(claim_of(row)?, decided);
        }
        Ok(())
    }

    /// Adds the claims that were given up, each with the status that the database decided on.
    fn add_parked(&mut self, rows: &[Row], woken: &mut QueueNames) -> Result<(), Failure> {
        for row in rows {
            add_woken(woken, row)?;
            let decided = Decided::Parked(time(row, "at")?, status(row, "status")?, None);
            self.decided.insert(claim_of(row)?, decided);
        }
        Ok(())
    }

    /// Adds the outcomes of workflows. A row with a cancel was not written and yields to it.
    fn add_flowed(&mut self, rows: &[Row], woken: &mut QueueNames) -> Result<(), Failure> {
        for row in rows {
            add_woken(woken, row)?;
            let decided = match pending_cancel(row)? {
                Some(cancel) => Decided::Yielded(cancel),
                None => Decided::Parked(
                    time(row, "at")?,
                    status(row, "status")?,
                    latest_signal(row)?,
                ),
            };
            self.decided.insert(claim_of(row)?, decided);
        }
        Ok(())
    }

    fn answer(&mut self, commit: &Commit) -> Answer {
        let (at, status, cancel, latest_signal) = match self.decided.remove(&commit.claim) {
            None => return Answer::Lost,
            Some(Decided::Yielded(cancel)) => return Answer::Cancel(cancel),
            Some(Decided::Advanced(at, cancel, latest_signal)) => {
                (at, status_after(&commit.outcome), cancel, latest_signal)
            }
            Some(Decided::Parked(at, status, latest_signal)) => {
                let awaits_names = !commit.outcome.awaited_names().is_empty();
                (at, status.derived(awaits_names), None, latest_signal)
            }
        };
        Answer::Committed {
            revision: commit.claim.revision.next(),
            status,
            cancel,
            latest_signal,
            // Events that were written before the outcome carry an earlier time. That time counts.
            at: self.appended.remove(&commit.claim).unwrap_or(at),
        }
    }
}

fn latest_signal(row: &Row) -> Result<Option<SignalId>, Failure> {
    Ok(column::<Option<i64>>(row, "latest_signal")?.map(SignalId))
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
