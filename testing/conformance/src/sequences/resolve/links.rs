//! Resolves the links of a claim to other rows, and whether its outcome answers a cancel.

use super::super::state::State;
use super::Pick;
use outlast_core::{InstanceId, Links};

/// Returns the links of the claim, and sometimes none.
pub(super) fn links(id: InstanceId, pick: Pick, state: &State) -> Links {
    match state.instance(id) {
        Some(row) if !pick.is_multiple_of(5) => Links {
            parent: row.parent.is_some(),
            partition_key: row.partition_key.is_some(),
            children: row.round > 0,
            window: row.held.is_some(),
        },
        Some(_) | None => Links::UNKNOWN,
    }
}

/// Returns whether the outcome answers a cancel: mostly when the claim carried one.
///
/// Sometimes the cancel came while the step ran, or there is none.
pub(super) fn answers_cancel(id: InstanceId, pick: Pick, state: &State) -> bool {
    let cancel = state.instance(id).and_then(|row| row.cancel.as_ref());
    match cancel {
        Some(cancel) => !cancel.answered && !pick.is_multiple_of(3),
        None => pick.is_multiple_of(13),
    }
}
