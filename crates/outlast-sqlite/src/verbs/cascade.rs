//! Cascades: a parent's end, a decided join or an operator acts on the children of an instance.
//!
//! The verb that causes a cascade inserts one row, however many children there are ([`leave`]).
//! Each call of [`cascade`] takes the oldest row and acts on a batch of its children. No
//! transaction ever touches all children of a large parent at once.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::Effects;
use crate::verbs::operate::{self, TargetRow};
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
    /// `None` when the instance has never fanned out.
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
pub(crate) fn leave(tx: &Tx<'_>, word: &CascadeRow) -> Result<(), Fault> {
    tx.prepare(LEAVE)?.execute(params![
        word.parent.0,
        word.from_round,
        word.upto_round,
        word.action.as_str(),
        word.extent == Extent::Tree,
        word.note.by,
        word.note.clean_reason(),
        i64::MAX,
        tx.now.0
    ])?;
    Ok(())
}

/// Acts on the next batch of children of the oldest cascade.
pub(crate) fn cascade(tx: &Tx<'_>, request: CascadeRequest) -> Result<Cascaded, Fault> {
    let mut cascaded = Cascaded::default();
    let Some(left) = oldest(tx)? else {
        return Ok(cascaded);
    };
    let batch = children(tx, &left, request.max)?;
    // In the transaction of the batch, so that a crash undoes both.
    move_on(tx, &left, &batch, request.max)?;
    let mut effects = Effects::default();
    let mut standings = Vec::with_capacity(batch.len());
    for (_, id) in &batch {
        standings.extend(operate::target_row(tx, *id)?);
    }
    if left.extent == Extent::Tree {
        for child in &standings {
            let word = CascadeRow::of_tree(child.id, child.round, left.action, &left.note);
            word.into_iter().for_each(|word| effects.tree(word));
        }
    }
    standings.sort_by_key(|child| child.id);
    for child in &standings {
        tell(tx, child, &left, &mut effects, &mut cascaded)?;
    }
    effects.settle(tx)?;
    cascaded.woken = effects.woken;
    cascaded.more = tx.prepare(ANY)?.exists([])?;
    Ok(cascaded)
}

/// A stored cascade. `before` is its position: the children before this (round, id) remain.
struct Left {
    id: i64,
    parent: InstanceId,
    from_round: i32,
    action: CascadeAction,
    extent: Extent,
    note: Note,
    before: (i32, i64),
}

fn oldest(tx: &Tx<'_>) -> Result<Option<Left>, Fault> {
    let left = tx
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
            Ok(Left {
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
    Ok(left)
}

/// Returns the next children of a cascade with their rounds, latest first.
fn children(tx: &Tx<'_>, left: &Left, max: usize) -> Result<Vec<(i32, InstanceId)>, Fault> {
    let (round, id) = left.before;
    let values = params![left.parent.0, left.from_round, round, id, max as i64];
    let mut statement = tx.prepare(CHILDREN)?;
    let children = statement.query_map(values, |row| {
        Ok((row.get("parent_round")?, InstanceId(row.get("id")?)))
    })?;
    Ok(children.collect::<rusqlite::Result<_>>()?)
}

fn move_on(tx: &Tx<'_>, left: &Left, told: &[(i32, InstanceId)], max: usize) -> Result<(), Fault> {
    if told.len() < max {
        tx.prepare(REMOVE)?.execute([left.id])?;
    } else if let Some((round, id)) = told.last() {
        tx.prepare(MOVE_ON)?
            .execute(params![left.id, round, id.0])?;
    }
    Ok(())
}

fn tell(
    tx: &Tx<'_>,
    child: &TargetRow,
    left: &Left,
    effects: &mut Effects,
    cascaded: &mut Cascaded,
) -> Result<(), Fault> {
    let cause = Some(left.parent);
    let told = match left.action.for_child(child.on_parent_close) {
        ClosePolicy::Abandon => return Ok(()),
        ClosePolicy::RequestCancel => {
            match operate::request_cancel(tx, child, &left.note, cause, effects)? {
                CancelAnswer::Requested(_) => &mut cascaded.requested,
                CancelAnswer::NeverStarted => &mut cascaded.ended,
                CancelAnswer::AlreadyRequested(_)
                | CancelAnswer::AlreadyEnded(_)
                | CancelAnswer::NotFound => return Ok(()),
            }
        }
        ClosePolicy::Terminate => {
            match operate::put_an_end(tx, child, &left.note, cause, effects)? {
                TerminateAnswer::Terminated(_) => &mut cascaded.ended,
                TerminateAnswer::AlreadyEnded(_) | TerminateAnswer::NotFound => return Ok(()),
            }
        }
    };
    told.push(child.id);
    if child.status == Status::Executing {
        cascaded.running.push(child.id);
    }
    Ok(())
}
