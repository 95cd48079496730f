//! The invariants of workflows and their histories.

use super::super::state::{History, State};
use outlast_core::{Instance, InstanceId, JoinProgress, RunSummary, Status, limits};

/// Returns the invariants that workflows and the read histories break.
pub(super) fn broken_in(state: &State) -> Vec<String> {
    let mut broken = Vec::new();
    for row in &state.instances {
        let waits = row.status == Status::AwaitingChildren;
        if let Some(sets) = row.joining.as_ref().filter(|_| waits) {
            let rules = broken_in_park(row, sets, state);
            broken.extend(rules.map(|what| format!("instance {}: {what}", row.id)));
        }
    }
    for (id, history) in &state.histories {
        let rules = broken_in_history(history, state.instance(*id));
        broken.extend(rules.map(|what| format!("history of {id}: {what}")));
    }
    broken
}

/// I2: the awaited event can still come, and has not come yet.
fn broken_in_park<'a>(
    row: &'a Instance,
    sets: &[JoinProgress],
    state: &State,
) -> impl Iterator<Item = &'static str> + use<'a> {
    let is_signalled = state.signals.iter().any(|signal| {
        let awaits = row.awaits.as_deref().unwrap_or_default();
        signal.target == row.id && signal.consumed_at.is_none() && awaits.contains(&signal.name)
    });
    let can_come = |part: &JoinProgress| part.left <= living_children(row.id, part, state);
    let nearest = sets.iter().map(|part| part.left).min();
    let rules = [
        (
            sets.iter().all(can_come),
            "I6: it waits for more children than are live",
        ),
        (
            nearest == Some(row.children_pending) && row.children_pending > 0,
            "I6: its pending count is not that of its nearest join set",
        ),
        (
            !is_signalled,
            "I2: it is parked, and an awaited signal is in its inbox",
        ),
    ];
    broken(rules)
}

fn living_children(parent: InstanceId, part: &JoinProgress, state: &State) -> i32 {
    let is_awaited = |row: &&Instance| {
        let by = row.parent.filter(|by| by.id == parent).zip(row.position);
        by.is_some_and(|(by, position)| part.has(by.round, position)) && !row.status.is_terminal()
    };
    let living = state.instances.iter().filter(is_awaited).count();
    i32::try_from(living).unwrap_or(i32::MAX)
}

fn broken_in_history(
    history: &History,
    row: Option<&Instance>,
) -> impl Iterator<Item = &'static str> + use<> {
    let places = history.events.iter().map(|it| (it.run, it.seq));
    let places: Vec<(i32, i32)> = places.collect();
    let follows = |pair: &[(i32, i32)]| match (pair[0], pair[1]) {
        ((run, seq), (next_run, next_seq)) if run == next_run => next_seq == seq + 1,
        ((run, _), (next_run, next_seq)) => next_run > run && next_seq == 1,
    };
    let starts = places.first().is_none_or(|(_, seq)| *seq == 1);
    let of_run = |run| places.iter().filter(|it| it.0 == run).count();
    let sums_up = |it: &RunSummary| usize::try_from(it.events) == Ok(of_run(it.run));
    let fits = row.map(|row| {
        let kept = |run: i32| run <= row.run && run > row.run - limits::RUNS_KEPT;
        let is_whole = usize::try_from(row.events) == Ok(of_run(row.run));
        (is_whole, places.iter().all(|it| kept(it.0)))
    });
    let rules = [
        (
            starts && places.windows(2).all(follows),
            "its events are not numbered from 1 without gaps",
        ),
        (
            history.runs.iter().all(sums_up),
            "a summary of a run counts other events",
        ),
        (
            fits.is_none_or(|(is_whole, _)| is_whole),
            "its row counts other events",
        ),
        (
            fits.is_none_or(|(_, is_kept)| is_kept),
            "it has runs that should have been removed",
        ),
        (
            row.is_some() || places.is_empty(),
            "it outlived its instance",
        ),
    ];
    broken(rules)
}

/// Returns the invariant that the change from `old` to `new` breaks.
pub(super) fn broken_between(old: &Instance, new: &Instance) -> Option<&'static str> {
    match new.run - old.run {
        0 if new.events < old.events => Some("its history was shortened"),
        0 => None,
        1 if new.events == 0 && new.revision > old.revision => None,
        1 => Some("a run began with a history"),
        _ => Some("the run number skipped a run or went back"),
    }
}

fn broken<const N: usize>(rules: [(bool, &'static str); N]) -> impl Iterator<Item = &'static str> {
    rules
        .into_iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, rule)| rule)
}
