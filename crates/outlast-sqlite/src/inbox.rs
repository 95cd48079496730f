//! What instances were sent and have not consumed.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{InstanceId, Signal, SignalId};
use rusqlite::{OptionalExtension, params};
use std::collections::HashSet;

const NEXT_INBOX: &str = include_str!("../sql/claim/next_inbox.sql");
const INBOX: &str = include_str!("../sql/claim/inbox.sql");
const CONSUME_DELETE: &str = include_str!("../sql/commit/consume_delete.sql");
const CONSUME_TOMBSTONE: &str = include_str!("../sql/commit/consume_tombstone.sql");
const EMPTY_INBOX_DELETE: &str = include_str!("../sql/commit/empty_inbox_delete.sql");
const EMPTY_INBOX_TOMBSTONE: &str = include_str!("../sql/commit/empty_inbox_tombstone.sql");

/// Which of these instances have anything in their inbox. One look when none has: each look skips to the
/// next instance that does.
pub(crate) fn owners(
    tx: &Tx<'_>,
    ids: impl Iterator<Item = InstanceId>,
) -> Result<HashSet<InstanceId>, Fault> {
    let mut ids: Vec<InstanceId> = ids.collect();
    ids.sort_unstable();
    let mut owners = HashSet::new();
    let mut statement = tx.prepare(NEXT_INBOX)?;
    let mut next = InstanceId(i64::MIN);
    for id in ids {
        if id > next {
            let found = statement
                .query_row([id.0], |row| row.get(0).map(InstanceId))
                .optional()?;
            let Some(found) = found else {
                break;
            };
            next = found;
        }
        if id == next {
            owners.insert(id);
        }
    }
    Ok(owners)
}

/// Everything in an inbox, oldest first.
pub(crate) fn read(tx: &Tx<'_>, id: InstanceId) -> rusqlite::Result<Vec<Signal>> {
    let mut statement = tx.prepare(INBOX)?;
    let signals = statement.query_map([id.0], decode::signal)?;
    signals.collect()
}

/// Consumes exactly what the step received (I7).
pub(crate) fn consume(tx: &Tx<'_>, id: InstanceId, received: &[SignalId]) -> Result<(), Fault> {
    for signal in received {
        let deleted = tx
            .prepare(CONSUME_DELETE)?
            .execute(params![signal.0, id.0])?;
        if deleted == 0 {
            tx.prepare(CONSUME_TOMBSTONE)?
                .execute(params![signal.0, id.0, tx.now.0])?;
        }
    }
    Ok(())
}

/// Empties the inbox of an instance that has ended.
pub(crate) fn empty(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(EMPTY_INBOX_DELETE)?.execute([id.0])?;
    tx.prepare(EMPTY_INBOX_TOMBSTONE)?
        .execute(params![id.0, tx.now.0])?;
    Ok(())
}
