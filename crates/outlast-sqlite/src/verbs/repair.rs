//! The repair of instances that nothing would ever wake, and the search for them.
//!
//! Operators, the reconciler, the doctor and the liveness of an instance all use [`need`]. It finds
//! nothing while the other verbs are correct and nobody edits rows. It must judge only what it has
//! read in its own transaction: rows of two moments need not agree.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::join::Barrier;
use crate::verbs::effects::{Effects, join, partition_line, window};
use crate::verbs::end_instances::{record, target_row};
use crate::verbs::operate;
use outlast_core::{
    InstanceId, Joined, NeedingRepair, Note, Parent, RepairAnswer, RepairNeed, RepairScope,
    Repaired, Status, Timestamp, Verb, limits,
};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../sql/repair/page.sql");
const NEWEST: &str = include_str!("../../sql/doctor/newest.sql");
const ROW: &str = include_str!("../../sql/repair/row.sql");
const UNSEEN_SIGNAL: &str = include_str!("../../sql/repair/unseen_signal.sql");
const CHILDREN: &str = include_str!("../../sql/repair/children.sql");
const SET: &str = include_str!("../../sql/repair/set.sql");
const COUNT_AGAIN: &str = include_str!("../../sql/repair/count_again.sql");
/// A repair wakes an instance with the same statement as a signal. Both keep `awaits`.
const WAKE: &str = include_str!("../../sql/deliver/wake.sql");

/// Finds instances that need a repair.
pub(crate) fn needing_repair(tx: &Tx<'_>, scope: &RepairScope) -> Result<NeedingRepair, Fault> {
    match scope {
        RepairScope::Page { after, max } => page(tx, *after, *max),
        RepairScope::Ids(ids) => {
            let mut found = BTreeMap::new();
            for id in ids {
                if let Some(need) = need(tx, *id)? {
                    found.insert(*id, need);
                }
            }
            Ok(NeedingRepair {
                found: found.into_iter().collect(),
                next: None,
            })
        }
    }
}

/// Finds those of the newest instances that need a repair, for the doctor.
pub(crate) fn among_newest(tx: &Tx<'_>) -> Result<Vec<(InstanceId, RepairNeed)>, Fault> {
    let max = limits::REPAIR_EXAMINED_MAX;
    let before = tx
        .prepare(NEWEST)?
        .query_row([max as i64], |row| row.get(0).map(InstanceId))
        .optional()?;
    Ok(page(tx, before, max)?.found)
}

fn page(tx: &Tx<'_>, after: Option<InstanceId>, max: usize) -> Result<NeedingRepair, Fault> {
    let start = after.map_or(i64::MIN, |id| id.0);
    let mut statement = tx.prepare(PAGE)?;
    let mut rows = statement.query(params![start, max as i64])?;
    let (mut read, mut needing) = (0, NeedingRepair::default());
    while let Some(row) = rows.next()? {
        let id = InstanceId(row.get("id")?);
        read += 1;
        if row.get("may_need")?
            && let Some(need) = need(tx, id)?
        {
            needing.found.push((id, need));
        }
        needing.next = (read == max).then_some(id);
    }
    Ok(needing)
}

/// Repairs instances, and records what was wrong with each.
pub(crate) fn repair(tx: &Tx<'_>, ids: &[InstanceId], note: &Note) -> Result<Repaired, Fault> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    // All are judged before the first is repaired: a repair may end what another one needs.
    let mut answers = BTreeMap::new();
    for id in sorted {
        let answer = match (target_row(tx, id)?, need(tx, id)?) {
            (None, _) => RepairAnswer::NotFound,
            (Some(_), Some(need)) => RepairAnswer::Repaired(need),
            (Some(row), None) => RepairAnswer::NotNeeded(row.status),
        };
        answers.insert(id, answer);
    }
    let mut effects = Effects::default();
    for (id, answer) in &answers {
        if let RepairAnswer::Repaired(need) = answer {
            repair_one(tx, *id, *need, note, &mut effects)?;
        }
    }
    effects.settle(tx)?;
    Ok(Repaired {
        answers: ids.iter().map(|id| answers[id]).collect(),
        woken: effects.woken,
        cascades: effects.cascades,
    })
}

