//! The claim verb.

use super::Tables;
use super::tables::change_status;
use outlast_core::{
    Child, Claim, ClaimRef, ClaimRequest, Claimed, Instance, InstanceId, Result, Signal, SignalRow,
    Status, Timestamp, WorkerId,
};
use std::collections::BTreeSet;
use std::time::Duration;

impl Tables {
    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Result<Claimed> {
        request.check().map_err(|invalid| invalid.during("claim"))?;
        self.check_lease("claim", request.worker, now)?;
        if self.paused.contains(&request.queue) {
            return Ok(Claimed {
                paused: true,
                ..Claimed::default()
            });
        }
        let picked = self.pick(request, now);
        let more = request.max > 0 && picked.len() == request.max;
        for &id in &picked {
            self.take(id, request.worker, now);
        }
        Ok(Claimed {
            claims: picked
                .into_iter()
                .filter_map(|id| self.claim_on(id, now))
                .collect(),
            next_due_in: if more {
                None
            } else {
                self.next_due_in(&request.queue, now)
            },
            more,
            paused: false,
        })
    }

    /// Returns the most urgent rows that this claim may take.
    ///
    /// At most one row of each partition key, and none of a busy key (I8).
    fn pick(&self, request: &ClaimRequest, now: Timestamp) -> Vec<InstanceId> {
        let mut candidates: Vec<&Instance> = self
            .runnable_in(&request.queue)
            .filter(|row| row.eligible_at <= now)
            .filter(|row| {
                let registered = |it: &outlast_core::MachineVersion| {
                    it.machine == row.machine && it.version == row.version
                };
                request.machines.iter().any(registered)
            })
            .collect();
        candidates.sort_by_key(|row| urgency(row));

        let mut busy = self.busy_keys();
        let mut picked = Vec::new();
        for row in candidates {
            if picked.len() == request.max {
                break;
            }
            match &row.partition_key {
                Some(key) if !busy.insert(key.as_str()) => {}
                Some(_) | None => picked.push(row.id),
            }
        }
        picked
    }

    fn busy_keys(&self) -> BTreeSet<&str> {
        self.instances
            .values()
            .filter(|row| row.status == Status::Executing)
            .filter_map(|row| row.partition_key.as_deref())
            .collect()
    }

    /// Returns the runnable rows of a queue.
    ///
    /// A row that waits for a place in a window is not in its queue yet.
    fn runnable_in<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a Instance> {
        let rows = self.instances.values().filter(|row| is_in_line(row));
        rows.filter(move |row| row.queue == queue)
    }

    pub(super) fn take(&mut self, id: InstanceId, worker: WorkerId, now: Timestamp) {
        if let Some(row) = self.instances.get_mut(&id) {
            change_status(row, Status::Executing);
            row.revision = row.revision.next();
            row.locked_by = Some(worker);
            row.updated_at = now;
            self.latest_signals.remove(&id);
        }
    }

    /// Returns the inbox of a claim that is still held.
    pub(super) fn inbox_of(&self, claim: ClaimRef) -> Option<Vec<Signal>> {
        let row = self.instances.get(&claim.id)?;
        let is_held = row.status == Status::Executing && row.revision == claim.revision;
        is_held.then(|| self.inbox(claim.id).filter_map(presented).collect())
    }

    /// Returns the claim with the data that its step may read.
    ///
    /// The caller takes all rows first: the verb may also have claimed a child of a retried
    /// parent.
    pub(super) fn claim_on(&self, id: InstanceId, now: Timestamp) -> Option<Claim> {
        let row = self.instances.get(&id)?;
        Some(Claim {
            id,
            revision: row.revision,
            machine: row.machine.clone(),
            version: row.version,
            step: row.step.clone(),
            state: row.state.clone(),
            queue: row.queue.clone(),
            priority: row.priority,
            entered: row.entered,
            trace: row.trace.clone(),
            attempt: row.attempt,
            crashes: row.crashes,
            partition_key: row.partition_key.clone(),
            correlation_key: row.correlation_key.clone(),
            parent: row.parent,
            position: row.position,
            round: row.round,
            run: row.run,
            events: row.events,
            awaits: row.awaits.clone().unwrap_or_default(),
            inbox: self.inbox(id).filter_map(presented).collect(),
            // A workflow loads the children that it waits for itself.
            children: if row.round > 0 && row.joining.is_none() {
                self.children_of(id, Some(row.round)).collect()
            } else {
                Vec::new()
            },
            dropped: row.dropped.clone(),
            joined: row.barrier.and_then(|it| it.joined),
            first_failure: row.barrier.and_then(|it| it.first_failure),
            cancel: row.cancel.clone(),
            windowed: row.held.is_some(),
            waited: now.since(row.eligible_at),
            claimed_at: Some(now),
        })
    }

    /// Returns the children of `id`, of one round or of all, by id.
    pub(super) fn children_of(
        &self,
        id: InstanceId,
        round: Option<i32>,
    ) -> impl Iterator<Item = Child> {
        self.instances.values().filter_map(move |row| {
            let parent = row.parent.filter(|parent| parent.id == id)?;
            if round.is_some_and(|round| round != parent.round) {
                return None;
            }
            Some(Child {
                id: row.id,
                round: parent.round,
                position: row.position.unwrap_or_default(),
                on_parent_close: row.on_parent_close,
                held: row.held == Some(true),
                machine: row.machine.clone(),
                version: row.version,
                run: row.run,
                status: row.status,
                state: row.state.clone(),
                result: row.result.clone(),
                last_error: row.last_error.clone(),
                finished_at: row.finished_at,
            })
        })
    }

    /// Returns when the next row becomes eligible that is not held behind its partition key.
    fn next_due_in(&self, queue: &str, now: Timestamp) -> Option<Duration> {
        let due = self
            .runnable_in(queue)
            .filter(|row| row.eligible_at > now && !self.is_behind_its_key(row))
            .map(|row| row.eligible_at)
            .min()?;
        Some(due.since(now))
    }

    /// Whether another row of its partition key executes or comes first.
    pub(super) fn is_behind_its_key(&self, row: &Instance) -> bool {
        let Some(key) = &row.partition_key else {
            return false;
        };
        self.instances.values().any(|other| {
            other.partition_key.as_ref() == Some(key)
                && (other.status == Status::Executing
                    || is_in_line(other) && urgency(other) < urgency(row))
        })
    }
}

fn is_in_line(row: &Instance) -> bool {
    row.status == Status::Runnable && row.held != Some(true)
}

fn urgency(row: &Instance) -> (i16, Timestamp, InstanceId) {
    (row.priority, row.eligible_at, row.id)
}

fn presented(row: &SignalRow) -> Option<Signal> {
    Some(Signal {
        id: row.id,
        name: row.name.clone(),
        payload: row.payload.clone()?,
        dedup_key: row.dedup_key.clone(),
        wants_reply: row.wants_reply,
        inserted_at: row.inserted_at,
    })
}
