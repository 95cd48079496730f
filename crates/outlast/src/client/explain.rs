//! Explains why an instance is where it is, in one sentence.

use super::Admin;
use super::sentence::{Ahead, InstanceFacts, sentence};
use crate::workflow::{BLOCKED, Waits};
use outlast_core::{
    Filter, Instance, InstanceId, ListRequest, Liveness, RepairNeed, RepairScope, Result, Status,
    Timestamp,
};

/// How many instances of a partition key are read to find the first. A longer line is only
/// described as long.
const LINE_MAX: usize = 100;
/// How many pages are read for them: a page reads a bounded part of the table.
const LINE_PAGES_MAX: usize = 5;

/// Why an instance is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The sentence of [`Admin::explain`], for people.
    pub sentence: String,
    /// What it does or waits for, and whether it needs a repair.
    pub liveness: Liveness,
}

impl Admin<'_> {
    /// Explains what the instance waits for and until when, in one sentence.
    ///
    /// The subject is the instance: `waits for signal payment_confirmed until 15:04:05 UTC (in 12
    /// min)`, `is due in queue mail, which is paused`, `done 3 min ago`.
    ///
    /// The sentence is for people, and its words may change. It queries only what the status makes
    /// relevant, and at most a few bounded pages.
    pub async fn explain(self, instance: &Instance) -> Result<String> {
        let is_parked = instance.status.is_parked();
        let error = instance.last_error.as_deref().unwrap_or_default();
        let is_blocked = instance.status == Status::Runnable && error.starts_with(BLOCKED);
        let waits = match instance.is_workflow() && (is_parked || is_blocked) {
            true => Some(self.waits(instance).await?),
            false => None,
        };
        Ok(self.explain_with(instance, waits).await?.sentence)
    }

    /// Like [`explain`](Admin::explain), with waits that the caller has read. Also returns the
    /// liveness of the instance.
    ///
    /// [`waits`](Admin::waits) reads the waits of a workflow.
    pub async fn explain_with(
        self,
        instance: &Instance,
        waits: Option<Waits>,
    ) -> Result<Explanation> {
        let need = self.repair_need(instance).await?;
        let around = match need {
            // It waits for nothing that would come, so what it waits for explains nothing.
            Some(_) => InstanceFacts::at(self.client.store.now().await?),
            None => self.around(instance).await?,
        };
        let facts = InstanceFacts {
            waits,
            need,
            ..around
        };
        Ok(Explanation {
            sentence: sentence(instance, &facts),
            liveness: instance.liveness(need),
        })
    }

    /// Returns what is wrong with an instance that nothing would ever wake; `None` when something
    /// will wake it, or when it is not waiting.
    ///
    /// Reads only instances that are parked or runnable: at most the inbox and the children that
    /// the instance waits for.
    pub async fn repair_need(self, instance: &Instance) -> Result<Option<RepairNeed>> {
        if !instance.status.is_parked() && instance.status != Status::Runnable {
            return Ok(None);
        }
        let scope = RepairScope::Ids(vec![instance.id]);
        let needing = self.client.store.needing_repair(scope).await?;
        Ok(needing.found.first().map(|(_, need)| *need))
    }

    /// Returns what the instance does or waits for, in one word, and whether it needs a repair.
    pub async fn liveness(self, instance: &Instance) -> Result<Liveness> {
        Ok(instance.liveness(self.repair_need(instance).await?))
    }

    async fn around(self, instance: &Instance) -> Result<InstanceFacts> {
        let now = self.client.store.now().await?;
        Ok(match instance.status {
            Status::Runnable if instance.held == Some(true) => InstanceFacts {
                window: self.window_of(instance).await?,
                ..InstanceFacts::at(now)
            },
            Status::Runnable if instance.eligible_at <= now => self.due(instance, now).await?,
            Status::Runnable | Status::Executing => InstanceFacts {
                workers: self.client.store.workers().await?,
                ..InstanceFacts::at(now)
            },
            Status::AwaitingChildren => {
                let rounds = self.client.store.rounds(instance.id).await?;
                InstanceFacts {
                    round: rounds.into_iter().find(|it| it.round == instance.round),
                    ..InstanceFacts::at(now)
                }
            }
            Status::AwaitingSignal
            | Status::Sleeping
            | Status::Done
            | Status::Failed
            | Status::Cancelled => InstanceFacts::at(now),
        })
    }

    /// Returns the window of its parent's fan-out, while the parent is still in that round.
    async fn window_of(self, instance: &Instance) -> Result<Option<u32>> {
        let Some(parent) = instance.parent else {
            return Ok(None);
        };
        let stored = self.client.store.get(parent.id).await?;
        let barrier = stored.filter(|it| it.round == parent.round);
        Ok(barrier
            .and_then(|it| it.barrier)
            .and_then(|barrier| barrier.window))
    }

    /// Reads what may keep a due instance from being claimed.
    async fn due(self, instance: &Instance, now: Timestamp) -> Result<InstanceFacts> {
        let queues = self.client.store.queues().await?;
        let queue = queues.into_iter().find(|it| it.name == instance.queue);
        let is_paused = queue.as_ref().is_some_and(|queue| queue.paused);
        // A paused queue is reason enough, so the rest is not read.
        let (workers, ahead) = match is_paused {
            true => (Vec::new(), None),
            false => (
                self.client.store.workers().await?,
                self.in_front_of(instance).await?,
            ),
        };
        Ok(InstanceFacts {
            queue,
            workers,
            ahead,
            ..InstanceFacts::at(now)
        })
    }

    /// Finds the instance that goes before it under its partition key, if any.
    async fn in_front_of(self, instance: &Instance) -> Result<Option<Ahead>> {
        let Some(key) = &instance.partition_key else {
            return Ok(None);
        };
        let (executing, _) = self.line(key, Status::Executing, 1).await?;
        if let Some(ahead) = executing.first() {
            return Ok(Some(Ahead::Runs(ahead.id)));
        }
        let (line, is_whole) = self.line(key, Status::Runnable, LINE_MAX).await?;
        if !is_whole {
            return Ok(Some(Ahead::Line));
        }
        let turn = |it: &Instance| (it.priority, it.eligible_at, it.id);
        let first = line.iter().min_by_key(|it| turn(it));
        Ok(first
            .filter(|first| turn(first) < turn(instance))
            .map(|first| Ahead::IsFirst(first.id)))
    }

    /// Reads the instances of a partition key in one status, and whether these are all.
    async fn line(self, key: &str, status: Status, limit: usize) -> Result<(Vec<Instance>, bool)> {
        let (mut line, mut before): (Vec<Instance>, Option<InstanceId>) = (Vec::new(), None);
        for _ in 0..LINE_PAGES_MAX {
            let filter = Filter {
                partition_key: Some(key.to_owned()),
                statuses: vec![status],
                ..Filter::default()
            };
            let request = ListRequest {
                filter,
                before,
                limit: limit - line.len(),
                values: false,
            };
            let page = self.client.store.list(request).await?;
            line.extend(page.instances);
            before = page.next;
            if before.is_none() || line.len() >= limit {
                break;
            }
        }
        Ok((line, before.is_none()))
    }
}
