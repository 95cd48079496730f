//! Joins: counts finished children for the waiting parent, and wakes it when the join is decided.
//!
//! `effects.rs` calls it once per parent and verb. A child must count only for a parent that waits
//! for its round (I6). The late end of an older round's child must not hit the next round
//! (docs/protocol.md, defect 6). A machine counts by round, a workflow by join set.

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::cascade::CascadeRow;
use crate::verbs::commit::array;
use outlast_core::{
    ClosePolicy, InstanceId, JoinProgress, Joined, Parent, QueueNames, Until, joined_note,
};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::BTreeSet;

const JOIN: &str = include_str!("../../../sql/join/join.sql");
const SETS: &str = include_str!("../../../sql/join/sets.sql");
const JOIN_SETS: &str = include_str!("../../../sql/join/join_sets.sql");
const AWAIT_REST: &str = include_str!("../../../sql/join/await_rest.sql");
const JOINED: &str = include_str!("../../../sql/join/joined.sql");

/// A finished child, as its parent counts it.
#[derive(Clone, Copy)]
pub(crate) struct ChildEnd {
    pub(crate) id: InstanceId,
    pub(crate) round: i32,
    pub(crate) position: i32,
    pub(crate) is_bad: bool,
}

/// The count of children that finished together.
#[derive(Default)]
struct EndedChildren {
    ended: i32,
    failed: i32,
    /// The first failed or cancelled child, in the order the parent started them.
    ///
    /// Ids grow in that order.
    first_failure: Option<InstanceId>,
}

impl EndedChildren {
    fn of<'a>(children: impl Iterator<Item = &'a ChildEnd>) -> EndedChildren {
        let mut counted = EndedChildren::default();
        for child in children {
            counted.ended += 1;
            if child.is_bad {
                counted.failed += 1;
                let first = counted.first_failure.into_iter().chain([child.id]).min();
                counted.first_failure = first;
            }
        }
        counted
    }
}

