//! Resolves the replies of an outcome.

use super::super::state::State;
use super::super::steps;
use super::Pick;
use outlast_core::{InstanceId, NewReply, ReplyKind, SignalRow, UpdateState};

/// Makes replies for many outcomes of instances that were sent an update.
///
/// Mostly to its updates, answered or not. Sometimes to its plain signals or to those of other
/// instances, and rarely twice to one, which no commit can write.
pub(super) fn replies(id: InstanceId, seed: Pick, state: &State) -> Vec<NewReply> {
    let own = || state.signals.iter().filter(|it| it.target == id);
    let asked = || own().filter(|it| it.wants_reply);
    // Few are consumed and not answered yet, so they go first.
    let open: Vec<&SignalRow> = asked().filter(|it| is_open(it, state)).collect();
    // So are outcomes that a cancel may stop.
    let row = state.instance(id);
    let is_cancelled = row.is_some_and(|it| it.cancel.as_ref().is_some_and(|it| !it.answered));
    let is_silent = open.is_empty() && !is_cancelled && (seed / 11).is_multiple_of(2);
    if is_silent || asked().next().is_none() {
        return Vec::new();
    }
    let candidates: Vec<&SignalRow> = match seed / 44 % 8 {
        0 => state.signals.iter().collect(),
        1 => own().collect(),
        2..=6 if !open.is_empty() => open,
        _ => asked().collect(),
    };
    let reply = |nth: usize| {
        let kinds = [ReplyKind::Done, ReplyKind::Failed, ReplyKind::Rejected];
        NewReply {
            signal: candidates[nth % candidates.len()].id,
            kind: kinds[(seed + nth) % 3],
            data: steps::state(["yes", "no"][seed / 3 % 2]),
        }
    };
    let count = match seed % 17 {
        0 => candidates.len() + 1,
        1..=5 => 2.min(candidates.len()),
        _ => 1,
    };
    (seed..seed + count).map(reply).collect()
}

/// Whether a step has consumed the update and has not answered it.
fn is_open(row: &SignalRow, state: &State) -> bool {
    let Some(id) = row.dedup_key.clone() else {
        return false;
    };
    let found = state.updates.get(&(row.target, id));
    let found = found.and_then(Option::as_ref).map(|it| &it.state);
    row.consumed_at.is_some() && found == Some(&UpdateState::Pending)
}
