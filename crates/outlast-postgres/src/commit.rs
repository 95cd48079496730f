//! Writing what steps decided.
//!
//! A commit is one pipeline: lock the own rows, spawn, consume, write the rows, empty the inboxes of those that
//! ended, count them off their parents, and let the next in line through. Until the rows are written the fence
//! tells ours from lost ones; from then on, what this transaction has written does. So each statement can
//! check for itself. Most batches begin with the writing: only who parks or consumes must look under a lock
//! first.

use crate::claim::{add_all, add_if, claim_of, ids_of, references};
use crate::error::Failure;
use crate::insert;
use crate::opening::Purpose;
use crate::row::{column, status};
use crate::session::Session;
use crate::statement::{self, Call, Parameter, documents, value};
use outlast_core::{
    Answer, ClaimRef, Commit, Committed, Json, NewInstance, Outcome, Proceed, QueueNames, Result,
    Status, limits, micros,
};
use std::collections::HashMap;
use tokio_postgres::Row;

pub(crate) async fn commit(session: &Session, commits: &[Commit]) -> Result<Committed> {
    Commit::check_batch(commits).map_err(|invalid| invalid.during("commit"))?;
    let mut answers = Commit::foregone(commits);
    let writable: Vec<usize> = (0..commits.len())
        .filter(|&position| answers[position].is_none())
        .collect();
    let mut woken = QueueNames::new();
    write(session, commits, &writable, &mut answers, &mut woken).await?;
    Ok(Committed {
        answers: answers
            .into_iter()
            .map(|answer| answer.unwrap_or(Answer::Lost))
            .collect(),
        woken,
    })
}

/// Writes the outcomes at `positions` in one transaction. When the database blames a row, the batch is
/// halved until that row stands alone and is rejected; its neighbours are written.
async fn write(
    session: &Session,
    commits: &[Commit],
    positions: &[usize],
    answers: &mut [Option<Answer>],
    woken: &mut QueueNames,
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
            Written::All(batch_answers, queues) => {
                woken.extend(queues);
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
    All(Vec<Answer>, QueueNames),
    Blamed(Failure),
}

async fn write_or_blame(session: &Session, batch: &[&Commit]) -> Result<Written, Failure> {
    match write_once(session, batch).await {
        Ok((answers, woken)) => Ok(Written::All(answers, woken)),
        Err(failure) if failure.blames_a_row() => Ok(Written::Blamed(failure)),
        Err(failure) => Err(failure),
    }
}

async fn write_once(
    session: &Session,
    batch: &[&Commit],
) -> Result<(Vec<Answer>, QueueNames), Failure> {
    let calls = calls(batch);
    let answers = session.transact(Purpose::Write, &calls).await?;
    let mut woken = QueueNames::new();
    let mut written = HashMap::new();
    for (call, rows) in calls.iter().zip(&answers) {
        match call.statement.name {
            name if name == statement::COMMIT_SPAWN.name
                || name == statement::COMMIT_SPAWN_ALIKE.name =>
            {
                add_each_if(&mut woken, rows, "eligible")?
            }
            name if name == statement::COMMIT_JOIN.name => {
                add_each_if(&mut woken, rows, "released")?
            }
            name if name == statement::COMMIT_LET_THROUGH.name => add_all(&mut woken, rows)?,
            name if name == statement::COMMIT_ADVANCE.name => {
                add_written(&mut written, rows, false, &mut woken)?
            }
            name if name == statement::COMMIT_PARK.name => {
                add_written(&mut written, rows, true, &mut woken)?
            }
            _ => {}
        }
    }
    let answers = batch
        .iter()
        .map(|commit| match written.remove(&commit.claim) {
            Some(parked) => answer(commit, parked),
            None => Answer::Lost,
        })
        .collect();
    Ok((answers, woken))
}

/// The statements a batch needs, in the order of the locks.
fn calls<'a>(batch: &[&'a Commit]) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    if batch.iter().any(|commit| looks_before_it_writes(commit)) {
        let all: Vec<ClaimRef> = batch.iter().map(|commit| commit.claim).collect();
        calls.push(statement::COMMIT_LOCK.with([value(ids_of(&all))]));
    }
    calls.extend(spawning(batch));
    calls.extend(consuming(batch));
    calls.extend(advancing(batch));
    calls.extend(parking(batch));
    let ended = claims_where(batch, ends);
    if !ended.is_empty() {
        calls.push(clearing(&ended));
    }
    let joined = claims_where(batch, |commit| commit.ties.parent && ends(commit));
    if !joined.is_empty() {
        calls.push(joining(&joined));
    }
    let leaving = claims_where(batch, leaves_its_line);
    if !leaving.is_empty() {
        calls.push(statement::COMMIT_LET_THROUGH.with(references(&leaving)));
    }
    calls
}

/// Whether what its inbox or its children hold decides what is written.
fn looks_before_it_writes(commit: &Commit) -> bool {
    parks(&commit.outcome) || consumes_some(commit)
}

