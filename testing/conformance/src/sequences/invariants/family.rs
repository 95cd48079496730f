//! The invariants of parents and children.

use super::super::state::State;
use outlast_core::{ClosePolicy, Instance, InstanceId, Parent, Status, Verb};
use std::collections::BTreeMap;

/// Returns the invariants that a single row breaks.
pub(super) fn broken_in_row(row: &Instance) -> impl Iterator<Item = &'static str> {
    let is_joining = row.status == Status::AwaitingChildren;
    let is_undecided = row.barrier.is_some_and(|it| {
        let decided = it
            .until
            .decided(it.started, row.children_pending, it.failed);
        it.joined.is_none() && decided.is_none()
    });
    let has_pending_cancel = row.cancel.as_ref().is_some_and(|it| !it.answered);
    let is_waiting = matches!(row.status, Status::AwaitingSignal | Status::Sleeping);
    let is_parked = is_joining || is_waiting;
    let rules = [
        (
            row.barrier.is_some() == (row.round > 0),
            "it has a join if and only if it has fanned out",
        ),
        (
            !is_joining || is_undecided,
            "I6: it waits for a join that is decided",
        ),
        (
            !(has_pending_cancel && is_parked),
            "I13: it is parked on a cancel that it has not answered",
        ),
        (
            row.held != Some(true) || row.status == Status::Runnable,
            "a child that waits for a place is runnable",
        ),
        (
            row.parent.is_some() == row.position.is_some(),
            "it has a position if and only if it has a parent",
        ),
        (
            row.parent.is_some()
                || (row.held.is_none() && row.on_parent_close == ClosePolicy::Abandon),
            "only children have places and close policies",
        ),
    ];
    rules
        .into_iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, rule)| rule)
}

/// Returns the invariants that the rounds break.
pub(super) fn broken_in(state: &State) -> Vec<String> {
    let mut rounds: BTreeMap<(InstanceId, i32), Vec<&Instance>> = BTreeMap::new();
    for row in &state.instances {
        if let Some(Parent { id, round }) = row.parent {
            rounds.entry((id, round)).or_default().push(row);
        }
    }
    let mut broken = Vec::new();
    for ((parent, round), children) in rounds {
        let rules = broken_in_window(&children)
            .into_iter()
            .chain(state.instance(parent).and_then(|row| {
                let joins = row.status == Status::AwaitingChildren && row.joining.is_none();
                let waits = joins && row.round == round;
                broken_in_join(row, &children).filter(|_| waits)
            }));
        broken.extend(rules.map(|rule| format!("round {round} of {parent}: {rule}")));
    }
    broken
}

fn broken_in_join(parent: &Instance, children: &[&Instance]) -> Option<&'static str> {
    let barrier = parent.barrier?;
    let bad = children.iter().filter(|row| ended_badly(row));
    if usize::try_from(barrier.failed) != Ok(bad.clone().count()) {
        return Some("I6: the count of failed children is wrong");
    }
    let is_bad = |first: InstanceId| bad.clone().any(|row| row.id == first);
    match barrier.first_failure {
        Some(first) if !is_bad(first) => Some("the first failure is not a failed child"),
        None if barrier.failed > 0 => Some("children have failed, and there is no first failure"),
        Some(_) | None => None,
    }
}

/// I2: while children wait for a place, a live child must have one.
fn broken_in_window(children: &[&Instance]) -> Option<&'static str> {
    let waits = children.iter().any(|row| row.held == Some(true));
    let runs = |row: &&Instance| row.held == Some(false) && !row.status.is_terminal();
    (waits && !children.iter().any(runs))
        .then_some("I2: children wait for a place, and no live child has one")
}

/// Returns the invariant that the change from `old` to `new` breaks.
pub(super) fn broken_between(old: &Instance, new: &Instance) -> Option<&'static str> {
    let was_retried = old.status.is_terminal() && !new.status.is_terminal();
    match (&old.cancel, &new.cancel) {
        (Some(_), None) if !was_retried => Some("I13: a cancel was forgotten"),
        (Some(old), Some(new)) if old.reason != new.reason => Some("a cancel was replaced"),
        (Some(old), Some(new)) if old.answered && !new.answered => {
            Some("the answer to a cancel was forgotten")
        }
        (Some(_) | None, Some(_) | None) => None,
    }
}

/// Returns the children that break I13 after all cascades have run.
///
/// A child whose policy follows its parent must have finished, or have a cancel.
pub(in super::super) fn broken_at_rest(state: &State) -> Vec<String> {
    let outlived = |row: &&Instance| {
        let parent = row.parent.and_then(|it| state.instance(it.id));
        let ended_at = parent.and_then(|it| it.finished_at);
        let was_told = match row.on_parent_close {
            ClosePolicy::Abandon => true,
            ClosePolicy::RequestCancel => row.cancel.is_some(),
            ClosePolicy::Terminate => false,
        };
        // An operator has retried the child since, so it may live.
        let was_retried = state.operations.iter().any(|it| {
            it.verb == Verb::Retry && it.instance == Some(row.id) && Some(it.at) >= ended_at
        });
        ended_at.is_some() && !row.status.is_terminal() && !was_told && !was_retried
    };
    let outlived = state.instances.iter().filter(outlived);
    outlived
        .map(|row| format!("I13: instance {} outlived its parent", row.id))
        .collect()
}

fn ended_badly(row: &Instance) -> bool {
    matches!(row.status, Status::Failed | Status::Cancelled)
}
