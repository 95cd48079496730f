//! Waking waits and joins whose deadline has come.

use super::Tables;
use super::effects::{Effects, of_join};
use super::tables::make_runnable;
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{Fired, InstanceId, Joined, Result, Status, Timestamp};

impl Tables {
    pub(super) fn fire(&mut self, max: usize, now: Timestamp) -> Result<Fired> {
        limits::check_batch("fire", max, BATCH_MAX).map_err(|invalid| invalid.during("fire"))?;
        let due: Vec<InstanceId> = self
            .deadlines()
            .into_iter()
            .filter(|(deadline, _)| *deadline <= now)
            .map(|(_, id)| id)
            .take(max)
            .collect();
        let mut effects = Effects::default();
        for id in &due {
            self.time_is_up(*id, now, &mut effects);
        }
        let settled = self.settle(effects, now);
        Ok(Fired {
            woken_instances: due,
            woken: settled.woken,
            cascades: settled.cascades,
            next_due_in: self.deadlines().first().map(|(next, _)| next.since(now)),
        })
    }

    fn time_is_up(&mut self, id: InstanceId, now: Timestamp, effects: &mut Effects) {
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        let joins = row.status == Status::AwaitingChildren;
        make_runnable(row, now, &mut effects.woken);
        if let Some(barrier) = row.barrier.as_mut().filter(|_| joins) {
            barrier.joined = Some(Joined::Deadline);
            effects.decided.extend(of_join(row));
        }
    }

    /// The deadlines of all waits and joins, earliest first. Whatever ends a wait clears its deadline.
    fn deadlines(&self) -> Vec<(Timestamp, InstanceId)> {
        let mut deadlines: Vec<_> = self
            .instances
            .values()
            .filter_map(|row| Some((row.await_deadline?, row.id)))
            .collect();
        deadlines.sort();
        deadlines
    }
}
