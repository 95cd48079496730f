//! The questions of `Inspect`. They change nothing.

use super::{Model, Tables};
use async_trait::async_trait;
use outlast_core::{
    Child, Count, Deadline, Event, Family, Filter, HistoryRequest, Inspect, Instance, InstanceId,
    Json, ListRequest, NeedingRepair, Operation, OperationId, Page, QueueSummary, RepairScope,
    Result, RoundSummary, Rows, RunStats, RunSummary, SentUpdate, SignalId, SignalRow, Status,
    StepCountRequest, StepCounts, Timestamp, UpdateState, View, Worker, limits,
};
use std::collections::BTreeSet;

#[async_trait]
impl Inspect for Model {
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>> {
        self.alone("get", |tables, _| Ok(tables.instances.get(&id).cloned()))
    }

    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>> {
        Filter::check_holder(machine, key).map_err(|invalid| invalid.during("find"))?;
        self.alone("find", |tables, _| {
            let holder = tables.holder(machine, key);
            let found = holder.or_else(|| tables.held(machine, key).next());
            Ok(found.cloned())
        })
    }

    async fn list(&self, request: ListRequest) -> Result<Page> {
        self.alone("list", |tables, _| tables.list(&request))
    }

    async fn count(&self, filter: Filter) -> Result<Count> {
        filter.check().map_err(|invalid| invalid.during("count"))?;
        self.alone("count", |tables, _| {
            Ok(counted(
                tables.instances.values().filter(|row| fits(row, &filter)),
            ))
        })
    }

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>> {
        self.alone("signals", |tables, _| {
            let signals = tables.signals.values();
            let signals = signals.filter(|it| it.target == id && Some(it.id) > after);
            Rows::cut(signals.cloned().map(Ok), limits::PAGE_MAX, SignalRow::bytes)
        })
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>> {
        self.alone("children", |tables, _| {
            let children = tables.children_of(id, round);
            let children = children.filter(|child| Some(child.id) > after);
            Rows::cut(children.map(Ok), limits::PAGE_MAX, Child::bytes)
        })
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>> {
        self.alone("queues", |tables, now| Ok(tables.queues(now)))
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.alone("workers", |tables, _| {
            Ok(tables.workers.values().cloned().collect())
        })
    }

    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        self.alone("operations", |tables, _| {
            Ok(tables
                .operations
                .iter()
                .rev()
                .filter(|operation| instance.is_none() || operation.instance == instance)
                .take(limits::PAGE_MAX)
                .cloned()
                .collect())
        })
    }

    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        self.alone("close_actions", |tables, _| {
            let operations = tables.operations.iter();
            Ok(operations
                .filter(|it| it.cause == Some(parent) && Some(it.id) > after)
                .take(limits::PAGE_MAX)
                .cloned()
                .collect())
        })
    }

    async fn family(&self, id: InstanceId) -> Result<Option<Family>> {
        self.alone("family", |tables, _| Ok(tables.family(id)))
    }

    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>> {
        self.alone("rounds", |tables, _| Ok(tables.rounds(id)))
    }

    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        self.alone("history", |tables, _| tables.history(request))
    }

    async fn views(&self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>> {
        self.alone("views", |tables, _| Ok(tables.views_of(id, name)))
    }

    async fn update(&self, id: InstanceId, update: &str) -> Result<Option<SentUpdate>> {
        SentUpdate::check_id(update).map_err(|invalid| invalid.during("update"))?;
        self.alone("update", |tables, _| Ok(tables.update_of(id, update)))
    }

    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>> {
        self.alone("histories", |tables, _| Ok(tables.runs(id)))
    }

    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts> {
        self.alone("count_by_step", |tables, now| {
            tables.count_by_step(request, now)
        })
    }

    async fn run_stats(&self, since: Timestamp) -> Result<RunStats> {
        self.alone("run_stats", |tables, _| tables.run_stats_since(since))
    }

    /// Finds nothing: the model has no database that could be unhealthy.
    async fn needing_repair(&self, scope: RepairScope) -> Result<NeedingRepair> {
        self.alone("needing_repair", |tables, _| tables.needing_repair(&scope))
    }

    async fn doctor(&self) -> Result<Vec<outlast_core::Finding>> {
        Ok(Vec::new())
    }
}

impl Tables {
    fn update_of(&self, id: InstanceId, update: &str) -> Option<SentUpdate> {
        let instance = self.instances.get(&id)?;
        let is_wanted = |it: &&SignalRow| {
            it.target == id && it.wants_reply && it.dedup_key.as_deref() == Some(update)
        };
        let row = self.signals.values().find(is_wanted)?;
        let state = match self.replies.get(&row.id) {
            Some(answer) => answer.clone(),
            None if instance.status.is_terminal() => UpdateState::Ended,
            None => UpdateState::Pending,
        };
        Some(SentUpdate {
            signal: row.id,
            name: row.name.clone(),
            state,
        })
    }

