//! Maps the rows of one side to the rows of the other.
//!
//! Ids of both sides grow in the order of creation. The n-th new row of one side is therefore the
//! n-th new row of the other.

use super::state::State;
use outlast_core::{InstanceId, SignalId, WorkerId};
use std::collections::BTreeMap;

/// A map from the ids of one side to those of the other.
#[derive(Debug, Default)]
pub(super) struct Ids {
    instances: BTreeMap<i64, i64>,
    signals: BTreeMap<i64, i64>,
    workers: BTreeMap<i64, i64>,
}

impl Ids {
    /// Adds the rows that both sides have made since.
    pub(super) fn learn(&mut self, from: &State, to: &State) {
        let ids = |state: &State| state.instances.iter().map(|it| it.id.0).collect();
        extend(&mut self.instances, ids(from), ids(to));
        let ids = |state: &State| state.signals.iter().map(|it| it.id.0).collect();
        extend(&mut self.signals, ids(from), ids(to));
        let ids = |state: &State| state.workers.iter().map(|it| it.id.0).collect();
        extend(&mut self.workers, ids(from), ids(to));
    }

    /// Whether the counterpart of the id is known.
    pub(super) fn knows(&self, id: InstanceId) -> bool {
        self.instances.contains_key(&id.0)
    }

    pub(super) fn rename(&self, id: &mut InstanceId) {
        id.0 = counterpart(&self.instances, id.0);
    }

    pub(super) fn rename_all(&self, ids: &mut [InstanceId]) {
        ids.iter_mut().for_each(|id| self.rename(id));
    }

    /// Renames the parents that a reason names.
    pub(super) fn rename_in(&self, reason: &mut String) {
        const BEFORE: &str = "parent ";
        let sets: Vec<String> = reason
            .split(BEFORE)
            .map(|part| {
                let digits = part.bytes().take_while(u8::is_ascii_digit).count();
                match part[..digits].parse() {
                    Ok(id) => format!("{}{}", counterpart(&self.instances, id), &part[digits..]),
                    Err(_) => part.to_owned(),
                }
            })
            .collect();
        *reason = sets.join(BEFORE);
    }

    pub(super) fn rename_signal(&self, id: &mut SignalId) {
        id.0 = counterpart(&self.signals, id.0);
    }

    pub(super) fn rename_worker(&self, id: &mut WorkerId) {
        id.0 = counterpart(&self.workers, id.0);
    }
}

fn extend(known: &mut BTreeMap<i64, i64>, from: Vec<i64>, to: Vec<i64>) {
    let last = |ids: Option<i64>| ids.unwrap_or(i64::MIN);
    let (last_from, last_to) = (
        last(known.keys().max().copied()),
        last(known.values().max().copied()),
    );
    let mut from: Vec<i64> = from.into_iter().filter(|id| *id > last_from).collect();
    let mut to: Vec<i64> = to.into_iter().filter(|id| *id > last_to).collect();
    from.sort_unstable();
    to.sort_unstable();
    known.extend(from.into_iter().zip(to));
}

/// Returns the counterpart of an id.
///
/// Without one, returns an id that no side uses, so that it shows as a difference.
fn counterpart(ids: &BTreeMap<i64, i64>, id: i64) -> i64 {
    ids.get(&id).copied().unwrap_or(-id.abs() - 1_000_000)
}
