//! The collector's verb: removes instances that finished before the retention limit.
//!
//! The loop `collector` calls it. A child must outlive its parent's join, and a parent its
//! cascades (docs/protocol.md, defect 6). There are no foreign keys, so [`remove`] must delete
//! from every table whose rows belong to an instance.

use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{CollectRequest, Collected, InstanceId};
use rusqlite::params;

const DUE: &str = include_str!("../../sql/collect/due.sql");
const REMOVE_INSTANCE: &str = include_str!("../../sql/collect/remove_instance.sql");
const REMOVE_SIGNALS: &str = include_str!("../../sql/collect/remove_signals.sql");
const REMOVE_EVENTS: &str = include_str!("../../sql/collect/remove_events.sql");
const REMOVE_VIEWS: &str = include_str!("../../sql/collect/remove_views.sql");
const REMOVE_OPERATIONS: &str = include_str!("../../sql/collect/remove_operations.sql");
const REMOVE_STRAY_OPERATIONS: &str = include_str!("../../sql/collect/remove_stray_operations.sql");

/// Removes a batch of instances whose retention is over, and records that no instance keeps.
pub(crate) fn collect(tx: &Tx<'_>, request: CollectRequest) -> Result<Collected, Fault> {
    let before = tx.now - request.retention;
    // Read to the end before the first removal, which changes the index of the statement.
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

/// Removes a finished instance with its signals, events, views and operations.
///
/// The caller has checked that it has finished and may go. Only the last statement checks it
/// again: a live instance would lose its inbox.
pub(crate) fn remove(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(REMOVE_SIGNALS)?.execute([id.0])?;
    tx.prepare(REMOVE_EVENTS)?.execute([id.0])?;
    tx.prepare(REMOVE_VIEWS)?.execute([id.0])?;
    tx.prepare(REMOVE_OPERATIONS)?.execute([id.0])?;
    tx.prepare(REMOVE_INSTANCE)?.execute([id.0])?;
    Ok(())
}
