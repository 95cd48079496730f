//! What people do to instances and queues.

use super::Tables;
use super::tables::make_runnable;
use outlast_core::{
    CancelAnswer, Cancelled, DeleteAnswer, InstanceId, Note, Operation, Result, Retried,
    RetryAnswer, Status, Timestamp, Verb, limits,
};

impl Tables {
    pub(super) fn cancel(
        &mut self,
        ids: &[InstanceId],
        note: &Note,
        now: Timestamp,
    ) -> Result<Cancelled> {
        check_request("cancel", ids, note)?;
        let mut cancelled = Cancelled::default();
        let mut answers = in_order_of_ids(ids, |id| {
            let Some(row) = self.instances.get_mut(&id) else {
                return CancelAnswer::NotFound;
            };
            let before = row.status;
            if before.is_terminal() {
                return CancelAnswer::AlreadyEnded(before);
            }
            row.revision = row.revision.next();
            row.crashes = 0;
            row.last_error = Some(note.cancellation());
            self.end(id, Status::Cancelled, now, &mut cancelled.woken);
            self.record(Verb::Cancel, id, before, note, now);
            CancelAnswer::Cancelled(before)
        });
        cancelled.answers.append(&mut answers);
        Ok(cancelled)
    }

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
            make_runnable(row, now, &mut retried.woken);
            self.count_again(id, now);
            self.record(Verb::Retry, id, before, note, now);
            RetryAnswer::Retried
        });
        retried.answers.append(&mut answers);
        Ok(retried)
    }

    /// A parent that still waits for this round waits for the retried child too (I6).
    fn count_again(&mut self, child: InstanceId, now: Timestamp) {
        let Some(parent) = self.instances.get(&child).and_then(|row| row.parent) else {
            return;
        };
        let waits = |status, round| status == Status::AwaitingChildren && round == parent.round;
        if let Some(row) = self.instances.get_mut(&parent.id)
            && waits(row.status, row.round)
        {
            row.children_pending += 1;
            row.updated_at = now;
        }
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
            self.remove(id);
            self.record(Verb::Delete, id, before, note, now);
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

    fn record(&mut self, verb: Verb, id: InstanceId, before: Status, note: &Note, at: Timestamp) {
        self.operations.push(Operation {
            verb,
            instance: Some(id),
            queue: None,
            by: note.by.clone(),
            reason: note.clean_reason(),
            status_before: Some(before),
            at,
        });
    }

    fn record_queue(&mut self, verb: Verb, queue: &str, note: &Note, at: Timestamp) {
        self.operations.push(Operation {
            verb,
            instance: None,
            queue: Some(queue.to_owned()),
            by: note.by.clone(),
            reason: note.clean_reason(),
            status_before: None,
            at,
        });
    }
}

/// Acts on each id, lowest first, and answers in the caller's order.
fn in_order_of_ids<A>(ids: &[InstanceId], mut act: impl FnMut(InstanceId) -> A) -> Vec<A> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|position| (ids[*position], *position));
    let mut answers: Vec<(usize, A)> = order
        .into_iter()
        .map(|position| (position, act(ids[position])))
        .collect();
    answers.sort_by_key(|(position, _)| *position);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn check_request(operation: &'static str, ids: &[InstanceId], note: &Note) -> Result<()> {
    limits::check_batch(operation, ids.len(), limits::BATCH_MAX)
        .and_then(|()| note.check())
        .map_err(|invalid| invalid.during(operation))
}

fn check_queue(operation: &'static str, queue: &str, note: &Note) -> Result<()> {
    limits::check_name("queue", queue)
        .and_then(|()| note.check())
        .map_err(|invalid| invalid.during(operation))
}
