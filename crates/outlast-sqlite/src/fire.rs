//! Waking waits whose deadline has come.

use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{Fired, InstanceId, Timestamp};
use rusqlite::{OptionalExtension, params};

const DUE: &str = include_str!("../sql/fire/due.sql");
const NEXT_DEADLINE: &str = include_str!("../sql/fire/next_deadline.sql");
/// A deadline wakes exactly as a signal does.
const WAKE: &str = include_str!("../sql/deliver/wake.sql");

pub(crate) fn fire(tx: &Tx<'_>, max: usize) -> Result<Fired, Fault> {
    let mut fired = Fired::default();
    for (id, queue) in due(tx, max)? {
        tx.prepare(WAKE)?.execute(params![id.0, tx.now.0])?;
        fired.woken_instances.push(id);
        fired.woken.insert(queue);
    }
    fired.next_due_in = tx
        .prepare(NEXT_DEADLINE)?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?
        .map(|deadline| deadline.since(tx.now));
    Ok(fired)
}

fn due(tx: &Tx<'_>, max: usize) -> Result<Vec<(InstanceId, String)>, Fault> {
    let mut statement = tx.prepare(DUE)?;
    let due = statement.query_map(params![tx.now.0, max as i64], |row| {
        Ok((InstanceId(row.get("id")?), row.get("queue")?))
    })?;
    Ok(due.collect::<rusqlite::Result<_>>()?)
}
