//! The tables of the model, and the changes that several verbs share.

use super::cascade::Cascade;
use super::effects::Effects;
use outlast_core::{
    Error, Event, Instance, InstanceId, NewReply, Operation, QueueNames, Reply, Result, RunStats,
    Scope, SignalId, SignalRow, Status, Timestamp, UpdateState, View, Worker, WorkerId, limits,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// All rows of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) instances: BTreeMap<InstanceId, Instance>,
    pub(crate) signals: BTreeMap<SignalId, SignalRow>,
    /// The answers to updates. An update without one has no entry.
    pub(crate) replies: BTreeMap<SignalId, UpdateState>,
    /// Events by run, then in order.
    pub(crate) histories: BTreeMap<InstanceId, Vec<Event>>,
    /// Views by name.
    pub(crate) views: BTreeMap<InstanceId, BTreeMap<String, View>>,
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
    /// The latest signal to each instance since its claim, or of a parked one the last signal that
    /// its step received. An instance without any has no entry.
    pub(crate) latest_signals: BTreeMap<InstanceId, SignalId>,
    /// The crashes in a row that count towards the bound. An instance without any has no entry.
    pub(crate) crashes_counted: BTreeMap<InstanceId, i32>,
    /// The timeouts of the instances that have one.
    pub(crate) timeouts: BTreeMap<InstanceId, Timeouts>,
    pub(crate) paused: BTreeSet<String>,
    /// In the order in which they were recorded.
    pub(crate) operations: Vec<Operation>,
    /// Cascades left to run, in the order to run them.
    pub(crate) cascades: BTreeMap<i64, Cascade>,
    /// Each key occurs once, in order.
    pub(crate) stats: RunStats,
    /// One counter for rows of all kinds: an id used for the wrong kind of row is never valid.
    last_id: i64,
}

/// How long an instance and each run of it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) whole: Option<Duration>,
    pub(crate) run: Option<Duration>,
}

impl Tables {
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the instance of `machine` that holds `key`.
    pub(super) fn holder(&self, machine: &str, key: &str) -> Option<&Instance> {
        self.instances.values().find(|row| {
            row.holds_key && row.machine == machine && row.correlation_key.as_deref() == Some(key)
        })
    }

    /// Returns the latest instances that hold or held a key, newest first.
    pub(super) fn held(&self, machine: &str, key: &str) -> impl Iterator<Item = &Instance> {
        let rows = self.instances.values().rev();
        rows.filter(move |row| {
            row.machine == machine && row.correlation_key.as_deref() == Some(key)
        })
        .take(limits::HOLDERS_MAX)
    }

    /// Returns the unconsumed signals of `id`, oldest first.
    pub(super) fn inbox(&self, id: InstanceId) -> impl Iterator<Item = &SignalRow> {
        self.signals
            .values()
            .filter(move |signal| signal.target == id && signal.consumed_at.is_none())
    }

    /// Consumes signals of `id`.
    ///
    /// A signal with a dedup key stays as a tombstone, so that it is not accepted again
    /// (docs/protocol.md, defect 9).
    pub(super) fn consume(&mut self, id: InstanceId, signals: &[SignalId], now: Timestamp) {
        for signal in signals {
            let Some(row) = self.signals.get_mut(signal) else {
                continue;
            };
            if row.target != id || row.consumed_at.is_some() {
                continue;
            }
            if row.dedup_key.is_some() {
                row.payload = None;
                row.consumed_at = Some(now);
            } else {
                self.signals.remove(signal);
            }
        }
    }

    /// Answers updates of `id`, which consumes them. The first answer stands.
    pub(crate) fn reply(&mut self, id: InstanceId, replies: Vec<NewReply>, now: Timestamp) {
        for NewReply { signal, kind, data } in replies {
            let is_update = |row: &SignalRow| row.target == id && row.wants_reply;
            if self.signals.get(&signal).is_some_and(is_update) {
                let reply = Reply {
                    kind,
                    data,
                    at: now,
                };
                let replied = UpdateState::Replied(reply);
                self.replies.entry(signal).or_insert(replied);
                self.consume(id, &[signal], now);
            }
        }
    }

    /// Ends the unanswered updates of `id`, which becomes live again.
    pub(super) fn end_updates(&mut self, id: InstanceId) {
        let updates = self.signals.values();
        for update in updates.filter(|it| it.target == id && it.wants_reply) {
            self.replies.entry(update.id).or_insert(UpdateState::Ended);
        }
    }

    /// Finishes `id`: no claim, no wait, no inbox.
    ///
    /// [`settle`](Tables::settle) applies the effects on other rows.
    pub(super) fn end(
        &mut self,
        id: InstanceId,
        status: Status,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        let inbox: Vec<SignalId> = self.inbox(id).map(|signal| signal.id).collect();
        self.consume(id, &inbox, now);
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        change_status(row, status);
        row.locked_by = None;
        row.awaits = None;
        row.await_deadline = None;
        row.finished_at = Some(now);
        row.updated_at = now;
        effects.ended.push((id, row.held == Some(false)));
        row.held = row.held.map(|_| false);
    }

    /// Returns the parent of `row` if it is stored and has not finished.
    pub(super) fn living_parent(&self, row: &Instance) -> Option<InstanceId> {
        let parent = self.instances.get(&row.parent?.id)?;
        (!parent.status.is_terminal()).then_some(parent.id)
    }

    /// Fails unless the worker's lease is valid. Only then may it receive claims.
    pub(super) fn check_lease(
        &self,
        operation: &'static str,
        worker: WorkerId,
        now: Timestamp,
    ) -> Result<()> {
        match self.workers.get(&worker) {
            Some(row) if row.lease_expires_at > now => Ok(()),
            Some(_) | None => Err(Error::LeaseExpired { operation, worker }),
        }
    }
}

/// Puts `row` into its queue, eligible now.
pub(super) fn make_runnable(row: &mut Instance, now: Timestamp, woken: &mut QueueNames) {
    change_status(row, Status::Runnable);
    row.eligible_at = now;
    row.await_deadline = None;
    row.updated_at = now;
    woken.insert(row.queue.clone());
}

/// Moves `row` to `status`.
///
/// Leaving the scope releases the correlation key for good (docs/protocol.md, defect 4).
pub(super) fn change_status(row: &mut Instance, status: Status) {
    row.status = status;
    row.needs_all &= status.is_parked();
    let occupied = |scope: Scope| scope.contains(status);
    row.holds_key = row.holds_key && row.correlation_scope.is_some_and(occupied);
}