fn repair_one(
    tx: &Tx<'_>,
    id: InstanceId,
    need: RepairNeed,
    note: &Note,
    effects: &mut Effects,
) -> Result<(), Fault> {
    // The judgement is of this transaction, so the row is there.
    let (Some(row), Some(before)) = (RepairRow::read(tx, id)?, target_row(tx, id)?) else {
        return Ok(());
    };
    match need {
        RepairNeed::SignalArrived | RepairNeed::NothingAwaited => {
            tx.prepare(WAKE)?.execute(params![id.0, tx.now.0])?;
            effects.woken.insert(row.barrier.queue);
        }
        // Its counts cannot be checked: they count children that it expects, not stored ones. An
        // early wake costs one run of its code, which then parks again.
        RepairNeed::ChildrenFinished => {
            join::wake(tx, id, Joined::All)?;
            effects.woken.insert(row.barrier.queue);
        }
        RepairNeed::ChildrenMiscounted => count_again(tx, row.barrier, effects)?,
        RepairNeed::KeyIsFree => {
            partition_line::free(tx, id)?;
            effects.woken.insert(row.barrier.queue);
        }
        RepairNeed::PlaceIsFree => {
            window::place(tx, id)?;
            effects.woken.insert(row.barrier.queue);
        }
    }
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("repair-forgets-to-record") {
        return Ok(());
    }
    let note = need.note(note);
    record(
        tx,
        Verb::Repair,
        Some((id, before.status)),
        None,
        &note,
        None,
    )
}

/// Counts the children of a machine again. They may decide its join.
fn count_again(tx: &Tx<'_>, mut barrier: Barrier, effects: &mut Effects) -> Result<(), Fault> {
    let round = barrier.of();
    (barrier.pending, barrier.failed) = children(tx, round)?;
    // Used only where none is stored: the failure that was counted first stays.
    let first = operate::first_to_fail(tx, round)?.map(|id| id.0);
    let values = params![round.id.0, barrier.pending, barrier.failed, first, tx.now.0];
    tx.prepare(COUNT_AGAIN)?.execute(values)?;
    let cascade = barrier.decide(tx, &mut effects.woken)?;
    effects.decided(cascade);
    Ok(())
}

/// Returns what is wrong with an instance; `None` when something will wake it.
///
/// Each verb that ends a child, delivers a signal, or frees a key or a place also wakes in its
/// transaction. So a row that only looks lost is never committed.
fn need(tx: &Tx<'_>, id: InstanceId) -> Result<Option<RepairNeed>, Fault> {
    let Some(row) = RepairRow::read(tx, id)? else {
        return Ok(None);
    };
    match (row.status, &row.joining) {
        (Status::AwaitingSignal, _) | (Status::AwaitingChildren, Some(_)) => {
            if tx.prepare(UNSEEN_SIGNAL)?.exists([id.0])? {
                return Ok(Some(RepairNeed::SignalArrived));
            }
            row.need_of_park(tx)
        }
        (Status::AwaitingChildren, None) => {
            let (pending, failed) = children(tx, row.barrier.of())?;
            let fits = (pending, failed) == (row.barrier.pending, row.barrier.failed);
            let now = Barrier {
                pending,
                failed,
                ..row.barrier
            };
            let is_wrong = !fits || now.decided().is_some();
            Ok(is_wrong.then_some(RepairNeed::ChildrenMiscounted))
        }
        _ => row.need_of_hold(tx, id),
    }
}

