//! Leases: one per worker. Registers workers, extends their leases, and ends them.
//!
//! Engines call it, and every verb that hands out claims asks [`require_alive`]. The row of a
//! worker must stay while it has claims: the reaper finds lost claims by their worker.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{
    ClaimRef, Error, Heartbeat, HeldClaim, InstanceId, NewWorker, Revision, WorkerId,
};
use rusqlite::params;
use std::time::Duration;

const REGISTER: &str = include_str!("../../sql/lease/register.sql");
const ALIVE: &str = include_str!("../../sql/lease/alive.sql");
const HEARTBEAT: &str = include_str!("../../sql/lease/heartbeat.sql");
const EXPIRE: &str = include_str!("../../sql/lease/expire.sql");
const REMOVE_IDLE: &str = include_str!("../../sql/lease/remove_idle.sql");
const CLAIMS: &str = include_str!("../../sql/lease/claims.sql");

/// Registers a worker. Its id is never used again, so a late heartbeat cannot renew a stranger.
pub(crate) fn register(tx: &Tx<'_>, worker: &NewWorker) -> Result<WorkerId, Fault> {
    let queues = serde_json::to_string(&worker.queues).expect("names are plain JSON");
    let machines = serde_json::to_string(&worker.machines).expect("names are plain JSON");
    tx.prepare(REGISTER)?.execute(params![
        worker.name,
        worker.host,
        worker.version,
        queues,
        tx.now.0,
        (tx.now + worker.lease).0,
        machines
    ])?;
    Ok(WorkerId(tx.connection.last_insert_rowid()))
}

/// Renews a lease, also an expired lease whose worker was not reaped.
///
/// The fence protects claims that were reaped meanwhile. [`Heartbeat::Gone`] means that the worker
/// must register again.
pub(crate) fn heartbeat(
    tx: &Tx<'_>,
    worker: WorkerId,
    lease: Duration,
) -> Result<Heartbeat, Fault> {
    let renewed =
        tx.prepare(HEARTBEAT)?
            .execute(params![worker.0, tx.now.0, (tx.now + lease).0])?;
    Ok(match renewed {
        0 => Heartbeat::Gone,
        _ => Heartbeat::Renewed,
    })
}

/// Ends a lease. With claims left, the worker counts as dead, and the reaper returns them.
pub(crate) fn deregister(tx: &Tx<'_>, worker: WorkerId) -> Result<(), Fault> {
    if !remove_idle(tx, worker)? {
        tx.prepare(EXPIRE)?.execute(params![worker.0, tx.now.0])?;
    }
    Ok(())
}

/// Fails unless the lease of `worker` is valid. Only then may it receive claims.
///
/// Must run in the transaction that hands out the claims. On PostgreSQL a lock on the worker's row
/// does the same.
pub(crate) fn require_alive(
    tx: &Tx<'_>,
    operation: &'static str,
    worker: WorkerId,
) -> Result<(), Fault> {
    if tx.prepare(ALIVE)?.exists(params![worker.0, tx.now.0])? {
        return Ok(());
    }
    Err(Error::LeaseExpired { operation, worker }.into())
}

/// Removes a worker without claims. Returns whether it did.
///
/// One statement checks and deletes, whatever the caller believes about the claims.
pub(crate) fn remove_idle(tx: &Tx<'_>, worker: WorkerId) -> Result<bool, Fault> {
    Ok(tx.prepare(REMOVE_IDLE)?.execute([worker.0])? == 1)
}

/// Returns the claims of `worker`, by id, with the cancels that are not answered yet.
pub(crate) fn claims(tx: &Tx<'_>, worker: WorkerId) -> Result<Vec<HeldClaim>, Fault> {
    let mut statement = tx.prepare(CLAIMS)?;
    let claims = statement.query_map([worker.0], |row| {
        let claim = ClaimRef {
            id: InstanceId(row.get("id")?),
            revision: Revision(row.get("revision")?),
        };
        let cancel = decode::cancel(row)?.filter(|cancel| !cancel.answered);
        Ok(HeldClaim { claim, cancel })
    })?;
    Ok(claims.collect::<rusqlite::Result<_>>()?)
}
