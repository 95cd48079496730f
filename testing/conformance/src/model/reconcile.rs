//! The reconciler's verb: finds rows that break an invariant, and repairs them.

use super::Tables;
use super::effects::{Effects, decide};
use super::tables::make_runnable;
use outlast_core::{
    Instance, InstanceId, JoinProgress, Joined, ReconcileRequest, Reconciled, Result, Status,
    Timestamp,
};
use std::ops::Bound;

impl Tables {
    pub(super) fn reconcile(
        &mut self,
        request: ReconcileRequest,
        now: Timestamp,
    ) -> Result<Reconciled> {
        request
            .check()
            .map_err(|invalid| invalid.during("reconcile"))?;
        let start = request.after.map_or(Bound::Unbounded, Bound::Excluded);
        let page: Vec<InstanceId> = self
            .instances
            .range((start, Bound::Unbounded))
            .map(|(id, _)| *id)
            .take(request.max)
            .collect();
        let mut reconciled = Reconciled {
            next: page.last().copied().filter(|_| page.len() == request.max),
            ..Reconciled::default()
        };
        let mut effects = Effects::default();
        for id in &page {
            self.check_join(*id, now, &mut effects, &mut reconciled);
        }
        for id in page {
            self.check_hold(id, now, &mut effects, &mut reconciled);
        }
        reconciled.woken = self.settle(effects, now).woken;
        Ok(reconciled)
    }

    fn check_join(
        &mut self,
        id: InstanceId,
        now: Timestamp,
        effects: &mut Effects,
        found: &mut Reconciled,
    ) {
        let joins = |row: &&Instance| row.status == Status::AwaitingChildren;
        let Some(row) = self.instances.get(&id).filter(joins) else {
            return;
        };
        let round = row.round;
        if let Some(sets) = &row.joining {
            if !sets.iter().all(|part| self.has_living_child(id, part)) {
                found.joins.push(id);
                self.wake_flow(id, now, effects);
            }
            return;
        }
        let count = |wanted: fn(Status) -> bool| {
            let children = self.children_of(id, Some(round));
            let wanted = children.filter(|child| wanted(child.status)).count();
            i32::try_from(wanted).unwrap_or(i32::MAX)
        };
        let live = count(|status| !status.is_terminal());
        let failed = count(|status| matches!(status, Status::Failed | Status::Cancelled));
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        let Some(barrier) = row.barrier.as_mut() else {
            return;
        };
        let fits = row.children_pending == live && barrier.failed == failed;
        let decided = barrier.until.decided(barrier.started, live, failed);
        if fits && decided.is_none() {
            return;
        }
        found.joins.push(id);
        row.children_pending = live;
        barrier.failed = failed;
        row.updated_at = now;
        effects.decided.extend(decide(row, now, &mut effects.woken));
    }

    fn has_living_child(&self, id: InstanceId, part: &JoinProgress) -> bool {
        let mut children = self.children_of(id, None);
        children.any(|it| part.has(it.round, it.position) && !it.status.is_terminal())
    }

    /// Wakes a workflow and leaves its counters unchanged: it checks its children itself.
    fn wake_flow(&mut self, id: InstanceId, now: Timestamp, effects: &mut Effects) {
        if let Some(row) = self.instances.get_mut(&id) {
            if let Some(barrier) = row.barrier.as_mut() {
                barrier.joined = Some(Joined::All);
            }
            make_runnable(row, now, &mut effects.woken);
        }
    }

    /// Gives a place to a child that waits in a window where no child has one.
    ///
    /// Otherwise the child would wait for ever.
    fn check_hold(
        &mut self,
        id: InstanceId,
        now: Timestamp,
        effects: &mut Effects,
        found: &mut Reconciled,
    ) {
        let waits = |row: &&Instance| row.held == Some(true);
        let row = self.instances.get(&id).filter(waits);
        let Some(round) = row.and_then(|row| row.parent) else {
            return;
        };
        let has_place = |row: &Instance| {
            row.parent == Some(round) && row.held == Some(false) && !row.status.is_terminal()
        };
        if !self.instances.values().any(has_place) {
            let admitted = self.admit(round, now, &mut effects.woken);
            found.holds.extend(admitted);
        }
    }
}
