//! The timer verb: wakes parked instances whose deadline has passed.

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
        let mut woken_instances = Vec::new();
        for id in due {
            if self.fire_one(id, now, &mut effects) {
                woken_instances.push(id);
            }
        }
        let settled = self.settle(effects, now);
        Ok(Fired {
            woken_instances,
            woken: settled.woken,
            cascades: settled.cascades,
            next_due_in: self.deadlines().first().map(|(next, _)| next.since(now)),
            next_timeout_in: self.next_timeout_in(now),
        })
    }

    /// Returns whether the deadline woke the row.
    ///
    /// A row that needs all and lacks more stays parked.
    fn fire_one(&mut self, id: InstanceId, now: Timestamp, effects: &mut Effects) -> bool {
        let Some(row) = self.instances.get_mut(&id) else {
            return false;
        };
        let lacks_names = row.awaits.as_ref().is_some_and(|names| !names.is_empty());
        if row.needs_all && (row.status == Status::AwaitingChildren || lacks_names) {
            row.await_deadline = None;
            row.updated_at = now;
            return false;
        }
        let joins = row.status == Status::AwaitingChildren;
        make_runnable(row, now, &mut effects.woken);
        if let Some(barrier) = row.barrier.as_mut().filter(|_| joins) {
            barrier.joined = Some(Joined::Deadline);
            effects.decided.extend(of_join(row));
        }
        true
    }

    /// Returns the deadlines of all waits and joins, earliest first.
    ///
    /// Every end of a wait clears its deadline.
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
