//! Outcomes of workflows, as the statements that write them. commit.rs calls this file.
//!
//! No event is written without its outcome: both have the same fence (I14). A workflow that parks
//! or starts children yields to an unanswered cancel, and then nothing of its outcome is written.

use crate::history_events;
use crate::session::statement::{self, Call, Parameter, documents, references, value};
use crate::verbs::commit::outcome::{
    error, has_keyed_children, names_literal, number_literal, status_after, window,
};
use outlast_core::{ClaimRef, Commit, Due, Flowing, InstanceId, JoinSets, Outcome, limits, micros};

/// The statement that writes an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenBy {
    /// commit/advance.sql or commit/park.sql, as for machines.
    AdvanceOrPark,
    /// commit/advance_workflow.sql, with the events. The workflow goes on or finishes.
    Proceed,
    /// commit/park_workflow.sql. The workflow parks or starts children, and yields to a cancel.
    Flow,
    /// commit/continue_as_new.sql.
    ContinueAsNew,
}

/// Returns the statement that writes the row of an outcome. Each outcome has exactly one.
///
/// An end with events goes by the statement that writes both. It may be the end of a machine that
/// records its history (docs/decisions/0035).
pub(crate) fn written_by(commit: &Commit) -> WrittenBy {
    match &commit.outcome {
        Outcome::Flow { children, then, .. } => match then {
            Flowing::Proceed(_) if children.is_empty() => WrittenBy::Proceed,
            Flowing::Proceed(_) | Flowing::Park(_) => WrittenBy::Flow,
        },
        Outcome::ContinueAsNew { .. } => WrittenBy::ContinueAsNew,
        Outcome::Done { .. } | Outcome::Fail { .. } | Outcome::Cancel { .. }
            if !commit.events.is_empty() =>
        {
            WrittenBy::Proceed
        }
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => WrittenBy::AdvanceOrPark,
    }
}

/// Returns whether nothing of the outcome is written while a cancel is unanswered.
///
/// Each statement of such an outcome checks it again: the events, the consumed signals and the
/// children, not only the row. The row is locked, so all of them see the same cancel (I13).
pub(crate) fn yields(commit: &Commit) -> bool {
    written_by(commit) == WrittenBy::Flow && !commit.answers_cancel
}

/// Appends the events of the outcomes that commit/advance_workflow.sql does not write.
pub(crate) fn appending<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| written_by(commit) != WrittenBy::Proceed && !commit.events.is_empty());
    if rows.is_empty() {
        return None;
    }
    let mut parameters = claimed(&rows);
    parameters.push(yielding(&rows));
    parameters.extend(history_events::columns(&rows));
    Some(statement::HISTORY_APPEND.with(parameters))
}

/// Writes the views that are published with outcomes.
pub(crate) fn publishing<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| !commit.views.is_empty());
    if rows.is_empty() {
        return None;
    }
    let mut parameters = claimed(&rows);
    parameters.push(yielding(&rows));
    parameters.extend(history_events::view_columns(&rows));
    Some(statement::HISTORY_PUBLISH.with(parameters))
}

/// Writes the rows that go on or finish.
pub(crate) fn proceeding<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut rows = written(batch, WrittenBy::Proceed)?;
    // If the batch locked nothing before, this order is the order of the locks.
    rows.sort_by_key(|commit| commit.claim.id);
    let mut parameters = claimed(&rows);
    parameters.extend([
        statuses(&rows),
        answering(&rows),
        value(of_each(&rows, |outcome| outcome.end().is_some())),
        value(documents(rows.iter().map(|row| row.outcome.result()))),
        value(of_each(&rows, error)),
    ]);
    parameters.extend(history_events::columns(&rows));
    Some(statement::COMMIT_ADVANCE_WORKFLOW.with(parameters))
}

/// Writes the rows that park or have started children.
///
/// The park looks at its awaited children under the row's lock. A child that ends later waits for
/// that lock and finds the park (docs/protocol.md, defect 2).
pub(crate) fn flowing<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let rows = written(batch, WrittenBy::Flow)?;
    let mut parameters = claimed(&rows);
    parameters.extend([
        value(of_each(&rows, comes_to)),
        answering(&rows),
        value(of_each(&rows, Outcome::begins_round)),
        value(of_each(&rows, has_keyed_children)),
        value(of_each(&rows, window)),
        value(of_each(&rows, names_literal)),
        value(of_each(&rows, after_us)),
        value(of_each(&rows, at_us)),
        ranges(&rows, |[_, round, ..]| round),
        ranges(&rows, |[set, ..]| set),
        ranges(&rows, |[_, _, first, _]| first),
        ranges(&rows, |[.., last]| last),
        numbers(&rows, |joins| joins.sets.iter().map(|set| set.count)),
        numbers(&rows, |joins| awaited(joins).map(|(_, child)| child)),
        numbers(&rows, |joins| awaited(joins).map(|(set, _)| set)),
        value(of_each(&rows, needs_all)),
    ]);
    Some(statement::COMMIT_PARK_WORKFLOW.with(parameters))
}

