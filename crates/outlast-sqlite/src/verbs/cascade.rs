//! Cascades: a parent's end, a decided join or an operator acts on the children of an instance.
//!
//! The verb that causes a cascade inserts one row, however many children there are ([`leave`]).
//! Each call of [`cascade`] takes the oldest row and acts on a batch of its children. No
//! transaction ever touches all children of a large parent at once.
//!
//! The loop `cascader` calls it. The row outlives crashes, so no hint has to arrive (I13). A
//! cascade never covers a round that begins after it was left (docs/decisions/0027).

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::Effects;
use crate::verbs::end_instances::{self, TargetRow};
use outlast_core::{
    CancelAnswer, CascadeAction, CascadeRequest, Cascaded, ClosePolicy, Extent, InstanceId, Note,
    Status, TerminateAnswer,
};
use rusqlite::{OptionalExtension, params};

const LEAVE: &str = include_str!("../../sql/cascade/leave.sql");
const OLDEST: &str = include_str!("../../sql/cascade/oldest.sql");
const CHILDREN: &str = include_str!("../../sql/cascade/children.sql");
const MOVE_ON: &str = include_str!("../../sql/cascade/move_on.sql");
const REMOVE: &str = include_str!("../../sql/cascade/remove.sql");
const ANY: &str = include_str!("../../sql/cascade/any.sql");

/// A cascade over the children of some rounds.
pub(crate) struct CascadeRow {
    pub(crate) parent: InstanceId,
    from_round: i32,
    upto_round: i32,
    action: CascadeAction,
    /// Whether the cascade also reaches the descendants of the children.
    extent: Extent,
    note: Note,
}

impl CascadeRow {
    /// Makes a cascade over all present children that follows their close policies.
    pub(crate) fn by_policy(parent: InstanceId, round: i32, note: Note) -> CascadeRow {
        CascadeRow {
            parent,
            from_round: 1,
            upto_round: round,
            action: CascadeAction::Policy,
            extent: Extent::One,
            note,
        }
    }

    /// Makes a cascade over the children of a round that its join was decided without.
    pub(crate) fn of_rest(
        parent: InstanceId,
        round: i32,
        rest: ClosePolicy,
        note: Note,
    ) -> Option<CascadeRow> {
        Some(CascadeRow {
            parent,
            from_round: round,
            upto_round: round,
            action: CascadeAction::of_rest(rest)?,
            extent: Extent::One,
            note,
        })
    }

    /// Makes a cascade over all present descendants.
    ///
    /// `None` when the instance has never fanned out. Up to its present round: children of its
    /// answer to the cancel are in a later one.
    pub(crate) fn of_tree(
        parent: InstanceId,
        round: i32,
        action: CascadeAction,
        note: &Note,
    ) -> Option<CascadeRow> {
        (round > 0).then(|| CascadeRow {
            parent,
            from_round: 1,
            upto_round: round,
            action,
            extent: Extent::Tree,
            note: note.clone(),
        })
    }
}

/// Stores a cascade, for the cascade verb to run.
pub(crate) fn leave(tx: &Tx<'_>, row: &CascadeRow) -> Result<(), Fault> {
    tx.prepare(LEAVE)?.execute(params![
        row.parent.0,
        row.from_round,
        row.upto_round,
        row.action.as_str(),
        row.extent == Extent::Tree,
        row.note.by,
        row.note.clean_reason(),
        // Above every id: the first batch begins with the last child of the last round.
        i64::MAX,
        tx.now.0
    ])?;
    Ok(())
}

/// Acts on the next batch of children of the oldest cascade.
pub(crate) fn cascade(tx: &Tx<'_>, request: CascadeRequest) -> Result<Cascaded, Fault> {
    let mut cascaded = Cascaded::default();
    let Some(stored) = oldest(tx)? else {
        return Ok(cascaded);
    };
    let batch = children(tx, &stored, request.max)?;
    // In the transaction of the batch, so that a crash undoes both. The position is the last child
    // that was read, also when nothing happens to it.
    move_on(tx, &stored, &batch, request.max)?;
    let mut effects = Effects::default();
    let mut targets = Vec::with_capacity(batch.len());
    for (_, id) in &batch {
        targets.extend(end_instances::target_row(tx, *id)?);
    }
    // Finished children too: their descendants may live.
    if stored.extent == Extent::Tree {
        for child in &targets {
            let row = CascadeRow::of_tree(child.id, child.round, stored.action, &stored.note);
            row.into_iter().for_each(|row| effects.tree(row));
        }
    }
    // The batch is latest first. Instances end in the order of their ids, as in every verb.
    targets.sort_by_key(|child| child.id);
    for child in &targets {
        act_on(tx, child, &stored, &mut effects, &mut cascaded)?;
    }
    effects.settle(tx)?;
    cascaded.woken = effects.woken;
    cascaded.more = tx.prepare(ANY)?.exists([])?;
    Ok(cascaded)
}

