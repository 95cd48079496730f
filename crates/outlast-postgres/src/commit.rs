//! Writing what steps decided.
//!
//! A commit is one pipeline: lock the own rows, spawn, consume, count off the parents, let the next in
//! line through, and last write the rows. Until that last statement the fence still tells our rows from
//! lost ones, so each statement before it can check for itself.

use crate::claim::{add_all, add_if, claim_before, held, references};
use crate::error::Failure;
use crate::insert;
use crate::row::{column, status};
use crate::session::{Purpose, Session};
use crate::statement::{self, Call, Statement, documents, value};
use outlast_core::{
    Answer, ClaimRef, Commit, Committed, Json, NewInstance, Outcome, Proceed, QueueNames, Result,
    Revision, Status, limits, micros,
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
            name if name == statement::COMMIT_SPAWN.name => {
                add_each_if(&mut woken, rows, "eligible")?
            }
            name if name == statement::COMMIT_JOIN.name => {
                add_each_if(&mut woken, rows, "released")?
            }
            name if name == statement::COMMIT_LET_THROUGH.name => add_all(&mut woken, rows)?,
            name if name == statement::COMMIT_APPLY.name => written = applied(rows, &mut woken)?,
            _ => {}
        }
    }
    let answers = batch
        .iter()
        .map(|commit| written.remove(&commit.claim).unwrap_or(Answer::Lost))
        .collect();
    Ok((answers, woken))
}

/// The statements a batch needs, in the order of the locks.
fn calls<'a>(batch: &[&'a Commit]) -> Vec<Call<'a>> {
    let all: Vec<ClaimRef> = batch.iter().map(|commit| commit.claim).collect();
    let mut calls = vec![statement::COMMIT_LOCK.with(references(&all))];
    calls.extend(spawning(batch));
    calls.extend(consuming(batch));
    let ending = claims_where(batch, |outcome| outcome.end().is_some());
    if !ending.is_empty() {
        calls.extend(ENDING.map(|statement| statement.with(held(&ending))));
    }
    let leaving = claims_where(batch, |outcome| !outcome.keeps_claim());
    if !leaving.is_empty() {
        calls.push(statement::COMMIT_LET_THROUGH.with(held(&leaving)));
    }
    calls.push(applying(batch));
    calls
}

/// What belongs to an end, besides the row itself.
pub(crate) const ENDING: [Statement; 3] = [
    statement::COMMIT_CLEAR,
    statement::COMMIT_LOCK_PARENTS,
    statement::COMMIT_JOIN,
];

fn claims_where(batch: &[&Commit], condition: impl Fn(&Outcome) -> bool) -> Vec<ClaimRef> {
    batch
        .iter()
        .filter(|commit| condition(&commit.outcome))
        .map(|commit| commit.claim)
        .collect()
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
    parameters.extend(insert::columns(spawned.iter().map(|s| s.child)));
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
        .filter(|commit| commit.outcome.consumes() && !commit.received.is_empty())
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

/// The rows themselves.
fn applying<'a>(batch: &[&'a Commit]) -> Call<'a> {
    let outcomes = || batch.iter().map(|commit| &commit.outcome);
    let claims: Vec<ClaimRef> = batch.iter().map(|commit| commit.claim).collect();
    let [ids, revisions] = references(&claims);
    statement::COMMIT_APPLY.with([
        ids,
        revisions,
        value(outcomes().map(kind).collect::<Vec<_>>()),
        value(outcomes().map(step).collect::<Vec<_>>()),
        value(documents(outcomes().map(state))),
        value(outcomes().map(delay_us).collect::<Vec<_>>()),
        value(outcomes().map(names_literal).collect::<Vec<_>>()),
        value(documents(outcomes().map(result))),
        value(outcomes().map(error).collect::<Vec<_>>()),
        value(
            batch
                .iter()
                .map(|commit| received_literal(commit))
                .collect::<Vec<_>>(),
        ),
        value(outcomes().map(has_keyed_children).collect::<Vec<bool>>()),
    ])
}

/// The answers by claim: a batch may hold a lost claim of an instance beside the one that counts.
fn applied(rows: &[Row], woken: &mut QueueNames) -> Result<HashMap<ClaimRef, Answer>, Failure> {
    let mut written = HashMap::with_capacity(rows.len());
    for row in rows {
        let status = status(row, "status")?;
        if status == Status::Runnable {
            add_if(woken, row, "eligible")?;
        }
        let revision = column(row, "revision").map(Revision)?;
        written.insert(claim_before(row)?, Answer::Committed { revision, status });
    }
    Ok(written)
}

fn add_each_if(woken: &mut QueueNames, rows: &[Row], condition: &str) -> Result<(), Failure> {
    rows.iter()
        .try_for_each(|row| add_if(woken, row, condition))
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Next {
            proceed: Proceed::KeepClaim,
            ..
        } => "keep",
        Outcome::Next {
            proceed: Proceed::Requeue,
            ..
        } => "next",
        Outcome::Retry { .. } => "retry",
        Outcome::Wait { .. } => "wait",
        Outcome::FanOut { .. } => "fan_out",
        Outcome::Done { .. } => "done",
        Outcome::Stop { .. } => "stop",
        Outcome::Cancel { .. } => "cancel",
    }
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
        Outcome::Next { .. }
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
