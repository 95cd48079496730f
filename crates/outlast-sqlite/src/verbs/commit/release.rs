//! The release verb: returns claims without an outcome, for example at shutdown.
//!
//! Engines also release claims that wait too long for a slot (docs/decisions/0015), and claims
//! that they cannot run. A release must not count as an attempt or a crash.

use super::fenced_row::fence;
use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{QueueNames, Release, ReleaseAnswer, Released, Status};
use rusqlite::params;

const RELEASE: &str = include_str!("../../../sql/commit/release.sql");

/// Releases claims. Step, state and attempt stay as they are.
pub(crate) fn release(tx: &Tx<'_>, releases: &[Release]) -> Result<Released, Fault> {
    let mut released = Released::default();
    for release in releases {
        let answer = match give_back(tx, release, &mut released.woken)? {
            Some(_) => ReleaseAnswer::Released,
            None => ReleaseAnswer::Lost,
        };
        released.answers.push(answer);
    }
    Ok(released)
}

/// Releases one claim, if it still holds.
fn give_back(
    tx: &Tx<'_>,
    release: &Release,
    woken: &mut QueueNames,
) -> Result<Option<Status>, Fault> {
    let claim = release.claim;
    let Some(fenced) = fence(tx, claim)? else {
        return Ok(None);
    };
    // Without a pause the row keeps its position in the queue. A pause keeps a row that this
    // worker cannot run from coming back at once (docs/protocol.md, defect 15).
    let eligible_at = match release.pause.is_zero() {
        true => fenced.eligible_at,
        false => tx.now + release.pause,
    };
    let values = params![claim.id.0, claim.revision.0, eligible_at.0, tx.now.0];
    tx.prepare(RELEASE)?.execute(values)?;
    fenced.leave_for(tx, Status::Runnable, eligible_at, woken)
}
