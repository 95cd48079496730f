//! The line behind a partition key: which rows are held, and which row may run next.
//!
//! A claim that meets an eligible row whose key is in use holds it ([`hold`]). The row leaves the
//! pick index, so that ten thousand rows behind one busy key cost later claims nothing.
//!
//! The invariant (I8): **while no row of a key executes, the first row of each group in its line
//! is not held.** A group is the set of rows that one worker would take in order: queue, machine,
//! version, priority. Without groups, a line that no worker can run would stop the others.
//!
//! Every verb that ends the use of a key, or removes the first row of a line, must call
//! [`let_through`].

use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{InstanceId, QueueNames, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

const KEY_BUSY: &str = include_str!("../../../sql/claim/key_busy.sql");
const HOLD: &str = include_str!("../../../sql/claim/hold.sql");
const FIRST_HELD: &str = include_str!("../../../sql/line/first_held.sql");
const FIRST_FREE: &str = include_str!("../../../sql/line/first_free.sql");
const LET_THROUGH: &str = include_str!("../../../sql/line/let_through.sql");

/// Lets the first row of each group of `key` through, unless the key is in use. Returns their ids.
///
/// Must come after the write that frees the key, or the key still counts as in use. Several rows
/// may be let through; the next claim takes one of them and holds the others again.
pub(crate) fn let_through(
    tx: &Tx<'_>,
    key: &str,
    woken: &mut QueueNames,
) -> Result<Vec<InstanceId>, Fault> {
    // The end of the row in use will let them through.
    if is_busy(tx, key)? {
        return Ok(Vec::new());
    }
    let next = heads(tx, key)?;
    for held in &next {
        free(tx, held.id)?;
        if held.eligible_at <= tx.now {
            woken.insert(held.group.queue.clone());
        }
    }
    Ok(next.iter().map(|held| held.id).collect())
}

/// Returns the held rows of a key that go first in their groups.
///
/// While no row of the key executes there are none: [`let_through`] has let them through.
pub(crate) fn next_in_line(tx: &Tx<'_>, key: &str) -> Result<Vec<InstanceId>, Fault> {
    Ok(heads(tx, key)?.iter().map(|held| held.id).collect())
}

/// Brings a held row back into the pick index.
pub(crate) fn free(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(LET_THROUGH)?.execute([id.0])?;
    Ok(())
}

fn heads(tx: &Tx<'_>, key: &str) -> Result<Vec<Held>, Fault> {
    let (mut heads, mut before) = (Vec::new(), Group::default());
    // One index lookup per group, however long the line is.
    while let Some(held) = first_held(tx, key, &before)? {
        before = held.group.clone();
        if goes_first(tx, key, &held)? {
            heads.push(held);
        }
    }
    Ok(heads)
}

/// Whether a row of this key executes, in any queue and of any machine.
pub(crate) fn is_busy(tx: &Tx<'_>, key: &str) -> Result<bool, Fault> {
    Ok(tx.prepare(KEY_BUSY)?.exists([key])?)
}

/// Takes a row out of the pick index until it is let through.
///
/// Only for a row behind a key in use. With one writer the key is freed only after this write, and
/// [`let_through`] then finds the row. PostgreSQL needs a lock for that (docs/decisions/0002).
pub(crate) fn hold(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(HOLD)?.execute([id.0])?;
    Ok(())
}

/// A group of a line. The default sorts before every group, because no name is empty.
#[derive(Clone, Default)]
struct Group {
    queue: String,
    machine: String,
    version: i64,
    priority: i64,
}

struct Held {
    id: InstanceId,
    eligible_at: Timestamp,
    group: Group,
}

fn first_held(tx: &Tx<'_>, key: &str, before: &Group) -> Result<Option<Held>, Fault> {
    let held = tx
        .prepare(FIRST_HELD)?
        .query_row(
            params![
                key,
                before.queue,
                before.machine,
                before.version,
                before.priority
            ],
            held,
        )
        .optional()?;
    Ok(held)
}

fn held(row: &Row<'_>) -> rusqlite::Result<Held> {
    Ok(Held {
        id: InstanceId(row.get("id")?),
        eligible_at: Timestamp(row.get("eligible_at")?),
        group: Group {
            queue: row.get("queue")?,
            machine: row.get("machine")?,
            version: row.get("machine_version")?,
            priority: row.get("priority")?,
        },
    })
}

/// Whether no row of its group that is not held comes before it.
///
/// With such a row in the pick index, the group has its turn. Another row would only be held
/// again.
fn goes_first(tx: &Tx<'_>, key: &str, held: &Held) -> Result<bool, Fault> {
    let Group {
        queue,
        machine,
        version,
        priority,
    } = &held.group;
    let free = tx
        .prepare(FIRST_FREE)?
        .query_row(params![key, queue, machine, version, priority], |row| {
            Ok((Timestamp(row.get(0)?), InstanceId(row.get(1)?)))
        })
        .optional()?;
    Ok(free.is_none_or(|free| (held.eligible_at, held.id) < free))
}
