//! The effects of a verb on other rows, applied after all of its own rows are written.
//!
//! Effects are cascades, joins and places in windows. They are applied together: siblings that
//! finish in one verb are counted at once. The decision of a join then does not depend on which of
//! them was written first.

use super::Tables;
use super::cascade::Cascade;
use super::tables::make_runnable;
use super::workflow_outcome::{least, wake_if_complete};
use outlast_core::{
    CascadeAction, ClosePolicy, Instance, InstanceId, JoinProgress, Parent, QueueNames, Status,
    Timestamp, ended_note, joined_note,
};
use std::collections::BTreeMap;

/// The changes of a verb that affect other rows.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The queues in which an instance may have become claimable.
    pub(super) woken: QueueNames,
    /// The finished rows, and whether each had a place in a window.
    pub(super) ended: Vec<(InstanceId, bool)>,
    /// Cascades of the verb's own rows whose join was decided without some live children.
    pub(super) decided: Vec<Cascade>,
    /// Cascades over trees, in the order to run them.
    pub(super) trees: Vec<Cascade>,
}

/// The effects that the answer of a verb reports.
pub(super) struct Settled {
    pub(super) woken: QueueNames,
    /// Whether cascades were left.
    pub(super) cascades: bool,
}

impl Tables {
    /// Applies the effects.
    ///
    /// The contract fixes the order of the cascades: the verb's own rows by id, then trees, then
    /// joined parents by id. The oldest runs first.
    pub(super) fn settle(&mut self, effects: Effects, now: Timestamp) -> Settled {
        let Effects {
            mut woken,
            ended,
            decided,
            trees,
        } = effects;
        let mut own: Vec<Cascade> = ended.iter().filter_map(|it| self.of_end(it.0)).collect();
        own.extend(decided);
        own.sort_by_key(|cascade| cascade.parent);
        own.extend(trees);
        own.extend(self.join_parents(&ended, now, &mut woken));
        self.pass_places_on(&ended, now, &mut woken);
        let cascades = !own.is_empty();
        own.into_iter()
            .for_each(|cascade| self.add_cascade(cascade));
        Settled { woken, cascades }
    }

    /// Makes the cascade of a finished instance, if it has live children with a close policy.
    fn of_end(&self, id: InstanceId) -> Option<Cascade> {
        let parent = self.instances.get(&id).filter(|row| row.round > 0)?;
        let is_concerned = |row: &Instance| {
            row.parent.is_some_and(|it| it.id == id)
                && row.on_parent_close != ClosePolicy::Abandon
                && !row.status.is_terminal()
        };
        self.instances.values().any(is_concerned).then(|| {
            Cascade::of_rounds(parent, CascadeAction::Policy, ended_note(id, parent.status))
        })
    }

    /// Counts finished children for the parents that wait for them (I6), each parent once.
    fn join_parents(
        &mut self,
        ended: &[(InstanceId, bool)],
        now: Timestamp,
        woken: &mut QueueNames,
    ) -> Vec<Cascade> {
        let mut parents: BTreeMap<InstanceId, Vec<InstanceId>> = BTreeMap::new();
        for (id, _) in ended {
            if let Some(child) = self.instances.get(id)
                && let Some(parent) = child.parent
                && self.waits_for(parent, child.position)
            {
                parents.entry(parent.id).or_default().push(*id);
            }
        }
        let mut decided = Vec::new();
        for (parent, mut children) in parents {
            children.sort();
            decided.extend(self.join(parent, &children, now, woken));
        }
        decided
    }

    /// Whether a finished child counts.
    ///
    /// A machine waits for its present round, a workflow for its join sets.
    fn waits_for(&self, Parent { id, round }: Parent, position: Option<i32>) -> bool {
        let joins = |row: &&Instance| row.status == Status::AwaitingChildren;
        let parent = self.instances.get(&id).filter(joins);
        parent.is_some_and(|row| match &row.joining {
            None => row.round == round,
            Some(sets) => position.is_some_and(|it| sets.iter().any(|part| part.has(round, it))),
        })
    }

    fn join(
        &mut self,
        parent: InstanceId,
        ended: &[InstanceId],
        now: Timestamp,
        woken: &mut QueueNames,
    ) -> Option<Cascade> {
        let bad: Vec<InstanceId> = ended
            .iter()
            .copied()
            .filter(|id| self.instances.get(id).is_some_and(ended_badly))
            .collect();
        let places: Vec<(i32, i32)> = ended
            .iter()
            .filter_map(|id| self.instances.get(id))
            .filter_map(|child| child.parent.map(|it| it.round).zip(child.position))
            .collect();
        let row = self.instances.get_mut(&parent)?;
        let barrier = row.barrier.as_mut()?;
        row.children_pending = match row.joining.as_mut() {
            None => row.children_pending - count(ended),
            Some(sets) => count_off(sets, &places),
        };
        barrier.failed += count(&bad);
        barrier.first_failure = barrier.first_failure.or(bad.first().copied());
        row.updated_at = now;
        decide(row, now, woken)
    }

    /// Gives a place to one waiting child for each place of its round that became free.
    fn pass_places_on(
        &mut self,
        ended: &[(InstanceId, bool)],
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        for (id, _) in ended.iter().filter(|(_, had_place)| *had_place) {
            if let Some(round) = self.instances.get(id).and_then(|row| row.parent) {
                self.admit(round, now, woken);
            }
        }
    }

    /// Gives a place to the next child of a round.
    pub(super) fn admit(
        &mut self,
        round: Parent,
        now: Timestamp,
        woken: &mut QueueNames,
    ) -> Option<InstanceId> {
        let waits = |row: &&mut Instance| row.parent == Some(round) && row.held == Some(true);
        let row = self.instances.values_mut().find(waits)?;
        row.held = Some(false);
        row.updated_at = now;
        let id = row.id;
        self.hint(id, now, woken);
        Some(id)
    }
}

/// Wakes a parent whose join is decided. Returns a cascade when that affects live children.
pub(super) fn decide(
    row: &mut Instance,
    now: Timestamp,
    woken: &mut QueueNames,
) -> Option<Cascade> {
    let barrier = row.barrier.as_mut()?;
    let joined = barrier
        .until
        .decided(barrier.started, row.children_pending, barrier.failed)?;
    barrier.joined = Some(joined);
    if row.needs_all {
        wake_if_complete(row, now, woken);
        return None;
    }
    make_runnable(row, now, woken);
    of_join(row)
}

/// Makes the cascade over the children that the present join was decided without.
pub(super) fn of_join(row: &Instance) -> Option<Cascade> {
    let barrier = row.barrier?;
    let joined = barrier.joined.filter(|_| row.children_pending > 0)?;
    let action = CascadeAction::of_rest(barrier.rest)?;
    let cascade = Cascade::of_rounds(row, action, joined_note(row.id, joined));
    Some(Cascade {
        from_round: row.round,
        ..cascade
    })
}

pub(super) fn ended_badly(row: &Instance) -> bool {
    matches!(row.status, Status::Failed | Status::Cancelled)
}

/// Counts finished children in every join set that contains them.
///
/// Returns the smallest number of pending children. More may finish than a join set waits for.
fn count_off(sets: &mut [JoinProgress], places: &[(i32, i32)]) -> i32 {
    for part in &mut *sets {
        for &(round, position) in places {
            part.left -= i32::from(part.has(round, position));
        }
        part.left = part.left.max(0);
    }
    least(sets)
}

fn count(ids: &[InstanceId]) -> i32 {
    i32::try_from(ids.len()).unwrap_or(i32::MAX)
}
