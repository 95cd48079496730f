//! The time-out verb: fails instances that have taken too long.
//!
//! The loop `timers` of a maintenance node calls it. Like a terminate it ends an instance in any
//! status, and the fence drops the outcome of a running step (docs/decisions/0053).

use crate::error::Fault;
use crate::history_events;
use crate::tx::Tx;
use crate::verbs::effects::{Effects, Ended};
use crate::verbs::inbox;
use outlast_core::{InstanceId, PassedTimeout, Status, TimedOut, Timestamp};
use rusqlite::{OptionalExtension, Row, params};
use std::time::Duration;

const DUE: &str = include_str!("../../sql/time_out/due.sql");
const FAIL: &str = include_str!("../../sql/time_out/fail.sql");
const NEXT: &str = include_str!("../../sql/time_out/next.sql");

/// Fails up to `max` instances whose timeout has passed, earliest first.
pub(crate) fn time_out(tx: &Tx<'_>, max: usize) -> Result<TimedOut, Fault> {
    let mut timed_out = TimedOut::default();
    let mut effects = Effects::default();
    for due in due(tx, max)? {
        let id = due.id();
        fail(tx, &due)?;
        timed_out.ended.push(id);
        let was_running = due.row.status == Status::Executing;
        timed_out.running.extend(was_running.then_some(id));
        effects.ended(Ended {
            status: Status::Failed,
            ..due.row
        });
    }
    effects.settle(tx)?;
    (timed_out.woken, timed_out.cascades) = (effects.woken, effects.cascades);
    timed_out.next_timeout_in = next_timeout_in(tx)?;
    Ok(timed_out)
}

/// Returns the time until the next live instance times out; zero when one is due already.
pub(crate) fn next_timeout_in(tx: &Tx<'_>) -> Result<Option<Duration>, Fault> {
    let next = tx
        .prepare(NEXT)?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(next.map(|moment| moment.since(tx.now)))
}

fn fail(tx: &Tx<'_>, due: &DueInstance) -> Result<(), Fault> {
    // An instance that has never run has no history, and gets none now.
    if due.has_events {
        history_events::append(tx, due.id(), &[due.passed.event()])?;
    }
    tx.prepare(FAIL)?
        .execute(params![due.id().0, due.passed.reason(), tx.now.0])?;
    inbox::empty(tx, due.id())
}

/// An instance whose timeout has passed.
///
/// All are read before the first is written, because the write takes its row out of the index.
struct DueInstance {
    /// The row as it was before.
    row: Ended,
    passed: PassedTimeout,
    has_events: bool,
}

impl DueInstance {
    fn id(&self) -> InstanceId {
        self.row.id
    }

    fn decode(row: &Row<'_>) -> rusqlite::Result<DueInstance> {
        let limit = Duration::from_micros(row.get::<_, i64>("limit_us")?.unsigned_abs());
        let passed = match row.get("is_of_run")? {
            true => PassedTimeout::Run(row.get("run")?, limit),
            false => PassedTimeout::Instance(limit),
        };
        Ok(DueInstance {
            row: Ended::decode(row)?,
            passed,
            has_events: row.get::<_, i32>("events")? > 0,
        })
    }
}

fn due(tx: &Tx<'_>, max: usize) -> Result<Vec<DueInstance>, Fault> {
    let mut statement = tx.prepare(DUE)?;
    let due = statement.query_map(params![tx.now.0, max as i64], DueInstance::decode)?;
    Ok(due.collect::<rusqlite::Result<_>>()?)
}
