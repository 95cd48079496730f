//! The continue-as-new outcome of workflows. `commit.rs` calls it.

use super::Batch;
use super::fenced_row::fence;
use crate::error::Fault;
use crate::history_events;
use crate::tx::Tx;
use outlast_core::limits::RUNS_KEPT;
use outlast_core::{Commit, Json, Status};
use rusqlite::params;

const CONTINUE_AS_NEW: &str = include_str!("../../../sql/commit/continue_as_new.sql");

/// Finishes the present run and starts the next one. Keeps the histories of the last runs only.
pub(super) fn continue_as_new(
    tx: &Tx<'_>,
    commit: &Commit,
    state: &Json,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let claim = commit.claim;
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    // Before the update, which moves the row to the next run: the events belong to the old one.
    history_events::append(tx, claim.id, &commit.events)?;
    let values = params![claim.id.0, claim.revision.0, state.as_str(), tx.now.0];
    let run: i32 = tx
        .prepare(CONTINUE_AS_NEW)?
        .query_row(values, |row| row.get(0))?;
    // One run goes for each that begins, so no call removes much.
    if run > RUNS_KEPT {
        history_events::forget(tx, claim.id, run - RUNS_KEPT)?;
    }
    fenced.leave_for(tx, Status::Runnable, tx.now, &mut batch.effects.woken)
}
