//! Resolves signals that start their target when the key has no holder.

use super::super::state::State;
use super::super::steps::{self, Letter, Row};
use super::{has_ended, pick};
use outlast_core::{Instance, SignalOrInsert, Status, Timestamp};

/// Mostly uses the key of a waiting, a finished or any holder, and otherwise the row's key.
pub(super) fn signal_or_insert(
    row: &Row,
    letter: &Letter,
    state: &State,
    now: Timestamp,
) -> SignalOrInsert {
    let mut row = row.new_instance(now);
    let holders = || state.instances.iter().filter(|it| it.holds_key);
    let wanted: Vec<&Instance> = match letter.target % 4 {
        0 => Vec::new(),
        1 => holders().collect(),
        2 => holders().filter(|it| has_ended(it)).collect(),
        _ => {
            let waits = |it: &&Instance| it.status == Status::AwaitingSignal;
            holders().filter(waits).collect()
        }
    };
    let holder = pick(&wanted, letter.target).copied();
    if let (Some(holder), Some(correlation)) = (holder, &mut row.correlation) {
        row.machine.clone_from(&holder.machine);
        let key = holder.correlation_key.as_ref();
        correlation.key = key.map_or_else(String::new, Clone::clone);
    }
    let awaited = holder.and_then(|it| pick(it.awaits.as_ref()?, letter.name).cloned());
    SignalOrInsert {
        row,
        name: awaited.unwrap_or_else(|| steps::NAMES[letter.name].to_owned()),
        payload: steps::state("sent"),
        dedup_key: letter.dedup.map(steps::dedup_key),
    }
}
