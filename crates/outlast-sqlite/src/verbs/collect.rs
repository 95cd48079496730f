//! The collector's verb: removes instances that finished before the retention limit.
//!
//! A child must outlive its parent's join, and a parent its cascades.

use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{CollectRequest, Collected, InstanceId};
use rusqlite::params;

const DUE: &str = include_str!("../../sql/collect/due.sql");
const REMOVE_INSTANCE: &str = include_str!("../../sql/collect/remove_instance.sql");
const REMOVE_SIGNALS: &str = include_str!("../../sql/collect/remove_signals.sql");
const REMOVE_EVENTS: &str = include_str!("../../sql/collect/remove_events.sql");
const REMOVE_OPERATIONS: &str = include_str!("../../sql/collect/remove_operations.sql");
const REMOVE_STRAY_OPERATIONS: &str = include_str!("../../sql/collect/remove_stray_operations.sql");

pub(crate) fn collect(tx: &Tx<'_>, request: CollectRequest) -> Result<Collected, Fault> {
    let before = tx.now - request.retention;
    let removed: Vec<InstanceId> = tx
        .prepare(DUE)?
        .query_map(params![before.0, request.max as i64], |row| {
            row.get(0).map(InstanceId)
        })?
        .collect::<rusqlite::Result<_>>()?;
    for id in &removed {
        remove(tx, *id)?;
    }
    tx.prepare(REMOVE_STRAY_OPERATIONS)?
        .execute(params![before.0, BATCH_MAX as i64])?;
    Ok(Collected {
        more: !removed.is_empty() && removed.len() == request.max,
        removed,
    })
}

/// Removes a finished instance with its signals, events and operations.
pub(crate) fn remove(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(REMOVE_SIGNALS)?.execute([id.0])?;
    tx.prepare(REMOVE_EVENTS)?.execute([id.0])?;
    tx.prepare(REMOVE_OPERATIONS)?.execute([id.0])?;
    tx.prepare(REMOVE_INSTANCE)?.execute([id.0])?;
    Ok(())
}
