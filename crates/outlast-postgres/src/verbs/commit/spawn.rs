//! Children of fan-outs and workflows, as the statements of a commit that insert them.
//!
//! commit.rs calls this file. A child is inserted only under the fence of its parent, and before
//! the parent's own row is written.

use crate::session::statement::{self, Call, documents, references, value};
use crate::verbs::commit::outcome::{self, has_keyed_children, window};
use crate::verbs::insert;
use outlast_core::{ClaimRef, Commit, NewInstance};

/// Returns the calls that insert children and record those that were not started.
///
/// Children without keys that differ only in their state go by the shorter statement. They cannot
/// conflict, so there is nothing to report and no slot to hand on.
pub(crate) fn spawning<'a>(batch: &[&'a Commit]) -> Vec<Call<'a>> {
    let spawned: Vec<Spawned<'a>> = batch
        .iter()
        .flat_map(|commit| children_of(commit))
        .collect();
    let Some(first) = spawned.first() else {
        return Vec::new();
    };
    let parents: Vec<ClaimRef> = spawned.iter().map(|s| s.parent).collect();
    let mut parameters = Vec::from(references(&parents));
    let children = spawned.iter().map(|s| s.child);
    let positions = value(spawned.iter().map(|s| s.position).collect::<Vec<i32>>());
    let held = value(spawned.iter().map(|s| s.held).collect::<Vec<_>>());
    let answers = value(
        spawned
            .iter()
            .map(|s| s.answers_cancel)
            .collect::<Vec<bool>>(),
    );
    if insert::are_alike(children.clone()) {
        parameters.push(value(documents(children.map(|child| Some(&child.state)))));
        parameters.extend([positions, held, answers]);
        parameters.extend(insert::of_all(first.child));
        parameters.push(value(outcome::policy(first.child.on_parent_close)));
        return vec![statement::COMMIT_SPAWN_ALIKE.with(parameters)];
    }
    let policies = children.clone().map(|c| outcome::policy(c.on_parent_close));
    let policies = value(policies.collect::<Vec<_>>());
    parameters.extend(insert::columns(children));
    parameters.extend([positions, policies, held, answers]);
    let mut calls = vec![statement::COMMIT_SPAWN.with(parameters)];
    calls.extend(reporting_dropped(&spawned));
    calls.extend(filling_windows(batch));
    calls
}

/// Records on the parents the children whose key was occupied (docs/protocol.md, defect 6).
///
/// Sent after the insert: a child was started if the holder of its key is a child of this round.
fn reporting_dropped<'a>(spawned: &[Spawned<'a>]) -> Option<Call<'a>> {
    let keyed: Vec<(&Spawned<'a>, &'a str)> = spawned
        .iter()
        .filter_map(|s| s.child.correlation.as_ref().map(|c| (s, c.key.as_str())))
        .collect();
    if keyed.is_empty() {
        return None;
    }
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
    let answers = keyed.iter().map(|(s, _)| s.answers_cancel);
    parameters.push(value(answers.collect::<Vec<bool>>()));
    Some(statement::COMMIT_REPORT_DROPPED.with(parameters))
}

/// Gives the window slot of a child that was not started to the next child.
///
/// The insert assigns slots by position, before it knows which keys are occupied.
fn filling_windows<'a>(batch: &[&'a Commit]) -> Option<Call<'a>> {
    let mut parents = Vec::new();
    let mut windows: Vec<i32> = Vec::new();
    for commit in batch {
        if let Some(window) = window(&commit.outcome)
            && has_keyed_children(&commit.outcome)
        {
            parents.push(commit.claim);
            windows.push(window);
        }
    }
    let [ids, revisions] = references(&parents);
    (!parents.is_empty()).then(|| statement::WINDOW_FILL.with([ids, revisions, value(windows)]))
}

/// A child with the claim that starts it.
///
/// A batch inserts the children of all its parents together, so each names its parent.
struct Spawned<'a> {
    parent: ClaimRef,
    answers_cancel: bool,
    position: i32,
    /// Whether it waits for a slot in a window, if all children before it start.
    held: Option<bool>,
    child: &'a NewInstance,
}

fn children_of(commit: &Commit) -> impl Iterator<Item = Spawned<'_>> {
    let window = window(&commit.outcome);
    let children = commit.outcome.children().iter();
    children.zip(0..).map(move |(child, position)| Spawned {
        parent: commit.claim,
        answers_cancel: commit.answers_cancel,
        position,
        held: window.map(|places| position >= places),
        child,
    })
}