/// Counts the live children of a round, and those that failed or were cancelled.
fn children(tx: &Tx<'_>, round: Parent) -> Result<(i32, i32), Fault> {
    let counted = tx
        .prepare(CHILDREN)?
        .query_row(params![round.id.0, round.round], |row| {
            Ok((row.get("live")?, row.get("failed")?))
        })?;
    Ok(counted)
}

/// A parked or held row, with the columns that show whether it needs a repair.
struct RepairRow {
    status: Status,
    /// When it parked, if it is parked.
    eligible_at: Timestamp,
    awaits_something: bool,
    barrier: Barrier,
    joined: bool,
    /// The child ranges that a workflow waits for (JSON), and what is left of each join set.
    joining: Option<String>,
    left: Vec<i32>,
    held: bool,
    partition_key: Option<String>,
    /// The parent and the round in whose window it waits for a place.
    parent: Option<Parent>,
}

impl RepairRow {
    fn read(tx: &Tx<'_>, id: InstanceId) -> Result<Option<RepairRow>, Fault> {
        let mut statement = tx.prepare(ROW)?;
        let row = statement.query_row([id.0], |row| RepairRow::decode(id, row));
        Ok(row.optional()?)
    }

    fn decode(id: InstanceId, row: &Row<'_>) -> rusqlite::Result<RepairRow> {
        Ok(RepairRow {
            status: decode::word(row, "status")?,
            eligible_at: Timestamp(row.get("eligible_at")?),
            awaits_something: row.get("awaits_names")? || row.get("has_deadline")?,
            barrier: Barrier::decode(id, row)?,
            joined: row.get::<_, Option<String>>("joined")?.is_some(),
            joining: row.get("joining")?,
            left: decode::list(row, "joining_left")?,
            held: row.get::<_, Option<bool>>("held")? == Some(true),
            partition_key: row.get("partition_key")?,
            parent: decode::parent(row)?,
        })
    }

    /// Judges a park that no signal has ended.
    fn need_of_park(&self, tx: &Tx<'_>) -> Result<Option<RepairNeed>, Fault> {
        let Some(ranges) = self.joining.as_ref().filter(|_| self.awaits_children()) else {
            let is_lost = !self.awaits_something && !self.awaits_children();
            return Ok(is_lost.then_some(RepairNeed::NothingAwaited));
        };
        // An end that was counted and should have woken it is on its row.
        let mut is_lost = self.left.is_empty() || self.joined || self.barrier.failed > 0;
        for (set, left) in (1i64..).zip(&self.left) {
            let values = params![self.barrier.parent.0, ranges, set, self.eligible_at.0];
            let (live, ended, bad): (i32, i32, i32) =
                tx.prepare(SET)?.query_row(values, |row| {
                    Ok((row.get("live")?, row.get("ended")?, row.get("bad")?))
                })?;
            // With one set, the count of the row shows all counted ends.
            let counted = (self.barrier.started - left).max(0);
            is_lost |=
                *left <= 0 || live == 0 || bad > 0 || self.left.len() == 1 && ended > counted;
        }
        Ok(is_lost.then_some(RepairNeed::ChildrenFinished))
    }

    fn awaits_children(&self) -> bool {
        self.status == Status::AwaitingChildren
    }

    /// Judges a row that a window or a partition key holds back.
    fn need_of_hold(&self, tx: &Tx<'_>, id: InstanceId) -> Result<Option<RepairNeed>, Fault> {
        if self.held {
            let Some(round) = self.parent.map(|parent| (parent.id, parent.round)) else {
                return Ok(None);
            };
            let is_next = window::next(tx, round)? == Some(id) && !window::is_used(tx, round)?;
            return Ok(is_next.then_some(RepairNeed::PlaceIsFree));
        }
        let Some(key) = &self.partition_key else {
            return Ok(None);
        };
        let is_next = !partition_line::is_busy(tx, key)?
            && partition_line::next_in_line(tx, key)?.contains(&id);
        Ok(is_next.then_some(RepairNeed::KeyIsFree))
    }
}
