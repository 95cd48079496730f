//! The reconciler's verb: finds rows that break an invariant, and repairs them.
//!
//! The loop `reconciler` calls it. It reads one page of instances per call. It finds nothing while
//! the other verbs are correct, so every repair is logged as an error. It must judge only what it
//! has read in its own transaction: rows of two moments need not agree.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::join::Barrier;
use crate::verbs::effects::{Effects, join, partition_line, window};
use crate::verbs::operate;
use outlast_core::{InstanceId, Joined, Parent, ReconcileRequest, Reconciled};
use rusqlite::{Row, params};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../sql/reconcile/page.sql");
const CHILDREN: &str = include_str!("../../sql/reconcile/children.sql");
const LIVES: &str = include_str!("../../sql/reconcile/lives.sql");
const MEND_JOIN: &str = include_str!("../../sql/reconcile/mend_join.sql");

/// Checks one page of instances, and repairs joins, held rows and windows.
pub(crate) fn reconcile(tx: &Tx<'_>, request: ReconcileRequest) -> Result<Reconciled, Fault> {
    let page = page(tx, request)?;
    let mut found = Reconciled {
        next: page
            .last()
            .map(|row| row.id)
            .filter(|_| page.len() == request.max),
        ..Reconciled::default()
    };
    let mut effects = Effects::default();
    let mut windows = BTreeSet::new();
    for row in page {
        match (row.joins, &row.joining) {
            (Some(barrier), None) => mend_join(tx, barrier, &mut effects, &mut found)?,
            (Some(barrier), Some(ranges)) => {
                let wait = (ranges.as_str(), row.sets);
                mend_wait(tx, barrier, wait, &mut effects, &mut found)?;
            }
            (None, _) => {}
        }
        if let Some(key) = &row.held_behind {
            let freed = partition_line::let_through(tx, key, &mut effects.woken)?;
            found.holds.extend(freed);
        }
        windows.extend(row.held_in);
    }
    // Many rows of a page share a window, so each window is checked once. One child is enough: its
    // end passes the place on.
    for round in windows {
        if !window::is_used(tx, round)? {
            found
                .holds
                .extend(window::admit(tx, round, 1, &mut effects.woken)?);
        }
    }
    effects.settle(tx)?;
    found.woken = effects.woken;
    found.holds.sort();
    if !(found.joins.is_empty() && found.holds.is_empty()) {
        tracing::error!(joins = ?found.joins, holds = ?found.holds, "mended what should not exist");
    }
    Ok(found)
}

/// A row of the page, with the columns that can be wrong.
struct WaitingParent {
    id: InstanceId,
    /// The progress of its join, when it waits for children.
    joins: Option<Barrier>,
    /// The child ranges that a workflow waits for (JSON), and the number of its join sets.
    joining: Option<String>,
    sets: usize,
    /// The partition key that it is held behind. A row that waits for a place is in no line yet.
    held_behind: Option<String>,
    /// The parent and the round in whose window it waits for a place.
    held_in: Option<(InstanceId, i32)>,
}

impl WaitingParent {
    fn decode(row: &Row<'_>) -> rusqlite::Result<WaitingParent> {
        let id = InstanceId(row.get("id")?);
        let (blocked, joins): (bool, bool) = (row.get("blocked")?, row.get("joins")?);
        let held = row.get::<_, Option<bool>>("held")? == Some(true);
        let key: Option<String> = row.get("partition_key")?;
        let parent = decode::parent(row)?.filter(|_| held);
        Ok(WaitingParent {
            id,
            joins: joins.then(|| Barrier::decode(id, row)).transpose()?,
            joining: row.get("joining")?,
            sets: decode::list::<i32>(row, "joining_left")?.len(),
            held_behind: key.filter(|_| blocked && !held),
            held_in: parent.map(|parent| (parent.id, parent.round)),
        })
    }
}

fn page(tx: &Tx<'_>, request: ReconcileRequest) -> Result<Vec<WaitingParent>, Fault> {
    let after = request.after.map_or(i64::MIN, |id| id.0);
    let mut statement = tx.prepare(PAGE)?;
    let page = statement.query_map(params![after, request.max as i64], WaitingParent::decode)?;
    Ok(page.collect::<rusqlite::Result<_>>()?)
}

/// Repairs a join. A parent waits for exactly the live children of its round (I6).
///
/// It waits only while they can still decide its join.
fn mend_join(
    tx: &Tx<'_>,
    mut barrier: Barrier,
    effects: &mut Effects,
    found: &mut Reconciled,
) -> Result<(), Fault> {
    let round = Parent {
        id: barrier.parent,
        round: barrier.round,
    };
    let (live, failed) = tx
        .prepare(CHILDREN)?
        .query_row(params![round.id.0, round.round], |row| {
            Ok((row.get("live")?, row.get("failed")?))
        })?;
    let counts_fit = (live, failed) == (barrier.pending, barrier.failed);
    (barrier.pending, barrier.failed) = (live, failed);
    if counts_fit && barrier.decided().is_none() {
        return Ok(());
    }
    // Used only where none is stored: the failure that was counted first stays.
    let first = operate::first_to_fail(tx, round)?.map(|id| id.0);
    tx.prepare(MEND_JOIN)?
        .execute(params![round.id.0, live, failed, first, tx.now.0])?;
    found.joins.push(round.id);
    let cascade = barrier.decide(tx, &mut effects.woken)?;
    effects.decided(cascade);
    Ok(())
}

/// Wakes a workflow that waits for a join set without a live child.
///
/// Its counts cannot be checked: they count children that it expects, not stored ones. An early
/// wake costs one run of its code, which then parks again.
fn mend_wait(
    tx: &Tx<'_>,
    barrier: Barrier,
    (ranges, sets): (&str, usize),
    effects: &mut Effects,
    found: &mut Reconciled,
) -> Result<(), Fault> {
    let parent = barrier.parent;
    let mut statement = tx.prepare(LIVES)?;
    let mut all_live = true;
    for set in 1..=sets {
        all_live &= statement.exists(params![parent.0, ranges, set as i64])?;
    }
    if all_live {
        return Ok(());
    }
    join::wake(tx, parent, Joined::All)?;
    effects.woken.insert(barrier.queue);
    found.joins.push(parent);
    Ok(())
}
