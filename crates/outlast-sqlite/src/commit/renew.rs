//! Beginning another run of a workflow.

use super::Batch;
use super::standing::fence;
use crate::error::Fault;
use crate::history;
use crate::tx::Tx;
use outlast_core::limits::RUNS_KEPT;
use outlast_core::{Commit, Json, Status};
use rusqlite::params;

const RENEW: &str = include_str!("../../sql/commit/renew.sql");

/// Ends the history of the present run and begins another one. So many of the last are kept.
pub(super) fn renew(
    tx: &Tx<'_>,
    commit: &Commit,
    state: &Json,
    batch: &mut Batch,
) -> Result<Option<Status>, Fault> {
    let claim = commit.claim;
    let Some(standing) = fence(tx, claim)? else {
        return Ok(None);
    };
    history::append(tx, claim.id, &commit.events)?;
    let values = params![claim.id.0, claim.revision.0, state.as_str(), tx.now.0];
    let run: i32 = tx.prepare(RENEW)?.query_row(values, |row| row.get(0))?;
    if run > RUNS_KEPT {
        history::forget(tx, claim.id, run - RUNS_KEPT)?;
    }
    standing.leave_for(tx, Status::Runnable, tx.now, &mut batch.effects.woken)
}
