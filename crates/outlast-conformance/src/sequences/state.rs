//! The whole state of a store, as it can be read through `Inspect`.

use super::calls::rename_dropped;
use super::ids::Ids;
use crate::Database;
use futures_util::future::{try_join_all, try_join5};
use outlast_core::{
    Filter, Instance, InstanceId, ListRequest, Operation, QueueSummary, Result, SignalRow, Worker,
    limits,
};
use std::collections::BTreeSet;

/// Everything there is, in one order on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) instances: Vec<Instance>,
    pub(super) signals: Vec<SignalRow>,
    pub(super) workers: Vec<Worker>,
    pub(super) operations: Vec<Operation>,
    pub(super) queues: Vec<QueueSummary>,
}

impl State {
    /// Reads everything; of signals only those of `inboxes`, where that is given.
    pub(super) async fn read(
        store: &dyn Database,
        inboxes: Option<&BTreeSet<InstanceId>>,
    ) -> Result<State> {
        let signals = |of: &BTreeSet<InstanceId>| {
            let inboxes = of.iter().map(|id| store.signals(*id, None));
            try_join_all(inboxes.collect::<Vec<_>>())
        };
        let (instances, workers, operations, queues, mut inboxes_read) = try_join5(
            all_instances(store),
            store.workers(),
            store.operations(None),
            store.queues(),
            signals(inboxes.unwrap_or(&BTreeSet::new())),
        )
        .await?;
        if inboxes.is_none() {
            inboxes_read = signals(&instances.iter().map(|row| row.id).collect()).await?;
        }
        let mut state = State {
            instances,
            signals: inboxes_read.concat(),
            workers,
            operations,
            queues,
        };
        state.sort();
        Ok(state)
    }

    /// The same with the ids of the other side.
    pub(super) fn renamed(mut self, ids: &Ids) -> State {
        for row in &mut self.instances {
            ids.rename(&mut row.id);
            row.locked_by
                .iter_mut()
                .for_each(|it| ids.rename_worker(it));
            row.parent.iter_mut().for_each(|it| ids.rename(&mut it.id));
            rename_dropped(&mut row.dropped, ids);
        }
        for signal in &mut self.signals {
            ids.rename_signal(&mut signal.id);
            ids.rename(&mut signal.target);
        }
        self.workers
            .iter_mut()
            .for_each(|it| ids.rename_worker(&mut it.id));
        for operation in &mut self.operations {
            operation.instance.iter_mut().for_each(|it| ids.rename(it));
        }
        self.sort();
        self
    }

    pub(super) fn instance(&self, id: InstanceId) -> Option<&Instance> {
        let position = self.instances.binary_search_by_key(&id, |row| row.id);
        position.ok().map(|position| &self.instances[position])
    }

    /// Who has signals or tombstones.
    pub(super) fn recipients(&self) -> BTreeSet<InstanceId> {
        self.signals.iter().map(|signal| signal.target).collect()
    }

    /// Operations of one moment have no order that the contract speaks of.
    fn sort(&mut self) {
        self.instances.sort_by_key(|row| row.id);
        self.signals.sort_by_key(|signal| signal.id);
        self.operations.sort_by_key(|it| {
            (
                it.at,
                it.verb.as_str(),
                it.instance,
                it.queue.clone(),
                it.status_before,
            )
        });
    }
}

async fn all_instances(store: &dyn Database) -> Result<Vec<Instance>> {
    let mut instances = Vec::new();
    let mut before = None;
    loop {
        let request = ListRequest {
            filter: Filter::default(),
            before,
            limit: limits::PAGE_MAX,
        };
        let page = store.list(request).await?;
        instances.extend(page.instances);
        before = page.next;
        if before.is_none() {
            return Ok(instances);
        }
    }
}
