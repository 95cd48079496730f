//! The changes that the mutants of families make.

use crate::model::Tables;
use outlast_core::{CascadeAction, InstanceId, Status};

/// Removes the cascades that a parent's end has left.
pub(super) fn forget_policies(after: &mut Tables) {
    let is_kept = |action| action != CascadeAction::Policy;
    after.cascades.retain(|_, it| is_kept(it.action));
}

/// Counts failed children as successful ones.
pub(super) fn forget_failures(after: &mut Tables) {
    let barriers = after.instances.values_mut();
    let barriers = barriers.filter_map(|row| row.barrier.as_mut());
    barriers.for_each(|it| it.failed = 0);
}

/// Takes a new place in a window away.
pub(super) fn take_places_away(before: &Tables, after: &mut Tables) {
    for (id, row) in &mut after.instances {
        let waited = before.instances.get(id).map(|old| old.held) == Some(Some(true));
        if waited && !row.status.is_terminal() {
            row.held = Some(true);
        }
    }
}

/// Gives a place to every child of a round in which one got a place.
pub(super) fn admit_all_siblings(before: &Tables, after: &mut Tables) {
    let was_admitted = |id: &InstanceId, held| {
        let before = before.instances.get(id).map(|old| old.held);
        before == Some(Some(true)) && held == Some(false)
    };
    let admitted = after.instances.iter();
    let admitted = admitted.filter(|(id, row)| was_admitted(id, row.held));
    let rounds: Vec<_> = admitted.filter_map(|(_, row)| row.parent).collect();
    for row in after.instances.values_mut() {
        if row.held == Some(true) && row.parent.is_some_and(|it| rounds.contains(&it)) {
            row.held = Some(false);
        }
    }
}

/// Makes the last failure the first.
pub(super) fn move_first_failures(after: &mut Tables) {
    let bad = after.instances.values();
    let bad = bad.filter(|row| matches!(row.status, Status::Failed | Status::Cancelled));
    let bad: Vec<_> = bad.filter_map(|row| Some((row.parent?, row.id))).collect();
    for row in after.instances.values_mut() {
        let (id, round) = (row.id, row.round);
        let Some(barrier) = row.barrier.as_mut() else {
            continue;
        };
        let of_round = bad
            .iter()
            .filter(|(it, _)| it.id == id && it.round == round);
        if barrier.first_failure.is_some() {
            barrier.first_failure = of_round.map(|(_, child)| *child).max();
        }
    }
}

/// Removes new cancels.
pub(super) fn forget_cancels(before: &Tables, after: &mut Tables) {
    for (id, row) in &mut after.instances {
        let old = before.instances.get(id);
        row.cancel = old.and_then(|old| old.cancel.clone());
    }
}