/// A parent that waits for children, and the progress of its join.
pub(crate) struct Barrier {
    pub(crate) parent: InstanceId,
    pub(crate) queue: String,
    pub(crate) round: i32,
    pub(crate) until: Until,
    pub(crate) rest: ClosePolicy,
    pub(crate) started: i32,
    pub(crate) pending: i32,
    pub(crate) failed: i32,
    /// Whether it is a workflow whose group needs more than the children, and is incomplete.
    pub(crate) lacks_more: bool,
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
            lacks_more: false,
        })
    }

    /// Returns the round that it waits for.
    pub(crate) fn of(&self) -> Parent {
        Parent {
            id: self.parent,
            round: self.round,
        }
    }

    /// Returns why the join is decided; `None` while it is open.
    pub(crate) fn decided(&self) -> Option<Joined> {
        self.until.decided(self.started, self.pending, self.failed)
    }

    /// Wakes the parent if the join is decided.
    ///
    /// A group that still lacks a signal or a deadline stays parked. A failure still wakes it
    /// (docs/decisions/0047).
    ///
    /// Returns the cascade over the children that the join was decided without.
    pub(crate) fn decide(
        self,
        tx: &Tx<'_>,
        woken: &mut QueueNames,
    ) -> Result<Option<CascadeRow>, Fault> {
        let Some(joined) = self.decided() else {
            return Ok(None);
        };
        if self.lacks_more && joined == Joined::All {
            // Leaves `awaiting_children`, so that later ends do not count.
            tx.prepare(AWAIT_REST)?
                .execute(params![self.parent.0, tx.now.0])?;
            return Ok(None);
        }
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

/// Counts finished children for their parent, and decides its join if possible.
pub(crate) fn join(
    tx: &Tx<'_>,
    parent: InstanceId,
    ended: &[ChildEnd],
    woken: &mut QueueNames,
) -> Result<Option<CascadeRow>, Fault> {
    let counted = match count_round(tx, parent, ended)? {
        Some(barrier) => Some(barrier),
        None => count_sets(tx, parent, ended)?,
    };
    match counted {
        Some(barrier) => barrier.decide(tx, woken),
        None => Ok(None),
    }
}

/// Counts finished children for a machine that waits for one of their rounds (I6).
fn count_round(
    tx: &Tx<'_>,
    parent: InstanceId,
    ended: &[ChildEnd],
) -> Result<Option<Barrier>, Fault> {
    // The statement compares the round with the row's, so at most one of these rounds counts.
    let rounds: BTreeSet<i32> = ended.iter().map(|child| child.round).collect();
    for round in rounds {
        let children = EndedChildren::of(ended.iter().filter(|child| child.round == round));
        let values = params![
            parent.0,
            round,
            children.ended,
            children.failed,
            children.first_failure.map(|id| id.0),
            tx.now.0
        ];
        // The schema refuses a count below zero: a child that counts twice fails the verb.
        let counted = tx
            .prepare(JOIN)?
            .query_row(values, |row| Barrier::decode(parent, row))
            .optional()?;
        if counted.is_some() {
            return Ok(counted);
        }
    }
    Ok(None)
}

/// Counts finished children for a workflow, in every join set that contains them (I6).
///
/// More children may finish than a join set waits for. A bad end is one failure, however many sets
/// contain the child (docs/decisions/0039).
fn count_sets(
    tx: &Tx<'_>,
    parent: InstanceId,
    ended: &[ChildEnd],
) -> Result<Option<Barrier>, Fault> {
    let sets = tx
        .prepare(SETS)?
        .query_row(params![parent.0, tx.now.0], |row| {
            let sets = decode::joining(row)?;
            Ok(sets.zip(Some(row.get::<_, bool>("lacks_more")?)))
        })
        .optional()?;
    let Some((mut sets, lacks_more)) = sets.flatten() else {
        return Ok(None);
    };
    let awaited = |child: &&ChildEnd| sets.iter().any(|set| counts(set, child));
    let awaited: Vec<&ChildEnd> = ended.iter().filter(awaited).collect();
    if awaited.is_empty() {
        return Ok(None);
    }
    for set in &mut sets {
        let ended = awaited.iter().filter(|child| counts(set, child)).count();
        set.left = set.left.saturating_sub_unsigned(ended as u32).max(0);
    }
    let left: Vec<i32> = sets.iter().map(|set| set.left).collect();
    let children = EndedChildren::of(awaited.into_iter());
    let values = params![
        parent.0,
        array(&left),
        left.iter().min(),
        children.failed,
        children.first_failure.map(|id| id.0),
        tx.now.0
    ];
    let counted = tx
        .prepare(JOIN_SETS)?
        .query_row(values, |row| Barrier::decode(parent, row))?;
    Ok(Some(Barrier {
        lacks_more,
        ..counted
    }))
}

/// Whether a join set contains the child.
fn counts(set: &JoinProgress, child: &ChildEnd) -> bool {
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("join-sets-are-counted-together") {
        return true;
    }
    set.has(child.round, child.position)
}

/// Wakes a parent that waits for children.
///
/// Nothing happens to a parent that no longer waits.
pub(crate) fn wake(tx: &Tx<'_>, parent: InstanceId, joined: Joined) -> Result<(), Fault> {
    tx.prepare(JOINED)?
        .execute(params![parent.0, joined.as_str(), tx.now.0])?;
    Ok(())
}

/// Makes the cascade over the children that a join was decided without.
///
/// `None` when there are none, or when the policy leaves them alone.
pub(crate) fn of_rest(
    parent: InstanceId,
    round: i32,
    pending: i32,
    rest: ClosePolicy,
    joined: Joined,
) -> Option<CascadeRow> {
    match pending {
        0 => None,
        _ => CascadeRow::of_rest(parent, round, rest, joined_note(parent, joined)),
    }
}
