//! The collector's verb: removes instances that finished long ago.

use super::Tables;
use outlast_core::{CollectRequest, Collected, InstanceId, Operation, Result, Timestamp};

impl Tables {
    pub(super) fn collect(&mut self, request: CollectRequest, now: Timestamp) -> Result<Collected> {
        request
            .check()
            .map_err(|invalid| invalid.during("collect"))?;
        let before = now - request.retention;
        let mut old: Vec<(Timestamp, InstanceId)> = self
            .instances
            .values()
            .filter(|row| self.living_parent(row).is_none() && !self.is_cascading(row.id))
            .filter_map(|row| Some((row.finished_at?, row.id)))
            .filter(|(finished_at, _)| *finished_at <= before)
            .collect();
        old.sort();
        old.truncate(request.max);

        let removed: Vec<InstanceId> = old.into_iter().map(|(_, id)| id).collect();
        for id in &removed {
            self.remove(*id);
        }
        self.forget_operations(before);
        Ok(Collected {
            more: !removed.is_empty() && removed.len() == request.max,
            removed,
        })
    }

    /// Removes an instance with its signals, replies, events, views and operations.
    pub(super) fn remove(&mut self, id: InstanceId) {
        self.instances.remove(&id);
        self.histories.remove(&id);
        self.views.remove(&id);
        self.timeouts.remove(&id);
        self.signals.retain(|_, signal| signal.target != id);
        self.replies
            .retain(|signal, _| self.signals.contains_key(signal));
        self.operations
            .retain(|operation| operation.instance != Some(id));
    }

    /// Removes old operations on queues and on deleted instances.
    ///
    /// Other operations are removed with their instance.
    fn forget_operations(&mut self, before: Timestamp) {
        let instances = &self.instances;
        let belongs = |operation: &Operation| {
            operation
                .instance
                .is_some_and(|id| instances.contains_key(&id))
        };
        self.operations
            .retain(|operation| operation.at > before || belongs(operation));
    }
}
