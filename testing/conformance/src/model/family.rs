//! The cancel and terminate verbs, and the family of an instance.

use super::Tables;
use super::cascade::Cascade;
use super::effects::Effects;
use super::operate::{check_request, in_order_of_ids};
use super::tables::make_runnable;
use outlast_core::{
    CancelAnswer, CancelRequest, Cancelled, CascadeAction, Extent, Family, Instance, InstanceId,
    Note, Result, Status, TerminateAnswer, Terminated, Timestamp, Verb, limits,
};
use std::collections::{BTreeSet, VecDeque};

impl Tables {
    pub(super) fn cancel(
        &mut self,
        ids: &[InstanceId],
        extent: Extent,
        note: &Note,
        now: Timestamp,
    ) -> Result<Cancelled> {
        check_request("cancel", ids, note)?;
        let mut effects = Effects {
            trees: self.trees(ids, extent, CascadeAction::Cancel, note),
            ..Effects::default()
        };
        let answers = in_order_of_ids(ids, |id| self.cancel_one(id, note, None, now, &mut effects));
        let settled = self.settle(effects, now);
        Ok(Cancelled {
            answers,
            woken: settled.woken,
            cascades: settled.cascades,
        })
    }

    pub(super) fn terminate(
        &mut self,
        ids: &[InstanceId],
        extent: Extent,
        note: &Note,
        now: Timestamp,
    ) -> Result<Terminated> {
        check_request("terminate", ids, note)?;
        let mut effects = Effects {
            trees: self.trees(ids, extent, CascadeAction::Terminate, note),
            ..Effects::default()
        };
        let answers = in_order_of_ids(ids, |id| {
            self.terminate_one(id, note, None, now, &mut effects)
        });
        let settled = self.settle(effects, now);
        Ok(Terminated {
            answers,
            woken: settled.woken,
            cascades: settled.cascades,
        })
    }

    /// Makes the cascades of whole trees: each tree once, by id, finished or not.
    fn trees(
        &self,
        ids: &[InstanceId],
        extent: Extent,
        action: CascadeAction,
        note: &Note,
    ) -> Vec<Cascade> {
        let roots: BTreeSet<InstanceId> = match extent {
            Extent::One => BTreeSet::new(),
            Extent::Tree => ids.iter().copied().collect(),
        };
        let rows = roots.iter().filter_map(|id| self.instances.get(id));
        rows.filter_map(|row| Cascade::of_tree(row, action, note.clone()))
            .collect()
    }

    pub(super) fn cancel_one(
        &mut self,
        id: InstanceId,
        note: &Note,
        cause: Option<InstanceId>,
        now: Timestamp,
        effects: &mut Effects,
    ) -> CancelAnswer {
        let Some(row) = self.instances.get_mut(&id) else {
            return CancelAnswer::NotFound;
        };
        let before = row.status;
        if before.is_terminal() {
            return CancelAnswer::AlreadyEnded(before);
        }
        if row.held == Some(true) {
            self.end_as_cancelled(id, note.cancellation(), now, effects);
            self.record(Verb::Cancel, id, before, note, cause, now);
            return CancelAnswer::NeverStarted;
        }
        if row.cancel.is_some() {
            return CancelAnswer::AlreadyRequested(before);
        }
        row.cancel = Some(CancelRequest {
            reason: note.cancellation(),
            requested_at: now,
            answered: false,
        });
        row.updated_at = now;
        self.wake_to_answer(id, now, effects);
        self.record(Verb::Cancel, id, before, note, cause, now);
        CancelAnswer::Requested(before)
    }

    /// Wakes an instance that is not executing, so that it answers its cancel.
    fn wake_to_answer(&mut self, id: InstanceId, now: Timestamp, effects: &mut Effects) {
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        match row.status {
            Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren => {
                make_runnable(row, now, &mut effects.woken);
            }
            Status::Runnable if row.eligible_at > now => {
                row.eligible_at = now;
                if self
                    .instances
                    .get(&id)
                    .is_some_and(|row| !self.is_behind_its_key(row))
                {
                    self.hint(id, now, &mut effects.woken);
                }
            }
            Status::Runnable
            | Status::Executing
            | Status::Done
            | Status::Failed
            | Status::Cancelled => {}
        }
    }

    pub(super) fn terminate_one(
        &mut self,
        id: InstanceId,
        note: &Note,
        cause: Option<InstanceId>,
        now: Timestamp,
        effects: &mut Effects,
    ) -> TerminateAnswer {
        let Some(row) = self.instances.get(&id) else {
            return TerminateAnswer::NotFound;
        };
        let before = row.status;
        if before.is_terminal() {
            return TerminateAnswer::AlreadyEnded(before);
        }
        self.end_as_cancelled(id, note.termination(), now, effects);
        self.record(Verb::Terminate, id, before, note, cause, now);
        TerminateAnswer::Terminated(before)
    }

    /// Finishes an instance as cancelled, in any status.
    fn end_as_cancelled(
        &mut self,
        id: InstanceId,
        error: String,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        if let Some(row) = self.instances.get_mut(&id) {
            row.revision = row.revision.next();
            row.crashes = 0;
            row.last_error = Some(error);
        }
        self.end(id, Status::Cancelled, now, effects);
    }

    /// Counts `root` and its descendants by status.
    pub(super) fn family(&self, root: InstanceId) -> Option<Family> {
        let mut counts = [0_u64; Status::ALL.len()];
        let mut complete = true;
        let mut seen = 0;
        let mut to_visit: VecDeque<&Instance> = [self.instances.get(&root)?].into();
        while let Some(row) = to_visit.pop_front() {
            if seen == limits::COUNT_MAX {
                complete = false;
                break;
            }
            seen += 1;
            counts[row.status as usize] += 1;
            let rows = self.instances.values();
            to_visit.extend(rows.filter(|it| it.parent.is_some_and(|by| by.id == row.id)));
        }
        let members = Status::ALL.into_iter().zip(counts);
        Some(Family {
            members: members.filter(|(_, count)| *count > 0).collect(),
            complete,
        })
    }
}
