//! Checks the invariants of docs/protocol.md on every state.

mod family;
mod flows;

pub(super) use family::broken_at_rest;

use super::state::State;
use outlast_core::{Instance, SignalRow, Status};
use std::collections::BTreeMap;

/// Returns the invariants that `state` breaks.
pub(super) fn broken_in(state: &State) -> Vec<String> {
    let mut broken = Vec::new();
    for row in &state.instances {
        let rules = broken_in_row(row).chain(family::broken_in_row(row));
        broken.extend(rules.map(|what| format!("instance {}: {what}", row.id)));
        if row.status == Status::AwaitingChildren
            && row.joining.is_none()
            && row.children_pending != live_children(row, state)
        {
            broken.push(format!(
                "instance {}: I6: its pending count is not the number of its live children",
                row.id
            ));
        }
    }
    broken.extend(family::broken_in(state));
    broken.extend(flows::broken_in(state));
    for signal in &state.signals {
        broken.extend(broken_in_signal(signal, state));
    }
    let executing = state
        .instances
        .iter()
        .filter(|it| it.status == Status::Executing);
    let keys = executing.filter_map(|row| row.partition_key.clone());
    broken
        .extend(twice(keys).map(|key| format!("I8: two instances of partition key {key} execute")));
    let holders = state.instances.iter().filter(|row| row.holds_key);
    let keys = holders.map(|row| (row.machine.clone(), row.correlation_key.clone()));
    broken.extend(twice(keys).map(|key| format!("I9: two instances hold {key:?}")));
    broken
}

/// Returns the invariants that the change from `before` to `after` by one verb breaks.
pub(super) fn broken_between(before: &State, after: &State) -> Vec<String> {
    let mut broken = Vec::new();
    for old in &before.instances {
        let Some(new) = after.instance(old.id) else {
            if !old.status.is_terminal() {
                broken.push(format!("I1: instance {} vanished alive", old.id));
            }
            continue;
        };
        if new.revision < old.revision {
            broken.push(format!("I3: the revision of {} went back", old.id));
        }
        if new.status != old.status && !old.status.may_become(new.status) {
            broken.push(format!(
                "I4: {} went from {} to {}",
                old.id, old.status, new.status
            ));
        }
        let forgotten = family::broken_between(old, new).into_iter();
        let forgotten = forgotten.chain(flows::broken_between(old, new));
        broken.extend(forgotten.map(|what| format!("instance {}: {what}", old.id)));
        if new.holds_key && !old.holds_key {
            broken.push(format!("I9: {} took its key back", old.id));
        }
    }
    broken
}

fn broken_in_row(row: &Instance) -> impl Iterator<Item = &'static str> {
    let awaits_names = row.awaits.as_ref().is_some_and(|names| !names.is_empty());
    let rules = [
        (row.children_pending >= 0, "I6: pending is negative"),
        (
            row.status.is_terminal() == row.finished_at.is_some(),
            "it has finished if and only if it has a finish time",
        ),
        (
            (row.status == Status::Executing) == row.locked_by.is_some(),
            "it executes if and only if a worker has claimed it",
        ),
        (
            row.await_deadline.is_none()
                || matches!(
                    row.status,
                    Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren
                ),
            "only a wait, a sleep or a join has a deadline",
        ),
        (
            row.status != Status::Sleeping || row.await_deadline.is_some(),
            "I2: nothing could ever wake it",
        ),
        (
            row.status.is_parked() || !row.needs_all,
            "only a parked instance needs all",
        ),
        (
            row.status != Status::AwaitingSignal || awaits_names,
            "it awaits a signal if and only if it has names of signals",
        ),
        (
            row.status != Status::Sleeping || !awaits_names,
            "a sleeping instance awaits no signals",
        ),
        (
            row.status != Status::AwaitingChildren || row.children_pending > 0,
            "I6: it waits for a join without pending children",
        ),
        (
            row.status != Status::Done || row.result.is_some(),
            "it is done without a result",
        ),
        (
            row.result.is_none() || matches!(row.status, Status::Done | Status::Failed),
            "only a done or failed instance has a result",
        ),
        (
            !row.holds_key
                || row
                    .correlation_scope
                    .is_some_and(|it| it.contains(row.status)),
            "I9: it holds its key outside its scope",
        ),
    ];
    rules
        .into_iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, rule)| rule)
}

fn broken_in_signal(signal: &SignalRow, state: &State) -> Option<String> {
    let consumed = signal.consumed_at.is_some();
    if consumed != signal.payload.is_none() || consumed && signal.dedup_key.is_none() {
        return Some(format!(
            "signal {}: neither a signal nor a tombstone",
            signal.id
        ));
    }
    let ended = |row: &Instance| row.status.is_terminal();
    if !consumed && state.instance(signal.target).is_none_or(ended) {
        return Some(format!("I7: signal {} is orphaned", signal.id));
    }
    None
}

fn live_children(parent: &Instance, state: &State) -> i32 {
    let of_round = |row: &&Instance| {
        row.parent
            .is_some_and(|it| it.id == parent.id && it.round == parent.round)
    };
    let children = state.instances.iter().filter(of_round);
    let live = children.filter(|row| !row.status.is_terminal()).count();
    i32::try_from(live).unwrap_or(i32::MAX)
}

fn twice<K: Ord>(keys: impl Iterator<Item = K>) -> impl Iterator<Item = K> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(key, _)| key)
}
