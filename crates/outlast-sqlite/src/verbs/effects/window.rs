//! The window of a fan-out: a limited number of children run at a time, and others follow.
//!
//! A child that waits for a place is held: out of the pick index and out of the line of its
//! partition key. A hundred thousand of them cost claims nothing.
//!
//! Nothing counts the used places. Each end passes its own on, in its transaction. A place that is
//! not passed on is lost. Only when no child has a place left does a repair admit one.

use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{InstanceId, QueueNames, Timestamp};
use rusqlite::{OptionalExtension, params};

const NEXT: &str = include_str!("../../../sql/window/next.sql");
const ADMIT: &str = include_str!("../../../sql/window/admit.sql");
const IS_USED: &str = include_str!("../../../sql/window/is_used.sql");

/// Gives places to the next children of a round. Returns their ids.
///
/// They follow in the order the parent started them. The parent may have been woken or have
/// finished: its children go on until a policy stops them.
pub(crate) fn admit(
    tx: &Tx<'_>,
    (parent, round): (InstanceId, i32),
    places: i64,
    woken: &mut QueueNames,
) -> Result<Vec<InstanceId>, Fault> {
    let next: Vec<(InstanceId, String, Timestamp)> = tx
        .prepare(NEXT)?
        .query_map(params![parent.0, round, places], |row| {
            let eligible_at = Timestamp(row.get("eligible_at")?);
            Ok((InstanceId(row.get("id")?), row.get("queue")?, eligible_at))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut admitted = Vec::with_capacity(next.len());
    for (id, queue, eligible_at) in next {
        place(tx, id)?;
        admitted.push(id);
        if eligible_at <= tx.now {
            woken.insert(queue);
        }
    }
    Ok(admitted)
}

/// Gives a place to a child that waits for one.
pub(crate) fn place(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(ADMIT)?.execute(params![id.0, tx.now.0])?;
    Ok(())
}

/// Returns the child that gets the next place in the window of a round.
pub(crate) fn next(
    tx: &Tx<'_>,
    (parent, round): (InstanceId, i32),
) -> Result<Option<InstanceId>, Fault> {
    let next = tx
        .prepare(NEXT)?
        .query_row(params![parent.0, round, 1], |row| {
            row.get("id").map(InstanceId)
        });
    Ok(next.optional()?)
}

/// Whether a live child has a place in the window of a round.
pub(crate) fn is_used(tx: &Tx<'_>, (parent, round): (InstanceId, i32)) -> Result<bool, Fault> {
    Ok(tx.prepare(IS_USED)?.exists(params![parent.0, round])?)
}
