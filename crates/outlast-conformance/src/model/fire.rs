//! Waking waits whose deadline has come.

use super::Tables;
use super::tables::make_runnable;
use outlast_core::limits::{self, BATCH_MAX};
use outlast_core::{Fired, InstanceId, QueueNames, Result, Timestamp};

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
        let mut woken = QueueNames::new();
        for id in &due {
            if let Some(row) = self.instances.get_mut(id) {
                make_runnable(row, now, &mut woken);
            }
        }
        Ok(Fired {
            woken_instances: due,
            woken,
            next_due_in: self.deadlines().first().map(|(next, _)| next.since(now)),
        })
    }

    /// The deadlines of all waits, earliest first. Whatever ends a wait clears its deadline.
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