/// A stored cascade. `before` is its position: the children before this (round, id) remain.
struct StoredCascade {
    id: i64,
    parent: InstanceId,
    from_round: i32,
    action: CascadeAction,
    extent: Extent,
    note: Note,
    before: (i32, i64),
}

/// Returns the cascade to work on. One at a time: the next begins when this one is removed.
fn oldest(tx: &Tx<'_>) -> Result<Option<StoredCascade>, Fault> {
    let stored = tx
        .prepare(OLDEST)?
        .query_row([], |row| {
            let note = Note {
                by: row.get("operator")?,
                reason: row.get("reason")?,
            };
            let extent = match row.get("deep")? {
                true => Extent::Tree,
                false => Extent::One,
            };
            Ok(StoredCascade {
                id: row.get("id")?,
                parent: InstanceId(row.get("parent_id")?),
                from_round: row.get("from_round")?,
                action: decode::word(row, "action")?,
                extent,
                note,
                before: (row.get("at_round")?, row.get("before_id")?),
            })
        })
        .optional()?;
    Ok(stored)
}

/// Returns the next children of a cascade with their rounds, latest first.
fn children(
    tx: &Tx<'_>,
    stored: &StoredCascade,
    max: usize,
) -> Result<Vec<(i32, InstanceId)>, Fault> {
    let (round, id) = stored.before;
    let values = params![stored.parent.0, stored.from_round, round, id, max as i64];
    let mut statement = tx.prepare(CHILDREN)?;
    let children = statement.query_map(values, |row| {
        Ok((row.get("parent_round")?, InstanceId(row.get("id")?)))
    })?;
    Ok(children.collect::<rusqlite::Result<_>>()?)
}

/// Stores the position after this batch, or removes a cascade that has reached every child.
///
/// A full batch may have been the last. The next call finds no child and removes the row.
fn move_on(
    tx: &Tx<'_>,
    stored: &StoredCascade,
    acted_on: &[(i32, InstanceId)],
    max: usize,
) -> Result<(), Fault> {
    if acted_on.len() < max {
        tx.prepare(REMOVE)?.execute([stored.id])?;
    } else if let Some((round, id)) = acted_on.last() {
        tx.prepare(MOVE_ON)?
            .execute(params![stored.id, round, id.0])?;
    }
    Ok(())
}

/// Cancels or terminates one child, and records it with the parent as the cause.
///
/// A child that has finished or was cancelled before is left alone, so that a repeated cascade
/// changes nothing.
fn act_on(
    tx: &Tx<'_>,
    child: &TargetRow,
    stored: &StoredCascade,
    effects: &mut Effects,
    cascaded: &mut Cascaded,
) -> Result<(), Fault> {
    let cause = Some(stored.parent);
    let acted_on = match stored.action.for_child(child.on_parent_close) {
        ClosePolicy::Abandon => return Ok(()),
        ClosePolicy::RequestCancel => {
            match end_instances::request_cancel(tx, child, &stored.note, cause, effects)? {
                CancelAnswer::Requested(_) => &mut cascaded.requested,
                CancelAnswer::NeverStarted => &mut cascaded.ended,
                CancelAnswer::AlreadyRequested(_)
                | CancelAnswer::AlreadyEnded(_)
                | CancelAnswer::NotFound => return Ok(()),
            }
        }
        ClosePolicy::Terminate => {
            match end_instances::terminate_one(tx, child, &stored.note, cause, effects)? {
                TerminateAnswer::Terminated(_) => &mut cascaded.ended,
                TerminateAnswer::AlreadyEnded(_) | TerminateAnswer::NotFound => return Ok(()),
            }
        }
    };
    acted_on.push(child.id);
    // The status before the act: a worker that runs the child gets a hint.
    if child.status == Status::Executing {
        cascaded.running.push(child.id);
    }
    Ok(())
}
