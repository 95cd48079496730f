//! The whole state of a store, read through `Inspect`.

use super::calls::{rename_dropped, rename_operations, rename_reasons, sort_operations};
use super::ids::Ids;
use crate::Database;
use futures_util::future::{try_join, try_join_all, try_join4};
use outlast_core::{
    Event, Filter, HistoryRequest, Instance, InstanceId, ListRequest, Operation, QueueSummary,
    Result, RunSummary, SentUpdate, SignalRow, View, Worker, limits,
};
use std::collections::{BTreeMap, BTreeSet};

/// All rows, in the same order on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) instances: Vec<Instance>,
    pub(super) signals: Vec<SignalRow>,
    pub(super) workers: Vec<Worker>,
    pub(super) operations: Vec<Operation>,
    pub(super) queues: Vec<QueueSummary>,
    /// The histories that were read.
    pub(super) histories: BTreeMap<InstanceId, History>,
    /// The answers about updates that were asked for, by instance and id.
    pub(super) updates: BTreeMap<(InstanceId, String), Option<SentUpdate>>,
}

/// The history of an instance, of all stored runs, and its views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    pub(super) runs: Vec<RunSummary>,
    pub(super) events: Vec<Event>,
    pub(super) views: Vec<View>,
}

impl History {
    /// Formats the history, documents included, which `Debug` hides.
    pub(super) fn lines(&self) -> Vec<String> {
        let runs = self.runs.iter().map(|run| format!("{run:?}"));
        let events = self.events.iter();
        let events = events.map(|it| format!("{it:?} {}", it.data.as_str()));
        let views = self.views.iter();
        let views = views.map(|it| format!("{it:?} {}", it.data.as_str()));
        runs.chain(events).chain(views).collect()
    }

    async fn read(store: &dyn Database, id: InstanceId) -> Result<(InstanceId, History)> {
        let runs = store.histories(id).await?;
        let mut events = Vec::new();
        for run in &runs {
            let request = HistoryRequest {
                id,
                run: run.run,
                after: 0,
                max: limits::HISTORY_PAGE_MAX,
            };
            events.extend(store.history(request).await?);
        }
        let views = store.views(id, None).await?;
        let history = History {
            runs,
            events,
            views,
        };
        Ok((id, history))
    }
}

/// The instances whose signals, histories and updates are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) inboxes: BTreeSet<InstanceId>,
    pub(super) histories: BTreeSet<InstanceId>,
    /// Of the instances whose inbox is read.
    pub(super) updates: BTreeSet<InstanceId>,
}

impl Wanted {
    pub(super) fn all(&self) -> impl Iterator<Item = &InstanceId> {
        self.inboxes.iter().chain(&self.histories)
    }
}

impl State {
    /// Reads the whole state. With `wanted`, reads signals and histories only of those instances.
    pub(super) async fn read(store: &dyn Database, wanted: Option<&Wanted>) -> Result<State> {
        let signals = |of: &BTreeSet<InstanceId>| {
            let inboxes = of.iter().map(|id| store.signals(*id, None));
            try_join_all(inboxes.collect::<Vec<_>>())
        };
        let (instances, workers, operations, queues) = try_join4(
            all_instances(store),
            store.workers(),
            store.operations(None),
            store.queues(),
        )
        .await?;
        let everybody = || instances.iter().map(|row| row.id).collect();
        let wanted = match wanted {
            Some(wanted) => wanted.clone(),
            None => Wanted {
                inboxes: everybody(),
                histories: everybody(),
                updates: everybody(),
            },
        };
        let histories = wanted.histories.iter().map(|id| History::read(store, *id));
        let (inboxes, histories) = try_join(
            signals(&wanted.inboxes),
            try_join_all(histories.collect::<Vec<_>>()),
        )
        .await?;
        let signals: Vec<SignalRow> = inboxes.into_iter().flatten().collect();
        let updates = signals.iter().filter_map(|row| {
            let is_wanted = row.wants_reply && wanted.updates.contains(&row.target);
            let id = row.dedup_key.clone().filter(|_| is_wanted)?;
            Some(async move {
                let found = store.update(row.target, &id).await?;
                Ok(((row.target, id), found))
            })
        });
        let updates = try_join_all(updates.collect::<Vec<_>>()).await?;
        let mut state = State {
            instances,
            updates: updates.into_iter().collect(),
            signals,
            workers,
            operations,
            queues,
            histories: histories.into_iter().collect(),
        };
        state.sort();
        Ok(state)
    }

