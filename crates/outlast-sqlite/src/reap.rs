//! Returning the claims of dead workers.

use crate::commit::Left;
use crate::error::Fault;
use crate::settle::{Effects, Ended};
use crate::tx::Tx;
use crate::{inbox, lease};
use outlast_core::{InstanceId, ReapRequest, Reaped, Status, WorkerId, gave_up};
use rusqlite::params;

const EXPIRED: &str = include_str!("../sql/reap/expired.sql");
const CLAIMS: &str = include_str!("../sql/reap/claims.sql");
const RETURN: &str = include_str!("../sql/reap/return.sql");
const GIVE_UP: &str = include_str!("../sql/reap/give_up.sql");

/// Returns claims of workers whose lease has expired, worker by worker.
pub(crate) fn reap(tx: &Tx<'_>, request: ReapRequest) -> Result<Reaped, Fault> {
    let mut reaped = Reaped::default();
    let mut effects = Effects::default();
    let mut left = request.max;
    for worker in expired(tx)? {
        for lost in claims(tx, worker, left)? {
            left -= 1;
            reap_one(tx, &lost, request.crashes_max, &mut effects, &mut reaped)?;
        }
        if lease::remove_idle(tx, worker)? {
            reaped.removed.push(worker);
        }
    }
    effects.settle(tx)?;
    (reaped.woken, reaped.cascades) = (effects.woken, effects.cascades);
    reaped.returned.sort();
    reaped.failed.sort();
    reaped.more = left == 0 && request.max > 0;
    Ok(reaped)
}

/// A claim whose worker is dead.
struct LostClaim {
    id: InstanceId,
    crashes: i32,
    step: String,
}

fn reap_one(
    tx: &Tx<'_>,
    lost: &LostClaim,
    crashes_max: i32,
    effects: &mut Effects,
    reaped: &mut Reaped,
) -> Result<(), Fault> {
    let crashes = lost.crashes + 1;
    if crashes > crashes_max {
        give_up(tx, lost, crashes, effects)?;
        reaped.failed.push(lost.id);
    } else {
        let left = tx
            .prepare(RETURN)?
            .query_row(params![lost.id.0, tx.now.0], Left::decode)?;
        left.follow(tx, Status::Runnable, &mut effects.woken)?;
        reaped.returned.push(lost.id);
    }
    Ok(())
}

/// A step that takes its worker down each time would run for ever (PROTOCOL §3 #14).
fn give_up(
    tx: &Tx<'_>,
    lost: &LostClaim,
    crashes: i32,
    effects: &mut Effects,
) -> Result<(), Fault> {
    let error = gave_up(crashes, &lost.step);
    let ended = tx
        .prepare(GIVE_UP)?
        .query_row(params![lost.id.0, error, tx.now.0], Ended::decode)?;
    inbox::empty(tx, lost.id)?;
    effects.ended(ended);
    Ok(())
}

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
            step: row.get("step")?,
        })
    })?;
    Ok(claims.collect::<rusqlite::Result<_>>()?)
}