/// Writes the rows that continue as new, and removes the histories of their oldest runs.
///
/// Sent after [`appending`], whose events belong to the run that ends here.
pub(crate) fn continuing_as_new<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let rows = written(batch, WrittenBy::ContinueAsNew)?;
    let states = documents(rows.iter().map(|commit| commit.outcome.state()));
    let mut parameters = claimed(&rows);
    parameters.extend([value(states), answering(&rows), value(limits::RUNS_KEPT)]);
    Some(statement::COMMIT_CONTINUE_AS_NEW.with(parameters))
}

fn written<'a>(batch: &[&'a Commit], wanted: WrittenBy) -> Option<Vec<&'a Commit>> {
    let mut rows: Vec<&'a Commit> = batch.to_vec();
    rows.retain(|commit| written_by(commit) == wanted);
    (!rows.is_empty()).then_some(rows)
}

fn claimed(rows: &[&Commit]) -> Vec<Parameter<'static>> {
    let claims: Vec<ClaimRef> = rows.iter().map(|commit| commit.claim).collect();
    Vec::from(references(&claims))
}

fn of_each<'a, T>(rows: &[&'a Commit], of: impl Fn(&'a Outcome) -> T) -> Vec<T> {
    rows.iter().map(|commit| of(&commit.outcome)).collect()
}

fn statuses(rows: &[&Commit]) -> Parameter<'static> {
    value(of_each(rows, |outcome| status_after(outcome).as_str()))
}

pub(crate) fn answering(rows: &[&Commit]) -> Parameter<'static> {
    let answers = rows.iter().map(|commit| commit.answers_cancel);
    value(answers.collect::<Vec<bool>>())
}

pub(crate) fn yielding(rows: &[&Commit]) -> Parameter<'static> {
    let yields = rows.iter().map(|commit| yields(commit));
    value(yields.collect::<Vec<bool>>())
}

/// Returns the next status of a row that does not park.
fn comes_to(outcome: &Outcome) -> Option<&'static str> {
    match outcome.park() {
        Some(_) => None,
        None => Some(status_after(outcome).as_str()),
    }
}

fn needs_all(outcome: &Outcome) -> bool {
    outcome.park().is_some_and(|park| park.needs_all)
}

fn deadline(outcome: &Outcome) -> Option<Due> {
    outcome.park().and_then(|park| park.deadline)
}

fn after_us(outcome: &Outcome) -> Option<i64> {
    match deadline(outcome) {
        Some(Due::After(delay)) => Some(micros(delay)),
        Some(Due::At(_)) | None => None,
    }
}

fn at_us(outcome: &Outcome) -> Option<i64> {
    match deadline(outcome) {
        Some(Due::At(moment)) => Some(moment.0),
        Some(Due::After(_)) | None => None,
    }
}

/// Returns one number of each child range that the workflows wait for.
fn ranges<'a>(rows: &[&'a Commit], of: impl Fn([i32; 4]) -> i32) -> Parameter<'static> {
    numbers(rows, |joins: &'a JoinSets| joins.stored_spans().map(&of))
}

/// Returns the awaited children, each with the number of its join set, counted from 1.
///
/// They are children of earlier commits. Children that this commit starts have no id yet, so a
/// set names them by round and position.
fn awaited(joins: &JoinSets) -> impl Iterator<Item = (i32, InstanceId)> {
    let sets = (1..).zip(&joins.sets);
    sets.flat_map(|(number, set)| set.children.iter().map(move |child| (number, *child)))
}

/// Returns numbers of the join sets as array literals; null for a workflow without any.
fn numbers<'a, N, T>(rows: &[&'a Commit], of: impl Fn(&'a JoinSets) -> N) -> Parameter<'static>
where
    N: Iterator<Item = T>,
    T: ToString,
{
    let literal = |joins| number_literal(of(joins).map(Some));
    value(of_each(rows, |outcome| join_sets(outcome).map(literal)))
}

fn join_sets(outcome: &Outcome) -> Option<&JoinSets> {
    outcome.park().and_then(|park| park.join_sets.as_ref())
}