/// Whether it takes signals out of an inbox that stays. The inbox of one that ends is emptied as a whole.
fn consumes_some(commit: &Commit) -> bool {
    commit.outcome.consumes() && !commit.received.is_empty() && !ends(commit)
}

fn ends(commit: &Commit) -> bool {
    commit.outcome.end().is_some()
}

/// Whether somebody may wait behind it.
fn leaves_its_line(commit: &Commit) -> bool {
    commit.ties.partition_key && !commit.outcome.keeps_claim()
}

/// What ends mean for the parents, once this transaction has written them.
pub(crate) fn joining(ended: &[ClaimRef]) -> Call<'static> {
    statement::COMMIT_JOIN.with(references(ended))
}

/// What an end means for the inbox.
pub(crate) fn clearing<'a>(ended: &[ClaimRef]) -> Call<'a> {
    statement::COMMIT_CLEAR.with([value(ids_of(ended))])
}

fn claims_where(batch: &[&Commit], condition: impl Fn(&Commit) -> bool) -> Vec<ClaimRef> {
    let commits = batch.iter().filter(|commit| condition(commit));
    commits.map(|commit| commit.claim).collect()
}

/// Children in, and a report of those that were not started.
fn spawning<'a>(batch: &[&'a Commit]) -> Vec<Call<'a>> {
    let spawned: Vec<Spawned<'a>> = batch
        .iter()
        .flat_map(|commit| children_of(commit))
        .collect();
    if spawned.is_empty() {
        return Vec::new();
    }
    let parents: Vec<ClaimRef> = spawned.iter().map(|s| s.parent).collect();
    let mut parameters = Vec::from(references(&parents));
    let children = spawned.iter().map(|s| s.child);
    if insert::are_alike(children.clone()) {
        parameters.push(value(documents(children.map(|child| Some(&child.state)))));
        parameters.extend(insert::of_all(spawned[0].child));
        return vec![statement::COMMIT_SPAWN_ALIKE.with(parameters)];
    }
    parameters.extend(insert::columns(children));
    let mut calls = vec![statement::COMMIT_SPAWN.with(parameters)];

    let keyed: Vec<(&Spawned<'a>, &'a str)> = spawned
        .iter()
        .filter_map(|s| s.child.correlation.as_ref().map(|c| (s, c.key.as_str())))
        .collect();
    if !keyed.is_empty() {
        let parents: Vec<ClaimRef> = keyed.iter().map(|(s, _)| s.parent).collect();
        let mut parameters = Vec::from(references(&parents));
        parameters.push(value(
            keyed.iter().map(|(s, _)| s.position).collect::<Vec<i32>>(),
        ));
        parameters.push(value(
            keyed
                .iter()
                .map(|(s, _)| s.child.machine.as_str())
                .collect::<Vec<_>>(),
        ));
        parameters.push(value(keyed.iter().map(|(_, key)| *key).collect::<Vec<_>>()));
        calls.push(statement::COMMIT_REPORT_DROPPED.with(parameters));
    }
    calls
}

/// A child with the claim that starts it.
struct Spawned<'a> {
    parent: ClaimRef,
    position: i32,
    child: &'a NewInstance,
}

fn children_of(commit: &Commit) -> impl Iterator<Item = Spawned<'_>> {
    let children = match &commit.outcome {
        Outcome::FanOut { children, .. } => children.as_slice(),
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::Wait { .. }
        | Outcome::Done { .. }
        | Outcome::Stop { .. }
        | Outcome::Cancel { .. } => &[],
    };
    children.iter().zip(0..).map(|(child, position)| Spawned {
        parent: commit.claim,
        position,
        child,
    })
}

fn consuming<'a>(batch: &[&Commit]) -> Option<Call<'a>> {
    let consumers: Vec<&&Commit> = batch
        .iter()
        .filter(|commit| consumes_some(commit))
        .collect();
    if consumers.is_empty() {
        return None;
    }
    let claims: Vec<ClaimRef> = consumers.iter().map(|commit| commit.claim).collect();
    let [ids, revisions] = references(&claims);
    let received: Vec<String> = consumers
        .iter()
        .map(|commit| received_literal(commit))
        .collect();
    Some(statement::COMMIT_CONSUME.with([ids, revisions, value(received)]))
}

/// The rows that go on or end.
fn advancing<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| !parks(&commit.outcome));
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
            value(documents(outcomes().map(state))),
            value(outcomes().map(delay_us).collect::<Vec<_>>()),
            value(documents(outcomes().map(result))),
            value(outcomes().map(error).collect::<Vec<_>>()),
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
    Some(statement::COMMIT_PARK.with([
        ids,
        revisions,
        value(outcomes().map(Outcome::is_fan_out).collect::<Vec<bool>>()),
        value(outcomes().map(step).collect::<Vec<_>>()),
        value(documents(outcomes().map(state))),
        value(outcomes().map(delay_us).collect::<Vec<_>>()),
        value(outcomes().map(names_literal).collect::<Vec<_>>()),
        value(received.collect::<Vec<_>>()),
        value(outcomes().map(has_keyed_children).collect::<Vec<bool>>()),
    ]))
}

