//! The insert verb, and the insertion of children by fan-outs.

use super::Tables;
use super::tables::{Timeouts, change_status};
use outlast_core::{
    ClosePolicy, Inserted, Inserts, Instance, InstanceId, NewInstance, Parent, QueueNames, Result,
    Revision, Scope, Start, Status, Timestamp, WorkerId,
};

impl Tables {
    pub(super) fn insert(
        &mut self,
        rows: Vec<NewInstance>,
        claim_for: Option<WorkerId>,
        now: Timestamp,
    ) -> Result<Inserts> {
        NewInstance::check_all(&rows).map_err(|invalid| invalid.during("insert"))?;
        let mut answer = Inserts::default();
        if rows.is_empty() {
            return Ok(answer);
        }
        if let Some(worker) = claim_for {
            self.check_lease("insert", worker, now)?;
        }
        for row in rows {
            let inserted = match self.add(row, None, now) {
                Ok(id) => {
                    let claimed = claim_for.and_then(|worker| self.hand_over(id, worker, now));
                    self.hint(id, now, &mut answer.woken);
                    Inserted::New { id, claimed }
                }
                Err(holder) => Inserted::Duplicate {
                    holder: Some(holder),
                },
            };
            answer.rows.push(inserted);
        }
        Ok(answer)
    }

    /// Inserts one instance. Returns the holder when its key is occupied.
    pub(super) fn add(
        &mut self,
        new: NewInstance,
        parent: Option<Parent>,
        now: Timestamp,
    ) -> Result<InstanceId, InstanceId> {
        let key = new.correlation.as_ref().map(|it| it.key.as_str());
        if let Some(holder) = key.and_then(|key| self.holder(&new.machine, key)) {
            return Err(holder.id);
        }
        let id = InstanceId(self.next_id());
        let timeouts = Timeouts {
            whole: new.timeout,
            run: new.run_timeout,
        };
        if timeouts.whole.is_some() || timeouts.run.is_some() {
            self.timeouts.insert(id, timeouts);
        }
        self.instances.insert(id, new_row(id, new, parent, now));
        Ok(id)
    }

    /// Claims a row that was just inserted, if it can be claimed at once.
    fn hand_over(&mut self, id: InstanceId, worker: WorkerId, now: Timestamp) -> Option<Revision> {
        let row = self.instances.get_mut(&id)?;
        let keeps_key = |scope: Scope| scope.contains(Status::Executing);
        let possible = row.eligible_at <= now
            && row.partition_key.is_none()
            && row.correlation_scope.is_none_or(keeps_key)
            && !self.paused.contains(&row.queue);
        if !possible {
            return None;
        }
        change_status(row, Status::Executing);
        row.revision = row.revision.next();
        row.locked_by = Some(worker);
        Some(row.revision)
    }

    /// Adds the queue of `id` to the hints if the row can be claimed now.
    pub(super) fn hint(&self, id: InstanceId, now: Timestamp, woken: &mut QueueNames) {
        if let Some(row) = self.instances.get(&id)
            && row.status == Status::Runnable
            && row.held != Some(true)
            && row.eligible_at <= now
        {
            woken.insert(row.queue.clone());
        }
    }
}

fn new_row(id: InstanceId, new: NewInstance, parent: Option<Parent>, now: Timestamp) -> Instance {
    let (key, scope) = new.correlation.map(|it| (it.key, it.scope)).unzip();
    let eligible_at = match new.start {
        Start::Now => now,
        Start::After(delay) => now + delay,
        Start::At(at) => at,
    };
    // A start in the past does not shorten a timeout.
    let starts_at = eligible_at.max(now);
    Instance {
        id,
        machine: new.machine,
        version: new.version,
        step: new.step,
        state: new.state,
        status: Status::Runnable,
        revision: Revision(0),
        entered: Revision(0),
        trace: new.trace,
        result: None,
        last_error: None,
        queue: new.queue,
        priority: new.priority,
        eligible_at,
        attempt: 0,
        crashes: 0,
        partition_key: new.partition_key,
        locked_by: None,
        awaits: None,
        await_deadline: None,
        needs_all: false,
        on_parent_close: parent.map_or(ClosePolicy::Abandon, |_| new.on_parent_close),
        parent,
        position: None,
        held: None,
        cancel: None,
        round: 0,
        run: 1,
        events: 0,
        joining: None,
        children_pending: 0,
        barrier: None,
        dropped: Vec::new(),
        holds_key: key.is_some(),
        correlation_key: key,
        correlation_scope: scope,
        timeout_at: new.timeout.map(|timeout| starts_at + timeout),
        run_timeout_at: new.run_timeout.map(|timeout| starts_at + timeout),
        inserted_at: now,
        updated_at: now,
        finished_at: None,
    }
}
