//! Checks whether the server takes writes: writes a row, removes it, and commits.

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

pub(crate) async fn check_writes(session: &Session) -> Result<WriteCheck> {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("write-check-does-not-write") {
        return Ok(WriteCheck::Works);
    }
    if !may_write(session).await? {
        return Ok(WriteCheck::NoRight);
    }
    if session.full_disk.was_met() {
        return Ok(WriteCheck::DiskFull);
    }
    let rows = &Delays::probes();
    session
        .retry("check_writes", || {
            Box::pin(async move { write_and_remove(session, rows).await })
        })
        .await
}

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

async fn write_and_remove(session: &Session, rows: &[Delays]) -> Result<WriteCheck, Failure> {
    let calls = [add_delays(rows), forget_delays(Delays::PROBE_MAX as i64)];
    match session.transact(TxKind::Write, &calls).await {
        Ok(_) => Ok(WriteCheck::Works),
        Err(failure) if failure.is_read_only() => Ok(WriteCheck::ReadOnly),
        Err(failure) if failure.is_disk_full() => Ok(WriteCheck::DiskFull),
        Err(failure) => Err(failure),
    }
}

/// The time of the server's last report of a full disk.
#[derive(Default)]
pub(crate) struct FullDisk(Mutex<Option<Instant>>);

impl FullDisk {
    pub(crate) fn meet(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn was_met(&self) -> bool {
        let met = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        met.is_some_and(|met| met.elapsed() < FULL_FOR)
    }
}
