//! The reaper's verb: returns the claims of dead workers to their queues.
//!
//! The loop `reaper` of a maintenance node calls it. The loop waits one lease after a start, an
//! error or a gap (docs/protocol.md, defect 16); this verb only compares leases with the clock. A
//! worker that is still alive is harmless: the fence drops its outcomes.

use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::commit::UnclaimedRow;
use crate::verbs::effects::{Effects, Ended};
use crate::verbs::{inbox, lease};
use outlast_core::{Crash, CrashScene, InstanceId, ReapRequest, Reaped, Status, WorkerId, gave_up};
use rusqlite::params;

const EXPIRED: &str = include_str!("../../sql/reap/expired.sql");
const CLAIMS: &str = include_str!("../../sql/reap/claims.sql");
const RETURN: &str = include_str!("../../sql/reap/return.sql");
const GIVE_UP: &str = include_str!("../../sql/reap/give_up.sql");

/// Returns the claims of workers whose lease has expired, worker by worker.
pub(crate) fn reap(tx: &Tx<'_>, request: ReapRequest) -> Result<Reaped, Fault> {
    let mut reaped = Reaped::default();
    let mut effects = Effects::default();
    let mut left = request.max;
    for worker in expired(tx)? {
        let claims = claims(tx, worker, left)?;
        left -= claims.len();
        // Judged from all claims that the worker held, before the first of them is returned
        // (docs/decisions/0045).
        let mut scene = CrashScene::default();
        claims.iter().for_each(|lost| scene.add(lost.crashes));
        // At the limit, claims of this worker may be missing. No single step can be blamed then.
        if left == 0 {
            scene.set_partial();
        }
        for lost in claims {
            let crash = Crash::of(&scene, lost.crashes, lost.counted, request.crashes_max);
            reap_one(tx, &lost, crash, &mut effects, &mut reaped)?;
        }
        // A worker with claims beyond the limit stays, for the next call.
        if lease::remove_idle(tx, worker)? {
            reaped.removed.push(worker);
        }
    }
    effects.settle(tx)?;
    (reaped.woken, reaped.cascades) = (effects.woken, effects.cascades);
    // Worker by worker until here; the contract wants them by id.
    reaped.returned.sort();
    reaped.failed.sort();
    reaped.more = left == 0 && request.max > 0;
    Ok(reaped)
}

/// A claim of a dead worker.
struct LostClaim {
    id: InstanceId,
    crashes: i32,
    counted: i32,
    step: String,
}

/// Returns or fails the instance of one lost claim.
fn reap_one(
    tx: &Tx<'_>,
    lost: &LostClaim,
    crash: Crash,
    effects: &mut Effects,
    reaped: &mut Reaped,
) -> Result<(), Fault> {
    if crash.gives_up {
        give_up(tx, lost, crash, effects)?;
        reaped.failed.push(lost.id);
    } else {
        let left = tx.prepare(RETURN)?.query_row(
            params![lost.id.0, tx.now.0, crash.counted],
            UnclaimedRow::decode,
        )?;
        // After the update, so that the row itself takes part in the order of its line.
        left.follow(tx, Status::Runnable, &mut effects.woken)?;
        reaped.returned.push(lost.id);
    }
    Ok(())
}

/// Fails an instance whose step crashes its workers (docs/protocol.md, defect 14).
///
/// It would run for ever otherwise.
fn give_up(
    tx: &Tx<'_>,
    lost: &LostClaim,
    crash: Crash,
    effects: &mut Effects,
) -> Result<(), Fault> {
    let error = gave_up(crash.crashes, &lost.step);
    let given_up = params![lost.id.0, error, tx.now.0, crash.counted];
    let ended = tx.prepare(GIVE_UP)?.query_row(given_up, Ended::decode)?;
    inbox::empty(tx, lost.id)?;
    effects.ended(ended);
    Ok(())
}

/// Returns the dead workers. All of them: a row is small, and engines are few.
fn expired(tx: &Tx<'_>) -> Result<Vec<WorkerId>, Fault> {
    let mut statement = tx.prepare(EXPIRED)?;
    let workers = statement.query_map([tx.now.0], |row| row.get(0).map(WorkerId))?;
    Ok(workers.collect::<rusqlite::Result<_>>()?)
}

fn claims(tx: &Tx<'_>, worker: WorkerId, limit: usize) -> Result<Vec<LostClaim>, Fault> {
    let mut statement = tx.prepare(CLAIMS)?;
    let claims = statement.query_map(params![worker.0, limit as i64], |row| {
        Ok(LostClaim {
            id: InstanceId(row.get("id")?),
            crashes: row.get("crashes")?,
            counted: row.get("crashes_counted")?,
            step: row.get("step")?,
        })
    })?;
    Ok(claims.collect::<rusqlite::Result<_>>()?)
}
