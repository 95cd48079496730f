//! The inbox of an instance: its received and unconsumed signals.
//!
//! Claims and the verb `inbox` read it; outcomes and ends consume from it. A signal with a dedup
//! key must never be deleted before its instance: its tombstone makes a repeated send a duplicate
//! (docs/protocol.md, defect 9).

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{ClaimRef, InstanceId, NewReply, Signal, SignalId};
use rusqlite::{OptionalExtension, params};
use std::collections::HashSet;

const NEXT_INBOX: &str = include_str!("../../sql/claim/next_inbox.sql");
const HELD: &str = include_str!("../../sql/claim/held.sql");
const INBOX: &str = include_str!("../../sql/claim/inbox.sql");
const CONSUME_DELETE: &str = include_str!("../../sql/inbox/consume_delete.sql");
const CONSUME_TOMBSTONE: &str = include_str!("../../sql/inbox/consume_tombstone.sql");
const REPLY: &str = include_str!("../../sql/inbox/reply.sql");
const END_UPDATES: &str = include_str!("../../sql/inbox/end_updates.sql");
const CLEAR_DELETE: &str = include_str!("../../sql/inbox/clear_delete.sql");
const CLEAR_TOMBSTONE: &str = include_str!("../../sql/inbox/clear_tombstone.sql");

/// Returns the instances whose inbox is not empty.
///
/// Each lookup skips to the next instance with a signal, so that one lookup is enough when none
/// has any.
pub(crate) fn owners(
    tx: &Tx<'_>,
    ids: impl Iterator<Item = InstanceId>,
) -> Result<HashSet<InstanceId>, Fault> {
    // In order, so that one index position serves all ids up to it.
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

/// Returns the inbox of a claim that its worker keeps; `None` when the claim is lost.
///
/// Both reads have one snapshot, so no other worker has consumed a signal.
pub(crate) fn of_claim(tx: &Tx<'_>, claim: ClaimRef) -> Result<Option<Vec<Signal>>, Fault> {
    let held = tx
        .prepare(HELD)?
        .exists(params![claim.id.0, claim.revision.0])?;
    match held {
        true => Ok(Some(read(tx, claim.id)?)),
        false => Ok(None),
    }
}

/// Returns all signals of an inbox, oldest first.
pub(crate) fn read(tx: &Tx<'_>, id: InstanceId) -> rusqlite::Result<Vec<Signal>> {
    let mut statement = tx.prepare(INBOX)?;
    let signals = statement.query_map([id.0], decode::signal)?;
    signals.collect()
}

/// Consumes exactly the signals that the step received (I7).
///
/// A signal that arrived while the step ran stays. An id of another instance, or of a consumed
/// signal, matches no statement.
pub(crate) fn consume(tx: &Tx<'_>, id: InstanceId, received: &[SignalId]) -> Result<(), Fault> {
    for signal in received {
        // Most signals have no dedup key, so the delete comes first.
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

/// Writes replies to updates, with an outcome whose fence holds.
///
/// Each consumes its update. A signal of another instance, a plain one and one with a reply match
/// no statement.
pub(crate) fn reply(tx: &Tx<'_>, id: InstanceId, replies: &[NewReply]) -> Result<(), Fault> {
    for reply in replies {
        tx.prepare(REPLY)?.execute(params![
            reply.signal.0,
            id.0,
            tx.now.0,
            reply.kind.as_str(),
            reply.data.as_str()
        ])?;
    }
    Ok(())
}

/// Marks the unanswered updates of a finished instance as ended, before it becomes live again.
pub(crate) fn end_updates(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(END_UPDATES)?.execute([id.0])?;
    Ok(())
}

/// Empties the inbox of a finished instance.
///
/// In this order: the second statement makes tombstones of all signals that the first has left.
pub(crate) fn empty(tx: &Tx<'_>, id: InstanceId) -> Result<(), Fault> {
    tx.prepare(CLEAR_DELETE)?.execute([id.0])?;
    tx.prepare(CLEAR_TOMBSTONE)?
        .execute(params![id.0, tx.now.0])?;
    Ok(())
}
