//! The operators' verbs on instances and queues.

use super::Tables;
use super::effects::ended_badly;
use super::tables::make_runnable;
use outlast_core::{
    DeleteAnswer, InstanceId, Note, Operation, OperationId, Parent, Result, Retried, RetryAnswer,
    Status, Timestamp, Verb, limits,
};

impl Tables {
    pub(super) fn retry(
        &mut self,
        ids: &[InstanceId],
        note: &Note,
        now: Timestamp,
    ) -> Result<Retried> {
        check_request("retry", ids, note)?;
        let mut retried = Retried::default();
        let mut answers = in_order_of_ids(ids, |id| {
            let Some(row) = self.instances.get_mut(&id) else {
                return RetryAnswer::NotFound;
            };
            let before = row.status;
            if !matches!(before, Status::Failed | Status::Cancelled) {
                return RetryAnswer::NotEndedBadly(before);
            }
            row.revision = row.revision.next();
            row.attempt = 0;
            row.crashes = 0;
            row.finished_at = None;
            row.result = None;
            row.cancel = None;
            make_runnable(row, now, &mut retried.woken);
            self.restart_timeouts(id, now);
            self.end_updates(id);
            self.count_again(id, now);
            self.record(Verb::Retry, id, before, note, None, now);
            RetryAnswer::Retried
        });
        retried.answers.append(&mut answers);
        Ok(retried)
    }

    /// Counts a retried child as pending again for a machine that still waits for its round (I6).
    ///
    /// A workflow is not counted: the failure has woken it, or it did not wait for this child.
    fn count_again(&mut self, child: InstanceId, now: Timestamp) {
        let Some(parent) = self.instances.get(&child).and_then(|row| row.parent) else {
            return;
        };
        let earliest = self.first_to_fail(parent);
        let waits = |status, round| status == Status::AwaitingChildren && round == parent.round;
        if let Some(row) = self.instances.get_mut(&parent.id)
            && waits(row.status, row.round)
            && row.joining.is_none()
            && let Some(barrier) = row.barrier.as_mut()
        {
            row.children_pending += 1;
            row.updated_at = now;
            barrier.failed -= 1;
            if barrier.first_failure == Some(child) {
                barrier.first_failure = earliest;
            }
        }
    }

    /// Returns the first child of a round that failed or was cancelled, and was not retried since.
    fn first_to_fail(&self, round: Parent) -> Option<InstanceId> {
        let rows = self.instances.values();
        let bad = rows.filter(|row| row.parent == Some(round) && ended_badly(row));
        bad.min_by_key(|row| (row.finished_at, row.id))
            .map(|row| row.id)
    }

    pub(super) fn delete(
        &mut self,
        ids: &[InstanceId],
        note: &Note,
        now: Timestamp,
    ) -> Result<Vec<DeleteAnswer>> {
        check_request("delete", ids, note)?;
        Ok(in_order_of_ids(ids, |id| {
            let Some(row) = self.instances.get(&id) else {
                return DeleteAnswer::NotFound;
            };
            let before = row.status;
            if !before.is_terminal() {
                return DeleteAnswer::NotEnded(before);
            }
            if let Some(parent) = self.living_parent(row) {
                return DeleteAnswer::ParentLives(parent);
            }
            if self.is_cascading(id) {
                return DeleteAnswer::Cascading;
            }
            self.remove(id);
            self.record(Verb::Delete, id, before, note, None, now);
            DeleteAnswer::Deleted
        }))
    }

    pub(super) fn pause(&mut self, queue: &str, note: &Note, now: Timestamp) -> Result<bool> {
        check_queue("pause", queue, note)?;
        let changed = self.paused.insert(queue.to_owned());
        if changed {
            self.record_queue(Verb::Pause, queue, note, now);
        }
        Ok(changed)
    }

    pub(super) fn resume(&mut self, queue: &str, note: &Note, now: Timestamp) -> Result<bool> {
        check_queue("resume", queue, note)?;
        let changed = self.paused.remove(queue);
        if changed {
            self.record_queue(Verb::Resume, queue, note, now);
        }
        Ok(changed)
    }

    pub(super) fn record(
        &mut self,
        verb: Verb,
        id: InstanceId,
        before: Status,
        note: &Note,
        cause: Option<InstanceId>,
        at: Timestamp,
    ) {
        let record = Operation {
            instance: Some(id),
            cause,
            status_before: Some(before),
            ..self.operation(verb, note, at)
        };
        self.operations.push(record);
    }

    fn record_queue(&mut self, verb: Verb, queue: &str, note: &Note, at: Timestamp) {
        let record = Operation {
            queue: Some(queue.to_owned()),
            ..self.operation(verb, note, at)
        };
        self.operations.push(record);
    }

    /// Makes an operation without a target.
    fn operation(&mut self, verb: Verb, note: &Note, at: Timestamp) -> Operation {
        Operation {
            id: OperationId(self.next_id()),
            verb,
            instance: None,
            queue: None,
            by: note.by.clone(),
            reason: note.clean_reason(),
            cause: None,
            status_before: None,
            at,
        }
    }
}

/// Acts on each id, lowest first, and returns the answers in the caller's order.
pub(super) fn in_order_of_ids<A>(
    ids: &[InstanceId],
    mut act: impl FnMut(InstanceId) -> A,
) -> Vec<A> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|position| (ids[*position], *position));
    let mut answers: Vec<(usize, A)> = order
        .into_iter()
        .map(|position| (position, act(ids[position])))
        .collect();
    answers.sort_by_key(|(position, _)| *position);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

pub(super) fn check_request(
    operation: &'static str,
    ids: &[InstanceId],
    note: &Note,
) -> Result<()> {
    limits::check_batch(operation, ids.len(), limits::BATCH_MAX)
        .and_then(|()| note.check())
        .map_err(|invalid| invalid.during(operation))
}

fn check_queue(operation: &'static str, queue: &str, note: &Note) -> Result<()> {
    limits::check_name("queue", queue)
        .and_then(|()| note.check())
        .map_err(|invalid| invalid.during(operation))
}