    fn list(&self, request: &ListRequest) -> Result<Page> {
        request.check().map_err(|invalid| invalid.during("list"))?;
        let rows = self.instances.values().rev();
        let mut below = rows.filter(|row| request.before.is_none_or(|before| row.id < before));
        let read: Vec<&Instance> = below.by_ref().take(limits::SCAN_MAX).collect();
        let read_to = read.last().filter(|_| below.next().is_some());
        let read_to = read_to.map(|row| row.id);
        let fitting = read.into_iter().filter(|row| fits(row, &request.filter));
        let listed = fitting.map(|row| Ok(listed(row.clone(), request.values)));
        let bytes = |it: &Instance| if request.values { it.bytes() } else { 0 };
        let page = Rows::cut(listed, request.limit, bytes)?;
        let next = match page.more {
            true => page.rows.last().map(|row| row.id),
            false => read_to,
        };
        Ok(Page {
            instances: page.rows,
            next,
        })
    }

    fn queues(&self, now: Timestamp) -> Vec<QueueSummary> {
        let working = |row: &&Instance| {
            let is_held = row.held == Some(true);
            matches!(row.status, Status::Runnable | Status::Executing) && !is_held
        };
        let names: BTreeSet<&str> = self
            .instances
            .values()
            .filter(working)
            .map(|row| row.queue.as_str())
            .chain(self.paused.iter().map(String::as_str))
            .collect();
        names
            .into_iter()
            .map(|name| self.queue(name, now))
            .collect()
    }

    fn queue(&self, name: &str, now: Timestamp) -> QueueSummary {
        let rows_in = |status| {
            self.instances
                .values()
                .filter(move |row| row.queue == name && row.status == status)
                .filter(|row| row.held != Some(true))
        };
        let eligible = || rows_in(Status::Runnable).filter(|row| row.eligible_at <= now);
        QueueSummary {
            name: name.to_owned(),
            paused: self.paused.contains(name),
            eligible: counted(eligible()),
            delayed: counted(rows_in(Status::Runnable).filter(|row| row.eligible_at > now)),
            executing: counted(rows_in(Status::Executing)),
            oldest_eligible_at: eligible().map(|row| row.eligible_at).min(),
        }
    }
}

/// Returns an instance as a page shows it.
fn listed(row: Instance, values: bool) -> Instance {
    match values {
        true => row,
        false => Instance {
            state: Json::null(),
            result: None,
            dropped: Vec::new(),
            ..row
        },
    }
}

fn counted<'a>(rows: impl Iterator<Item = &'a Instance>) -> Count {
    let count = rows.count() as u64;
    if count > limits::COUNT_MAX {
        Count::AtLeast(limits::COUNT_MAX)
    } else {
        Count::Exactly(count)
    }
}

fn fits(row: &Instance, filter: &Filter) -> bool {
    fn is<T: PartialEq>(wanted: &Option<T>, given: &T) -> bool {
        wanted.as_ref().is_none_or(|wanted| wanted == given)
    }
    let is_waiting = matches!(row.status, Status::AwaitingSignal | Status::Sleeping);
    is(&filter.machine, &row.machine)
        && is(&filter.version, &row.version)
        && is(&filter.step, &row.step)
        && (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
        && is(&filter.queue, &row.queue)
        && (filter.correlation_key.is_none() || filter.correlation_key == row.correlation_key)
        && (filter.partition_key.is_none() || filter.partition_key == row.partition_key)
        && (filter.parent.is_none() || filter.parent == row.parent.map(|parent| parent.id))
        && filter
            .inserted_from
            .is_none_or(|from| row.inserted_at >= from)
        && filter
            .inserted_until
            .is_none_or(|until| row.inserted_at < until)
        && filter
            .ended_from
            .is_none_or(|from| row.finished_at.is_some_and(|at| at >= from))
        && filter
            .ended_until
            .is_none_or(|until| row.finished_at.is_some_and(|at| at < until))
        && filter.error.as_ref().is_none_or(|part| {
            let error = row.last_error.as_ref();
            error.is_some_and(|error| error.contains(part.as_str()))
        })
        && filter.attempts_from.is_none_or(|from| row.attempt >= from)
        && match filter.deadline {
            None => true,
            Some(Deadline::None) => is_waiting && row.await_deadline.is_none(),
            Some(Deadline::Before(moment)) => {
                is_waiting && row.await_deadline.is_some_and(|at| at < moment)
            }
        }
}
