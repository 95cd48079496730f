//! The timer verb: wakes parked instances whose deadline has passed.
//!
//! The loop `timers` of a maintenance node calls it. It must wake nothing early: only the store's
//! clock decides (I10). A timeout is a wake and no failure, so attempts are not counted.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::cascade::CascadeRow;
use crate::verbs::effects::{Effects, join};
use crate::verbs::time_out;
use outlast_core::{ClosePolicy, Fired, InstanceId, Joined, Status, Timestamp};
use rusqlite::{OptionalExtension, params};

const DUE: &str = include_str!("../../sql/fire/due.sql");
const PASSED: &str = include_str!("../../sql/fire/passed.sql");
const NEXT_DEADLINE: &str = include_str!("../../sql/fire/next_deadline.sql");
/// A deadline wakes an instance with the same statement as a signal. Both keep `awaits`.
const WAKE: &str = include_str!("../../sql/deliver/wake.sql");

/// Wakes up to `max` parked instances whose deadline has passed, earliest first.
pub(crate) fn fire(tx: &Tx<'_>, max: usize) -> Result<Fired, Fault> {
    let mut fired = Fired::default();
    let mut effects = Effects::default();
    for due in due(tx, max)? {
        // The deadline must go, or this row would be due in every call (docs/decisions/0047).
        if due.lacks_more {
            tx.prepare(PASSED)?.execute(params![due.id.0, tx.now.0])?;
            continue;
        }
        match due.joins {
            // The woken step learns that the deadline decided its join.
            Some(joins) => {
                join::wake(tx, due.id, Joined::Deadline)?;
                effects.decided(joins.of_rest(due.id));
            }
            None => {
                tx.prepare(WAKE)?.execute(params![due.id.0, tx.now.0])?;
            }
        }
        fired.woken_instances.push(due.id);
        effects.woken.insert(due.queue);
    }
    effects.settle(tx)?;
    (fired.woken, fired.cascades) = (effects.woken, effects.cascades);
    // Of the rows that stay parked, also those beyond `max`. The timers sleep until then.
    fired.next_due_in = tx
        .prepare(NEXT_DEADLINE)?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?
        .map(|deadline| deadline.since(tx.now));
    fired.next_timeout_in = time_out::next_timeout_in(tx)?;
    Ok(fired)
}

/// An instance whose deadline has passed.
///
/// All are read before the first is woken, because a wake takes its row out of the index.
struct Due {
    id: InstanceId,
    queue: String,
    /// Whether it needs all of its group and lacks more than the deadline.
    lacks_more: bool,
    /// Its join, when it waits for children.
    joins: Option<Joins>,
}

/// The join of a parent, as far as its deadline needs it.
struct Joins {
    round: i32,
    pending: i32,
    rest: ClosePolicy,
}

impl Joins {
    fn of_rest(&self, parent: InstanceId) -> Option<CascadeRow> {
        join::of_rest(
            parent,
            self.round,
            self.pending,
            self.rest,
            Joined::Deadline,
        )
    }
}

fn due(tx: &Tx<'_>, max: usize) -> Result<Vec<Due>, Fault> {
    let mut statement = tx.prepare(DUE)?;
    let due = statement.query_map(params![tx.now.0, max as i64], |row| {
        let joins = Joins {
            round: row.get("round")?,
            pending: row.get("children_pending")?,
            rest: decode::policy(row, "join_rest")?,
        };
        let status: Status = decode::word(row, "status")?;
        Ok(Due {
            id: InstanceId(row.get("id")?),
            queue: row.get("queue")?,
            lacks_more: row.get("lacks_more")?,
            joins: (status == Status::AwaitingChildren).then_some(joins),
        })
    })?;
    Ok(due.collect::<rusqlite::Result<_>>()?)
}
