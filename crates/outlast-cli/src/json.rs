//! JSON output, with the same names and shapes as the HTTP API.

mod family;
mod workflow_view;

pub(crate) use family::family;
pub(crate) use workflow_view::{EventObject, ViewObject, call, origin, run, waits};

use crate::format::rfc3339;
use family::{BarrierObject, CancelObject, ParentObject};
use outlast::Status;
use outlast::store::{
    Count, Finding, Instance, Json, Liveness, Operation, QueueSummary, RoundSummary, SignalRow,
    Timestamp, Worker, key,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// An instance. Lists leave out its state and its result.
#[derive(Serialize)]
pub(crate) struct InstanceObject {
    id: String,
    machine: String,
    version: i32,
    step: String,
    status: &'static str,
    queue: String,
    priority: i16,
    revision: i64,
    attempt: i32,
    crashes: i32,
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    holds_key: bool,
    partition_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_key_hex: Option<String>,
    parent: Option<ParentObject>,
    position: Option<i32>,
    on_parent_close: Option<&'static str>,
    held: Option<bool>,
    cancel: Option<CancelObject>,
    awaits: Option<Vec<String>>,
    await_deadline: Option<String>,
    needs_all: bool,
    children_pending: i32,
    round: i32,
    run: i32,
    events: i32,
    barrier: Option<BarrierObject>,
    eligible_at: String,
    worker: Option<String>,
    trace: Option<String>,
    timeout_at: Option<String>,
    run_timeout_at: Option<String>,
    inserted_at: String,
    updated_at: String,
    finished_at: Option<String>,
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    liveness: Option<&'static str>,
}

impl InstanceObject {
    /// Converts without state and result.
    pub(crate) fn summary(it: &Instance) -> InstanceObject {
        InstanceObject {
            id: it.id.to_string(),
            machine: it.machine.clone(),
            version: it.version,
            step: it.step.clone(),
            status: it.status.as_str(),
            queue: it.queue.clone(),
            priority: it.priority,
            revision: it.revision.0,
            attempt: it.attempt,
            crashes: it.crashes,
            key: shown_key(&it.correlation_key),
            key_hex: key_digits(&it.correlation_key),
            holds_key: it.holds_key,
            partition_key: shown_key(&it.partition_key),
            partition_key_hex: key_digits(&it.partition_key),
            parent: it.parent.map(ParentObject::of),
            position: it.position,
            on_parent_close: it.parent.map(|_| it.on_parent_close.as_str()),
            held: it.held,
            cancel: it.cancel.as_ref().map(CancelObject::of),
            awaits: it.awaits.clone(),
            await_deadline: it.await_deadline.map(rfc3339),
            needs_all: it.needs_all,
            children_pending: it.children_pending,
            round: it.round,
            run: it.run,
            events: it.events,
            barrier: BarrierObject::of(it),
            eligible_at: rfc3339(it.eligible_at),
            worker: it.locked_by.map(|worker| worker.to_string()),
            trace: it.trace.clone(),
            timeout_at: it.timeout_at.map(rfc3339),
            run_timeout_at: it.run_timeout_at.map(rfc3339),
            inserted_at: rfc3339(it.inserted_at),
            updated_at: rfc3339(it.updated_at),
            finished_at: it.finished_at.map(rfc3339),
            last_error: it.last_error.clone(),
            state: None,
            result: None,
            waiting: None,
            liveness: None,
        }
    }

    /// Converts with state and result.
    pub(crate) fn full(it: &Instance) -> InstanceObject {
        InstanceObject {
            state: raw(&it.state),
            result: it.result.as_ref().and_then(raw),
            ..InstanceObject::summary(it)
        }
    }

    /// Adds the sentence that says what the instance waits for.
    pub(crate) fn waiting(mut self, sentence: String) -> InstanceObject {
        self.waiting = Some(sentence);
        self
    }

    /// Adds what the instance does or waits for, in one word.
    pub(crate) fn liveness(mut self, liveness: Liveness) -> InstanceObject {
        self.liveness = Some(liveness.as_str());
        self
    }
}

/// Keeps the text byte for byte.
pub(crate) fn raw(json: &Json) -> Option<Box<RawValue>> {
    RawValue::from_string(json.as_str().to_owned()).ok()
}

pub(crate) fn shown_key(stored: &Option<String>) -> Option<String> {
    stored
        .as_deref()
        .map(|stored| key::shown(stored).into_owned())
}

/// Returns the digits of a key that is not text.
pub(crate) fn key_digits(stored: &Option<String>) -> Option<String> {
    stored.as_deref().and_then(key::hex).map(str::to_owned)
}

/// A signal.
#[derive(Serialize)]
pub(crate) struct SignalObject {
    id: String,
    name: String,
    /// Whether it is an update: its sender waits for a reply.
    wants_reply: bool,
    payload: Option<Box<RawValue>>,
    dedup_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedup_key_hex: Option<String>,
    inserted_at: String,
    consumed_at: Option<String>,
}

impl SignalObject {
    pub(crate) fn of(signal: &SignalRow) -> SignalObject {
        SignalObject {
            id: signal.id.to_string(),
            name: signal.name.clone(),
            wants_reply: signal.wants_reply,
            payload: signal.payload.as_ref().and_then(raw),
            dedup_key: shown_key(&signal.dedup_key),
            dedup_key_hex: key_digits(&signal.dedup_key),
            inserted_at: rfc3339(signal.inserted_at),
            consumed_at: signal.consumed_at.map(rfc3339),
        }
    }
}

pub(crate) fn round(round: &RoundSummary) -> Value {
    json!({"round": round.round, "counts": counts(&round.children)})
}

fn counts(counts: &[(Status, u64)]) -> Map<String, Value> {
    let counts = counts.iter();
    counts
        .map(|(status, number)| (status.to_string(), json!(number)))
        .collect()
}

pub(crate) fn operation(operation: &Operation) -> Value {
    json!({
        "id": operation.id.to_string(),
        "verb": operation.verb.as_str(),
        "instance": operation.instance.map(|id| id.to_string()),
        "queue": operation.queue,
        "by": operation.by,
        "reason": operation.reason,
        "cause": operation.cause.map(|id| id.to_string()),
        "status_before": operation.status_before.map(|status| status.as_str()),
        "at": rfc3339(operation.at),
    })
}

pub(crate) fn queue(queue: &QueueSummary) -> Value {
    json!({
        "name": queue.name,
        "paused": queue.paused,
        "eligible": count(queue.eligible),
        "delayed": count(queue.delayed),
        "executing": count(queue.executing),
        "oldest_eligible_at": queue.oldest_eligible_at.map(rfc3339),
    })
}

pub(crate) fn worker(worker: &Worker, now: Timestamp) -> Value {
    let machines: Vec<_> = worker
        .machines
        .iter()
        .map(|it| json!({"name": it.name, "version": it.version, "queue": it.queue, "steps": it.steps}))
        .collect();
    json!({
        "id": worker.id.to_string(),
        "name": worker.name,
        "host": worker.host,
        "version": worker.version,
        "queues": worker.queues,
        "machines": machines,
        "started_at": rfc3339(worker.started_at),
        "heartbeat_at": rfc3339(worker.heartbeat_at),
        "lease_expires_at": rfc3339(worker.lease_expires_at),
        "alive": worker.lease_expires_at > now,
    })
}

pub(crate) fn finding(finding: &Finding) -> Value {
    json!({
        "check": finding.check,
        "severity": finding.severity.as_str(),
        "found": finding.found,
        "remedy": finding.remedy,
    })
}

pub(crate) fn count(count: Count) -> Value {
    match count {
        Count::Exactly(number) => json!({"count": number, "exact": true}),
        Count::AtLeast(number) => json!({"count": number, "exact": false}),
    }
}

/// Converts an object to embed it in another, byte for byte.
pub(crate) fn embedded(object: &impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(object).ok()
}
