//! Workers and their leases: register, heartbeat, list claims, deregister.
//!
//! Engines call this. The strength of the lock on the worker's row decides what waits for what. A
//! claim holds `for key share`, a heartbeat `for no key update`. An end and a list of claims take
//! `for update`. So a heartbeat never waits for claims, and the other two wait for both.

use crate::decode::{claim_of, column, pending_cancel};
use crate::session::Session;
use crate::session::statement::{self, value};
use crate::session::tx_settings::TxKind;
use outlast_core::{Heartbeat, HeldClaim, Json, NewWorker, Result, WorkerId, limits, micros};
use std::time::Duration;

pub(crate) async fn register(session: &Session, worker: &NewWorker) -> Result<WorkerId> {
    worker
        .check()
        .map_err(|invalid| invalid.during("register"))?;
    let machines = Json::of(&worker.machines).map_err(|invalid| invalid.during("register"))?;
    let machines = &machines;
    session
        .retry("register", || {
            Box::pin(async {
                let call = statement::LEASE_REGISTER.with([
                    value(worker.name.as_str()),
                    value(worker.host.as_str()),
                    value(worker.version.as_str()),
                    value(worker.queues.iter().map(String::as_str).collect::<Vec<_>>()),
                    value(micros(worker.lease)),
                    value(machines.as_str()),
                ]);
                let answers = session.transact(TxKind::Write, &[call]).await?;
                column(&answers[0][0], "id").map(WorkerId)
            })
        })
        .await
}

/// Renews a lease from the moment at which the row is written.
///
/// A worker whose lease has expired is renewed too, unless a reaper has removed its row. The fence
/// protects the claims that it has lost meanwhile.
pub(crate) async fn heartbeat(
    session: &Session,
    worker: WorkerId,
    lease: Duration,
) -> Result<Heartbeat> {
    limits::check_lease(lease).map_err(|invalid| invalid.during("heartbeat"))?;
    session
        .retry("heartbeat", || {
            Box::pin(async move {
                let calls = [
                    // Waiting for the lock is a separate statement. The clock is the statement's,
                    // so the wait does not use up the new lease (docs/protocol.md, defect 16).
                    statement::LEASE_WAIT_FOR.with([value(worker.0)]),
                    statement::LEASE_HEARTBEAT.with([value(worker.0), value(micros(lease))]),
                ];
                let answers = session.transact(TxKind::Write, &calls).await?;
                Ok(match answers[1].is_empty() {
                    true => Heartbeat::Gone,
                    false => Heartbeat::Renewed,
                })
            })
        })
        .await
}

/// Ends a lease. Claims that are left are the reaper's work.
pub(crate) async fn deregister(session: &Session, worker: WorkerId) -> Result<()> {
    session
        .retry("deregister", || {
            Box::pin(async move {
                let calls = [
                    // A separate statement: if it waits for a claim in progress, the next one sees
                    // what that claim took. A claim of a removed worker is never reaped.
                    statement::LEASE_LOCK.with([value(worker.0)]),
                    statement::LEASE_DEREGISTER.with([value(worker.0)]),
                ];
                session.transact(TxKind::Write, &calls).await?;
                Ok(())
            })
        })
        .await
}

/// Lists the claims of a worker.
///
/// Locks the worker's row first. A claim in progress holds that row until it commits, even if its
/// caller has dropped the future. So the list is complete, and the worker may release what it does
/// not know (docs/protocol.md, defect 13).
pub(crate) async fn claims(session: &Session, worker: WorkerId) -> Result<Vec<HeldClaim>> {
    session
        .retry("claims_of", || {
            Box::pin(async move {
                let calls = [
                    statement::LEASE_LOCK.with([value(worker.0)]),
                    statement::LEASE_CLAIMS.with([value(worker.0)]),
                ];
                let answers = session.transact(TxKind::Write, &calls).await?;
                let held = answers[1].iter().map(|row| {
                    Ok(HeldClaim {
                        claim: claim_of(row)?,
                        cancel: pending_cancel(row)?,
                    })
                });
                held.collect()
            })
        })
        .await
}
