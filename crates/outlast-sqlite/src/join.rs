//! Joins: counting ended children with the parent that waits for them, and waking it when that decides.

use crate::cascade::Word;
use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use outlast_core::{ClosePolicy, InstanceId, Joined, QueueNames, Status, Until, joined_note};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::BTreeMap;

const JOIN: &str = include_str!("../sql/commit/join.sql");
const JOINED: &str = include_str!("../sql/commit/joined.sql");

/// How many children of one round ended together.
#[derive(Default)]
pub(crate) struct Tally {
    ended: i32,
    failed: i32,
    /// Of those that ended badly, the first in the order they were asked for.
    first_failure: Option<InstanceId>,
}

impl Tally {
    pub(crate) fn add(&mut self, child: InstanceId, status: Status) {
        self.ended += 1;
        if matches!(status, Status::Failed | Status::Cancelled) {
            self.failed += 1;
            let first = self.first_failure.into_iter().chain([child]).min();
            self.first_failure = first;
        }
    }
}

/// A parent that waits for children, and how its join stands.
pub(crate) struct Barrier {
    pub(crate) parent: InstanceId,
    pub(crate) queue: String,
    pub(crate) round: i32,
    pub(crate) until: Until,
    pub(crate) rest: ClosePolicy,
    pub(crate) started: i32,
    pub(crate) pending: i32,
    pub(crate) failed: i32,
}

impl Barrier {
    pub(crate) fn decode(parent: InstanceId, row: &Row<'_>) -> rusqlite::Result<Barrier> {
        Ok(Barrier {
            parent,
            queue: row.get("queue")?,
            round: row.get("round")?,
            until: decode::until(row)?,
            rest: decode::policy(row, "join_rest")?,
            started: row.get("children_started")?,
            pending: row.get("children_pending")?,
            failed: row.get("children_failed")?,
        })
    }

    pub(crate) fn decided(&self) -> Option<Joined> {
        self.until.decided(self.started, self.pending, self.failed)
    }

    /// Wakes the parent if the join is decided. Answers word for the children it was decided without.
    pub(crate) fn decide(self, tx: &Tx<'_>, woken: &mut QueueNames) -> Result<Option<Word>, Fault> {
        let Some(joined) = self.decided() else {
            return Ok(None);
        };
        wake(tx, self.parent, joined)?;
        woken.insert(self.queue);
        Ok(of_rest(
            self.parent,
            self.round,
            self.pending,
            self.rest,
            joined,
        ))
    }
}

/// Counts ended children with their parent, by round, and then looks whether that decides its join.
pub(crate) fn join(
    tx: &Tx<'_>,
    parent: InstanceId,
    tallies: &BTreeMap<i32, Tally>,
    woken: &mut QueueNames,
) -> Result<Option<Word>, Fault> {
    let mut counted = None;
    for (round, tally) in tallies {
        counted = count(tx, parent, *round, tally)?.or(counted);
    }
    match counted {
        Some(barrier) => barrier.decide(tx, woken),
        None => Ok(None),
    }
}

/// Counts ended children of one round with their parent, if that waits for this very round (I6).
fn count(
    tx: &Tx<'_>,
    parent: InstanceId,
    round: i32,
    tally: &Tally,
) -> Result<Option<Barrier>, Fault> {
    let values = params![
        parent.0,
        round,
        tally.ended,
        tally.failed,
        tally.first_failure.map(|id| id.0),
        tx.now.0
    ];
    let counted = tx
        .prepare(JOIN)?
        .query_row(values, |row| Barrier::decode(parent, row))
        .optional()?;
    Ok(counted)
}

/// Wakes a parent that waits for children.
pub(crate) fn wake(tx: &Tx<'_>, parent: InstanceId, joined: Joined) -> Result<(), Fault> {
    tx.prepare(JOINED)?
        .execute(params![parent.0, joined.as_str(), tx.now.0])?;
    Ok(())
}

/// Word for the children that a join was decided without, if there are any and they are to be told.
pub(crate) fn of_rest(
    parent: InstanceId,
    round: i32,
    pending: i32,
    rest: ClosePolicy,
    joined: Joined,
) -> Option<Word> {
    match pending {
        0 => None,
        _ => Word::of_rest(parent, round, rest, joined_note(parent, joined)),
    }
}
