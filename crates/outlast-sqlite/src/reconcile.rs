//! Looking for what should not exist, and mending it.

use crate::error::Fault;
use crate::line;
use crate::tx::Tx;
use outlast_core::{InstanceId, ReconcileRequest, Reconciled};
use rusqlite::{Row, params};

const PAGE: &str = include_str!("../sql/reconcile/page.sql");
const CHILDREN_LIVE: &str = include_str!("../sql/reconcile/children_live.sql");
const MEND_JOIN: &str = include_str!("../sql/reconcile/mend_join.sql");

pub(crate) fn reconcile(tx: &Tx<'_>, request: ReconcileRequest) -> Result<Reconciled, Fault> {
    let page = page(tx, request)?;
    let mut found = Reconciled {
        next: page
            .last()
            .map(|row| row.id)
            .filter(|_| page.len() == request.max),
        ..Reconciled::default()
    };
    for row in &page {
        if row.joins {
            mend_join(tx, row, &mut found)?;
        }
        if let Some(key) = &row.held_behind {
            let freed = line::let_through(tx, key, &mut found.woken)?;
            found.holds.extend(freed);
        }
    }
    found.holds.sort();
    if !(found.joins.is_empty() && found.holds.is_empty()) {
        tracing::error!(joins = ?found.joins, holds = ?found.holds, "mended what should not exist");
    }
    Ok(found)
}

struct Suspect {
    id: InstanceId,
    queue: String,
    round: i32,
    children_pending: i64,
    /// Whether it waits for children.
    joins: bool,
    /// The partition key it is held behind.
    held_behind: Option<String>,
}

impl Suspect {
    fn decode(row: &Row<'_>) -> rusqlite::Result<Suspect> {
        let held: bool = row.get("blocked")?;
        let key: Option<String> = row.get("partition_key")?;
        Ok(Suspect {
            id: InstanceId(row.get("id")?),
            queue: row.get("queue")?,
            round: row.get("round")?,
            children_pending: row.get("children_pending")?,
            joins: row.get("joins")?,
            held_behind: key.filter(|_| held),
        })
    }
}

fn page(tx: &Tx<'_>, request: ReconcileRequest) -> Result<Vec<Suspect>, Fault> {
    let after = request.after.map_or(i64::MIN, |id| id.0);
    let mut statement = tx.prepare(PAGE)?;
    let page = statement.query_map(params![after, request.max as i64], Suspect::decode)?;
    Ok(page.collect::<rusqlite::Result<_>>()?)
}

/// A parent waits for exactly the children of its round that have not ended (I6).
fn mend_join(tx: &Tx<'_>, parent: &Suspect, found: &mut Reconciled) -> Result<(), Fault> {
    let live: i64 = tx
        .prepare(CHILDREN_LIVE)?
        .query_row(params![parent.id.0, parent.round], |row| row.get(0))?;
    if live == parent.children_pending {
        return Ok(());
    }
    tx.prepare(MEND_JOIN)?
        .execute(params![parent.id.0, live, tx.now.0])?;
    found.joins.push(parent.id);
    if live == 0 {
        found.woken.insert(parent.queue.clone());
    }
    Ok(())
}
