//! The effects of a verb on other rows, applied after all of its own rows are written.
//!
//! Effects are cascades, joins, places in windows, and the next rows of partition keys. They are
//! applied together: siblings that finish in one verb are counted at once (docs/protocol.md,
//! defect 5). The decision of a join then does not depend on which of them was written first.
//!
//! Every verb that ends instances gathers them in [`Effects`] and settles it in its transaction.
//! Otherwise parents, windows and partition keys keep waiting (I2).

pub(crate) mod join;
pub(crate) mod partition_line;
pub(crate) mod window;

use crate::decode;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::cascade::{self, CascadeRow};
use join::ChildEnd;
use outlast_core::{InstanceId, Parent, QueueNames, Status, ended_note};
use rusqlite::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

const POLICED: &str = include_str!("../../sql/cascade/policed.sql");

/// The changes of a verb that affect other rows.
#[derive(Default)]
pub(crate) struct Effects {
    /// The queues in which an instance may have become claimable: hints.
    ///
    /// A queue too many costs one look, one too few costs a poll interval.
    pub(crate) woken: QueueNames,
    /// Whether the verb has left a cascade to run.
    pub(crate) cascades: bool,
    ended: Vec<Ended>,
    /// Cascades over the children that joins of the verb's rows were decided without.
    decided: Vec<CascadeRow>,
    /// Cascades over descendants of the verb's rows, in the order to run them.
    trees: Vec<CascadeRow>,
}

/// A row that has just finished, with its links to other rows.
pub(crate) struct Ended {
    pub(crate) id: InstanceId,
    pub(crate) status: Status,
    pub(crate) partition_key: Option<String>,
    pub(crate) child_position: Option<ChildPosition>,
    /// Whether it had a place in the window of its siblings.
    pub(crate) had_place: bool,
    pub(crate) round: i32,
}

/// The position of a child in its parent's round.
#[derive(Clone, Copy)]
pub(crate) struct ChildPosition {
    pub(crate) parent: Parent,
    pub(crate) position: i32,
}

impl Ended {
    /// Decodes a row as it was before or after it finished.
    ///
    /// A row with a place in a window keeps it.
    pub(crate) fn decode(row: &Row<'_>) -> rusqlite::Result<Ended> {
        Ok(Ended {
            id: InstanceId(row.get("id")?),
            status: decode::word(row, "status")?,
            partition_key: row.get("partition_key")?,
            child_position: decode::child_position(row)?,
            had_place: row.get::<_, Option<bool>>("held")? == Some(false),
            round: row.get("round")?,
        })
    }
}

impl Effects {
    /// Adds a row that has finished.
    pub(crate) fn ended(&mut self, ended: Ended) {
        self.ended.push(ended);
    }

    /// Adds the cascade of a join that was decided early.
    pub(crate) fn decided(&mut self, cascade: Option<CascadeRow>) {
        self.decided.extend(cascade);
    }

    /// Adds a cascade over the descendants of an instance.
    pub(crate) fn tree(&mut self, cascade: CascadeRow) {
        self.trees.push(cascade);
    }

    /// Forgets the changes that were rolled back.
    ///
    /// Keeps `woken` and `cascades`: they are hints, and a wrong one does no harm.
    pub(crate) fn forget(&mut self) {
        self.ended.clear();
        self.decided.clear();
        self.trees.clear();
    }

    /// Applies the effects.
    ///
    /// The contract fixes the order of the cascades: the verb's own rows by id, then trees, then
    /// joined parents by id. They run in the order in which they are stored.
    ///
    /// One pass is enough: no effect ends another instance. Children are ended by the cascade
    /// verb.
    pub(crate) fn settle(&mut self, tx: &Tx<'_>) -> Result<(), Fault> {
        // Taken, so that a second call does not count an end twice.
        let ended = mem::take(&mut self.ended);
        let mut cascades = mem::take(&mut self.decided);
        for parent in ended.iter().filter(|it| it.round > 0) {
            cascades.extend(of_end(tx, parent)?);
        }
        cascades.sort_by_key(|cascade| cascade.parent);
        cascades.append(&mut self.trees);
        for (parent, children) in by_parent(&ended) {
            cascades.extend(join::join(tx, parent, &children, &mut self.woken)?);
        }
        for (round, places) in places(&ended) {
            window::admit(tx, round, places, &mut self.woken)?;
        }
        // After the windows: a child that gets its place joins the line of its partition key.
        let keys: BTreeSet<&str> = ended
            .iter()
            .filter_map(|it| it.partition_key.as_deref())
            .collect();
        for key in keys {
            partition_line::let_through(tx, key, &mut self.woken)?;
        }
        for cascade in &cascades {
            cascade::leave(tx, cascade)?;
        }
        self.cascades |= !cascades.is_empty();
        Ok(())
    }
}

/// Makes the cascade of a finished instance, if it has live children with a close policy.
fn of_end(tx: &Tx<'_>, parent: &Ended) -> Result<Option<CascadeRow>, Fault> {
    let concerns = tx.prepare(POLICED)?.exists([parent.id.0])?;
    Ok(concerns.then(|| {
        let note = ended_note(parent.id, parent.status);
        CascadeRow::by_policy(parent.id, parent.round, note)
    }))
}

/// Groups finished children by parent, in the order of the parents' ids.
///
/// Each parent is updated once, whatever the number of its children (docs/protocol.md, defect 5).
fn by_parent(ended: &[Ended]) -> BTreeMap<InstanceId, Vec<ChildEnd>> {
    let mut parents: BTreeMap<InstanceId, Vec<ChildEnd>> = BTreeMap::new();
    for child in ended {
        if let Some(ChildPosition { parent, position }) = child.child_position {
            let children = parents.entry(parent.id).or_default();
            children.push(ChildEnd {
                id: child.id,
                round: parent.round,
                position,
                is_bad: matches!(child.status, Status::Failed | Status::Cancelled),
            });
        }
    }
    parents
}

/// Counts the places that became free in each window.
fn places(ended: &[Ended]) -> BTreeMap<(InstanceId, i32), i64> {
    let mut places = BTreeMap::new();
    for child in ended.iter().filter(|it| it.had_place) {
        if let Some(ChildPosition { parent, .. }) = child.child_position {
            *places.entry((parent.id, parent.round)).or_default() += 1;
        }
    }
    places
}
