//! Checks whether the server takes writes: writes rows, removes them, and commits.
//!
//! The health checks of the HTTP API call this. Only a write finds a full disk, and only one of
//! more than a page. It uses the table `delays`: no decision depends on what is in it.

use crate::decode::column;
use crate::error::Failure;
use crate::session::tx_settings::TxKind;
use crate::session::{Session, statement};
use crate::verbs::run_stats::{add_delays, forget_delays};
use outlast_core::{Delays, Result, WriteCheck};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a full disk is remembered.
///
/// A small write can still find room in an existing page while others fail. So the failures of all
/// verbs count.
const FULL_FOR: Duration = Duration::from_secs(10);

/// Returns whether the server takes writes now. Only an unexpected failure is an error.
pub(crate) async fn check_writes(session: &Session) -> Result<WriteCheck> {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("write-check-does-not-write") {
        return Ok(WriteCheck::Works);
    }
    if !may_write(session).await? {
        return Ok(WriteCheck::NoRight);
    }
    if session.full_disk.is_recent() {
        return Ok(WriteCheck::DiskFull);
    }
    let rows = &Delays::probes();
    session
        .retry("check_writes", || {
            Box::pin(async move { write_and_remove(session, rows).await })
        })
        .await
}

/// Returns whether the role has the right to write. A role that may only read is no fault.
async fn may_write(session: &Session) -> Result<bool> {
    session
        .retry("check_writes", || {
            Box::pin(async move {
                let calls = [statement::DOCTOR_RIGHTS.with([])];
                let answers = session.transact(TxKind::Inspect, &calls).await?;
                column(&answers[0][0], "may_write")
            })
        })
        .await
}

/// Adds the rows and removes as many of the oldest in one transaction, so none is ever visible.
async fn write_and_remove(session: &Session, rows: &[Delays]) -> Result<WriteCheck, Failure> {
    let calls = [add_delays(rows), forget_delays(Delays::PROBE_MAX as i64)];
    match session.transact(TxKind::Write, &calls).await {
        Ok(_) => Ok(WriteCheck::Works),
        Err(failure) if failure.is_read_only() => Ok(WriteCheck::ReadOnly),
        Err(failure) if failure.is_disk_full() => Ok(WriteCheck::DiskFull),
        Err(failure) => Err(failure),
    }
}

/// The time of the server's last report of a full disk, to any verb of this store.
#[derive(Default)]
pub(crate) struct FullDisk(Mutex<Option<Instant>>);

impl FullDisk {
    pub(crate) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_recent(&self) -> bool {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.is_some_and(|at| at.elapsed() < FULL_FOR)
    }
}