    /// Returns the state with the ids of the other side.
    pub(super) fn renamed(mut self, ids: &Ids) -> State {
        for row in &mut self.instances {
            ids.rename(&mut row.id);
            row.locked_by
                .iter_mut()
                .for_each(|it| ids.rename_worker(it));
            row.parent.iter_mut().for_each(|it| ids.rename(&mut it.id));
            rename_dropped(&mut row.dropped, ids);
            rename_reasons(&mut row.last_error, &mut row.cancel, ids);
            if let Some(barrier) = &mut row.barrier {
                let first = barrier.first_failure.iter_mut();
                first.for_each(|it| ids.rename(it));
            }
        }
        for signal in &mut self.signals {
            ids.rename_signal(&mut signal.id);
            ids.rename(&mut signal.target);
        }
        self.workers
            .iter_mut()
            .for_each(|it| ids.rename_worker(&mut it.id));
        rename_operations(&mut self.operations, ids);
        let histories = std::mem::take(&mut self.histories).into_iter();
        let renamed = histories.map(|(mut id, history)| {
            ids.rename(&mut id);
            (id, history)
        });
        self.histories = renamed.collect();
        let updates = std::mem::take(&mut self.updates).into_iter();
        let renamed = updates.map(|((mut id, update), mut found)| {
            ids.rename(&mut id);
            let signals = found.iter_mut().map(|it| &mut it.signal);
            signals.for_each(|signal| ids.rename_signal(signal));
            ((id, update), found)
        });
        self.updates = renamed.collect();
        self.sort();
        self
    }

    pub(super) fn instance(&self, id: InstanceId) -> Option<&Instance> {
        let position = self.instances.binary_search_by_key(&id, |row| row.id);
        position.ok().map(|position| &self.instances[position])
    }

    /// Returns the instances with signals or tombstones.
    pub(super) fn recipients(&self) -> BTreeSet<InstanceId> {
        self.signals.iter().map(|signal| signal.target).collect()
    }

    /// Returns the instances whose history this verb may have changed.
    ///
    /// A history is written with its row and removed with it.
    pub(super) fn changed_histories<'a>(
        &'a self,
        after: &'a State,
    ) -> impl Iterator<Item = InstanceId> {
        let old = self.instances.iter();
        let old = old.filter(|row| after.instance(row.id) != Some(row));
        old.filter(|row| {
            let has_history = |row: &Instance| row.run > 1 || row.events > 0;
            has_history(row) || after.instance(row.id).is_some_and(has_history)
        })
        .map(|row| row.id)
    }

    /// Returns the instances with updates that this verb may have changed.
    pub(super) fn changed_updates<'a>(
        &'a self,
        after: &'a State,
    ) -> impl Iterator<Item = InstanceId> {
        let updates = after.updates.iter();
        let changed = updates.filter(|(key, found)| {
            let row = after.instance(key.0);
            self.instance(key.0) != row || self.updates.get(*key) != Some(found)
        });
        changed.map(|((id, _), _)| *id)
    }

    fn sort(&mut self) {
        self.instances.sort_by_key(|row| row.id);
        self.signals.sort_by_key(|signal| signal.id);
        sort_operations(&mut self.operations);
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
            values: true,
        };
        let page = store.list(request).await?;
        instances.extend(page.instances);
        before = page.next;
        if before.is_none() {
            return Ok(instances);
        }
    }
}
