//! Looking for what should not exist.

use super::Tables;
use super::tables::make_runnable;
use outlast_core::{InstanceId, ReconcileRequest, Reconciled, Result, Status, Timestamp};
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
        for id in page {
            self.check_join(id, now, &mut reconciled);
        }
        Ok(reconciled)
    }

    fn check_join(&mut self, id: InstanceId, now: Timestamp, found: &mut Reconciled) {
        let Some(row) = self.instances.get(&id) else {
            return;
        };
        if row.status != Status::AwaitingChildren {
            return;
        }
        let live = self
            .children_of(id, Some(row.round))
            .filter(|child| !child.status.is_terminal())
            .count();
        let live = i32::try_from(live).unwrap_or(i32::MAX);
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        if row.children_pending == live {
            return;
        }
        found.joins.push(id);
        row.children_pending = live;
        row.updated_at = now;
        if live == 0 {
            make_runnable(row, now, &mut found.woken);
        }
    }
}