fn claimed(rows: &[&Commit]) -> [Parameter<'static>; 2] {
    let claims: Vec<ClaimRef> = rows.iter().map(|commit| commit.claim).collect();
    references(&claims)
}

fn parks(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Wait { .. } | Outcome::FanOut { .. } => true,
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::Done { .. }
        | Outcome::Stop { .. }
        | Outcome::Cancel { .. } => false,
    }
}

/// Adds the claims whose outcomes were written, and the queues that have more to run. By claim and not by
/// instance: a batch may hold a lost claim beside the one that counts.
fn add_written(
    written: &mut HashMap<ClaimRef, Option<Status>>,
    rows: &[Row],
    parked: bool,
    woken: &mut QueueNames,
) -> Result<(), Failure> {
    written.reserve(rows.len());
    for row in rows {
        if let Some(queue) = column::<Option<&str>>(row, "woken")?
            && !woken.contains(queue)
        {
            woken.insert(queue.to_owned());
        }
        let status = parked.then(|| status(row, "status")).transpose()?;
        written.insert(claim_of(row)?, status);
    }
    Ok(())
}

/// Only of an instance that parks does the store decide what it comes to.
fn answer(commit: &Commit, parked: Option<Status>) -> Answer {
    Answer::Committed {
        revision: commit.claim.revision.next(),
        status: parked.unwrap_or_else(|| status_after(&commit.outcome)),
    }
}

/// What an instance that does not park comes to.
fn status_after(outcome: &Outcome) -> Status {
    let going_on = match outcome.keeps_claim() {
        true => Status::Executing,
        false => Status::Runnable,
    };
    outcome.end().unwrap_or(going_on)
}

fn add_each_if(woken: &mut QueueNames, rows: &[Row], condition: &str) -> Result<(), Failure> {
    rows.iter()
        .try_for_each(|row| add_if(woken, row, condition))
}

fn step(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Next { step, .. } | Outcome::Wait { step, .. } | Outcome::FanOut { step, .. } => {
            Some(step)
        }
        Outcome::Retry { .. }
        | Outcome::Done { .. }
        | Outcome::Stop { .. }
        | Outcome::Cancel { .. } => None,
    }
}

fn state(outcome: &Outcome) -> Option<&Json> {
    match outcome {
        Outcome::Next { state, .. }
        | Outcome::Retry { state, .. }
        | Outcome::Wait { state, .. }
        | Outcome::FanOut { state, .. } => Some(state),
        Outcome::Done { .. } | Outcome::Stop { .. } | Outcome::Cancel { .. } => None,
    }
}

fn delay_us(outcome: &Outcome) -> Option<i64> {
    match outcome {
        Outcome::Retry { delay, .. } => Some(micros(*delay)),
        Outcome::Wait { timeout, .. } => timeout.map(micros),
        Outcome::Next {
            proceed: Proceed::Requeue,
            ..
        } => Some(0),
        Outcome::Next {
            proceed: Proceed::KeepClaim,
            ..
        }
        | Outcome::FanOut { .. }
        | Outcome::Done { .. }
        | Outcome::Stop { .. }
        | Outcome::Cancel { .. } => None,
    }
}

fn result(outcome: &Outcome) -> Option<&Json> {
    let Outcome::Done { result } = outcome else {
        return None;
    };
    Some(result)
}

fn error(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Stop { reason } | Outcome::Cancel { reason } => Some(limits::clean_error(reason)),
        Outcome::Retry { error, .. } => error.as_deref().map(limits::clean_error),
        Outcome::Next { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. }
        | Outcome::Done { .. } => None,
    }
}

fn has_keyed_children(outcome: &Outcome) -> bool {
    let Outcome::FanOut { children, .. } = outcome else {
        return false;
    };
    children.iter().any(|child| child.correlation.is_some())
}

/// The awaited names as an array literal: nested arrays of different lengths cannot be sent.
fn names_literal(outcome: &Outcome) -> Option<String> {
    let Outcome::Wait { names, .. } = outcome else {
        return None;
    };
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    Some(format!("{{{}}}", quoted.join(",")))
}

fn received_literal(commit: &Commit) -> String {
    let ids: Vec<String> = commit.received.iter().map(ToString::to_string).collect();
    format!("{{{}}}", ids.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awaited_names_are_quoted_as_an_array_literal() {
        let wait = Outcome::Wait {
            names: vec![
                "plain".into(),
                "with \"quotes\"".into(),
                "back\\slash, {brace}".into(),
            ],
            step: "s".into(),
            state: Json::null(),
            timeout: None,
        };
        assert_eq!(
            names_literal(&wait).as_deref(),
            Some(r#"{"plain","with \"quotes\"","back\\slash, {brace}"}"#)
        );
    }
}
