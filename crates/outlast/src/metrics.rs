//! Every metric, by name. docs/metrics.md has the same table for people.
//!
//! ```
//! use metrics_util::debugging::DebuggingRecorder; // or an exporter
//! use outlast::prelude::*;
//!
//! #[job]
//! async fn hello(name: String) -> std::io::Result<()> {
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let recorder = DebuggingRecorder::new();
//! let metrics = recorder.snapshotter();
//! # let run = async {
//! let engine = Engine::sqlite_in_memory()?.register(hello).start().await?;
//! engine.start(hello::with("world".into())).await?.output().await?;
//! engine.shutdown().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # };
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # metrics::with_local_recorder(&recorder, || runtime.block_on(run))?;
//!
//! let seen = metrics_seen(metrics);
//! assert!(seen.contains(outlast::metrics::STEPS));
//! # Ok(())
//! # }
//! # fn metrics_seen(metrics: metrics_util::debugging::Snapshotter) -> std::collections::BTreeSet<String> {
//! #     let metrics = metrics.snapshot().into_vec().into_iter();
//! #     metrics.map(|(key, ..)| key.key().name().to_owned()).collect()
//! # }
//! ```
//!
//! They go through the `metrics` facade. Without a recorder they cost almost nothing; the program
//! chooses the exporter. Labels are names of machines, steps and queues. They must never be ids or
//! payloads.

use metrics::SharedString;
use outlast_core::{Count, Delivery, Inserted, Outcome, QueueSummary, Status};
use std::sync::Arc;
use std::time::Duration;

/// Steps that ran, by `machine`, `step` and `outcome`.
pub const STEPS: &str = "outlast_steps_total";
/// How long steps ran, by `machine` and `step`.
pub const STEP_SECONDS: &str = "outlast_step_seconds";
/// Failed attempts, by `machine`, `step`, `kind` (error, panic, timeout, outcome, fatal,
/// unreadable, replay, blocked, crash) and `next` (retry, failed, cancelled, handled, blocked,
/// told, lost).
pub const FAILURES: &str = "outlast_failures_total";
/// Replays whose code did not fit the history, by `machine`. Each is tried again, so it grows
/// until a build fits.
pub const REPLAYS_BLOCKED: &str = "outlast_replays_blocked_total";
/// Instances that were blocked because they committed again and again without progress, by
/// `machine`. Each is tried again.
pub const NO_PROGRESS: &str = "outlast_no_progress_total";
/// How long steps waited between being eligible and starting, by `queue`.
pub const START_DELAY_SECONDS: &str = "outlast_start_delay_seconds";
/// Claims, by `queue`.
pub const CLAIMED: &str = "outlast_claimed_total";
/// How many claims one request returned, by `queue`.
pub const CLAIM_BATCH: &str = "outlast_claim_batch_size";
/// How long a claim request took, by `queue`.
pub const CLAIM_SECONDS: &str = "outlast_claim_seconds";
/// Claims released without running, by `reason` (stopping, waited, suspect, unknown_step,
/// unreadable, grace_over).
pub const RELEASED: &str = "outlast_released_total";
/// Outcomes that were dropped because the worker had lost the claim, by `machine`.
pub const LOST: &str = "outlast_lost_claims_total";
/// How many outcomes one commit wrote.
pub const COMMIT_BATCH: &str = "outlast_commit_batch_size";
/// How long a commit took.
pub const COMMIT_SECONDS: &str = "outlast_commit_seconds";
/// Slots in use, by `queue`.
pub const SLOTS_BUSY: &str = "outlast_slots_busy";
/// Instances inserted, by `answer` (new, duplicate).
pub const INSERTED: &str = "outlast_inserted_total";
/// Signals sent, by `answer` (delivered, duplicate, no_target, inbox_full).
pub const SIGNALS: &str = "outlast_signals_total";
/// Claims of dead workers, by `answer` (returned, failed).
pub const REAPED: &str = "outlast_reaped_total";
/// Waits woken by their deadline.
pub const TIMEOUTS: &str = "outlast_timeouts_total";
/// Instances that have failed because they took too long in all.
pub const TIMED_OUT: &str = "outlast_timed_out_total";
/// Children that a cascade reached after the end or the join of their parent, by `answer`
/// (requested, ended).
pub const CASCADED: &str = "outlast_cascaded_total";
/// Finished instances removed after their retention.
pub const COLLECTED: &str = "outlast_collected_total";
/// Instances that the reconciler repaired: should stay at zero.
pub const MENDED: &str = "outlast_mended_total";
/// Hints received from other nodes.
pub const HINTS_HEARD: &str = "outlast_hints_heard_total";
/// Failed calls of the store, by `loop`.
pub const STORE_ERRORS: &str = "outlast_store_errors_total";
/// The time since this worker's lease was renewed.
pub const LEASE_AGE_SECONDS: &str = "outlast_lease_age_seconds";
/// Runnable instances that are due, by `queue`, counted up to a bound.
pub const QUEUE_DEPTH: &str = "outlast_queue_depth";
/// Runnable instances that are not due yet, by `queue`, counted up to a bound.
pub const QUEUE_DELAYED: &str = "outlast_queue_delayed";
/// Instances that are executing, by `queue`, counted up to a bound.
pub const QUEUE_EXECUTING: &str = "outlast_queue_executing";
/// How long the oldest due instance has waited, by `queue`.
pub const OLDEST_RUNNABLE_SECONDS: &str = "outlast_oldest_runnable_seconds";
/// Parked instances, by `status`, counted up to a bound.
pub const PARKED: &str = "outlast_parked";

/// Every metric with its kind and its description, in the order of docs/metrics.md.
pub const ALL: [(&str, MetricType, &str); 30] = [
    (
        STEPS,
        MetricType::Counter,
        "steps that were run, by machine, step and outcome",
    ),
    (
        STEP_SECONDS,
        MetricType::Histogram,
        "how long steps ran, by machine and step",
    ),
    (
        FAILURES,
        MetricType::Counter,
        "failed attempts, by machine, step, kind and what happens next",
    ),
    (
        REPLAYS_BLOCKED,
        MetricType::Counter,
        "replays of workflows whose code did not fit their history, by machine",
    ),
    (
        NO_PROGRESS,
        MetricType::Counter,
        "instances that were blocked since they committed without progress, by machine",
    ),
    (
        START_DELAY_SECONDS,
        MetricType::Histogram,
        "from eligible to started, by queue",
    ),
    (CLAIMED, MetricType::Counter, "claims taken, by queue"),
    (
        CLAIM_BATCH,
        MetricType::Histogram,
        "claims that one ask brought, by queue",
    ),
    (
        CLAIM_SECONDS,
        MetricType::Histogram,
        "how long asking for claims took, by queue",
    ),
    (
        RELEASED,
        MetricType::Counter,
        "claims given back unrun, by reason",
    ),
    (
        LOST,
        MetricType::Counter,
        "outcomes dropped because the claim was lost, by machine",
    ),
    (
        COMMIT_BATCH,
        MetricType::Histogram,
        "outcomes in one commit",
    ),
    (
        COMMIT_SECONDS,
        MetricType::Histogram,
        "how long a commit took",
    ),
    (SLOTS_BUSY, MetricType::Gauge, "slots in use, by queue"),
    (
        INSERTED,
        MetricType::Counter,
        "instances inserted, by answer",
    ),
    (SIGNALS, MetricType::Counter, "signals sent, by answer"),
    (
        REAPED,
        MetricType::Counter,
        "claims of dead workers, by answer",
    ),
    (
        TIMEOUTS,
        MetricType::Counter,
        "waits woken by their deadline",
    ),
    (
        TIMED_OUT,
        MetricType::Counter,
        "instances that failed because they took too long",
    ),
    (
        CASCADED,
        MetricType::Counter,
        "children told of the end or the join of their parent, by answer",
    ),
    (
        COLLECTED,
        MetricType::Counter,
        "ended instances removed after their retention",
    ),
    (
        MENDED,
        MetricType::Counter,
        "joins and holds that had to be mended; should stay at zero",
    ),
    (
        HINTS_HEARD,
        MetricType::Counter,
        "hints heard from other nodes",
    ),
    (
        STORE_ERRORS,
        MetricType::Counter,
        "failed calls of the store, by loop",
    ),
    (
        LEASE_AGE_SECONDS,
        MetricType::Gauge,
        "how long ago this worker's lease was renewed",
    ),
    (
        QUEUE_DEPTH,
        MetricType::Gauge,
        "runnable instances that are due, by queue",
    ),
    (
        QUEUE_DELAYED,
        MetricType::Gauge,
        "runnable instances whose time has not come, by queue",
    ),
    (
        QUEUE_EXECUTING,
        MetricType::Gauge,
        "instances that are executing, by queue",
    ),
    (
        OLDEST_RUNNABLE_SECONDS,
        MetricType::Gauge,
        "wait of the longest-waiting due instance, by queue",
    ),
    (PARKED, MetricType::Gauge, "parked instances, by status"),
];

/// Bucket bounds of every histogram whose name ends in `_seconds`: from a millisecond to ten
/// minutes.
///
/// An exporter without buckets may export summaries, which cannot be summed over nodes.
pub const SECONDS_BUCKETS: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0,
];

/// Bucket bounds of every histogram whose name ends in `_batch_size`.
pub const BATCH_BUCKETS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Describes every metric to the installed recorder. Engines call it when they start.
pub fn describe() {
    for (name, kind, text) in ALL {
        match kind {
            MetricType::Counter => metrics::describe_counter!(name, text),
            MetricType::Gauge => metrics::describe_gauge!(name, text),
            MetricType::Histogram => metrics::describe_histogram!(name, text),
        }
    }
    // Metrics that stay at zero or are rare exist from the start: an alert cannot watch an absent
    // metric.
    for name in [TIMEOUTS, TIMED_OUT, COLLECTED, MENDED, HINTS_HEARD] {
        metrics::counter!(name).increment(0);
    }
}

pub(crate) fn inserted(rows: &[Inserted]) {
    let new = rows.iter().filter(|row| row.new_id().is_some()).count();
    let duplicates = rows.len() - new;
    for (answer, count) in [("new", new), ("duplicate", duplicates)] {
        if count > 0 {
            metrics::counter!(INSERTED, "answer" => answer).increment(count as u64);
        }
    }
}

pub(crate) fn signalled(delivery: &Delivery) {
    let answer = match delivery {
        Delivery::Delivered { .. } => "delivered",
        Delivery::Duplicate { .. } => "duplicate",
        Delivery::NoTarget => "no_target",
        Delivery::InboxFull { .. } => "inbox_full",
    };
    metrics::counter!(SIGNALS, "answer" => answer).increment(1);
}

pub(crate) fn claimed(queue: &Arc<str>, claims: usize, took: Duration) {
    if claims > 0 {
        metrics::counter!(CLAIMED, "queue" => queue.clone()).increment(claims as u64);
        metrics::histogram!(CLAIM_BATCH, "queue" => queue.clone()).record(claims as f64);
    }
    metrics::histogram!(CLAIM_SECONDS, "queue" => queue.clone()).record(took);
}

pub(crate) fn started(queue: &Arc<str>, waited: Duration) {
    metrics::histogram!(START_DELAY_SECONDS, "queue" => queue.clone()).record(waited);
}

/// Increments and never sets, so that the engines of one process add up.
pub(crate) fn slot_taken(queue: &Arc<str>) {
    metrics::gauge!(SLOTS_BUSY, "queue" => queue.clone()).increment(1.0);
}

pub(crate) fn slot_freed(queue: &Arc<str>) {
    metrics::gauge!(SLOTS_BUSY, "queue" => queue.clone()).decrement(1.0);
}

pub(crate) fn ran(machine: &'static str, step: &'static str, outcome: &Outcome, took: Duration) {
    let outcome = outcome_word(outcome);
    metrics::counter!(STEPS, "machine" => machine, "step" => step, "outcome" => outcome)
        .increment(1);
    metrics::histogram!(STEP_SECONDS, "machine" => machine, "step" => step).record(took);
}

pub(crate) fn failed(
    machine: impl Into<SharedString>,
    step: impl Into<SharedString>,
    kind: &'static str,
    next: &'static str,
) {
    let (machine, step) = (machine.into(), step.into());
    metrics::counter!(FAILURES, "machine" => machine, "step" => step, "kind" => kind, "next" => next)
        .increment(1);
}

pub(crate) fn blocked(machine: &str) {
    metrics::counter!(REPLAYS_BLOCKED, "machine" => machine.to_owned()).increment(1);
}

pub(crate) fn circled(machine: &str) {
    metrics::counter!(NO_PROGRESS, "machine" => machine.to_owned()).increment(1);
}

pub(crate) fn lost(machine: &'static str) {
    metrics::counter!(LOST, "machine" => machine).increment(1);
}

pub(crate) fn released(reason: &'static str) {
    metrics::counter!(RELEASED, "reason" => reason).increment(1);
}

pub(crate) fn committed(outcomes: usize, took: Duration) {
    metrics::histogram!(COMMIT_BATCH).record(outcomes as f64);
    metrics::histogram!(COMMIT_SECONDS).record(took);
}

pub(crate) fn store_error(of: &'static str) {
    metrics::counter!(STORE_ERRORS, "loop" => of).increment(1);
}

/// Returns the word for an outcome, for spans and metrics.
pub(crate) fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Next { .. } => "next",
        Outcome::Retry { .. } => "retry",
        Outcome::Wait { .. } => "wait",
        Outcome::FanOut { .. } => "fan_out",
        Outcome::Flow { .. } => "flow",
        Outcome::ContinueAsNew { .. } => "continue_as_new",
        Outcome::Done { .. } => "done",
        Outcome::Fail { .. } => "fail",
        Outcome::Cancel { .. } => "cancel",
    }
}

pub(crate) fn lease_age(age: Duration) {
    metrics::gauge!(LEASE_AGE_SECONDS).set(age.as_secs_f64());
}

pub(crate) fn reaped(returned: usize, failed: usize) {
    for (answer, count) in [("returned", returned), ("failed", failed)] {
        if count > 0 {
            metrics::counter!(REAPED, "answer" => answer).increment(count as u64);
        }
    }
}

pub(crate) fn timeouts(woken: usize) {
    metrics::counter!(TIMEOUTS).increment(woken as u64);
}

pub(crate) fn timed_out(ended: usize) {
    metrics::counter!(TIMED_OUT).increment(ended as u64);
}

pub(crate) fn cascaded(requested: usize, ended: usize) {
    for (answer, count) in [("requested", requested), ("ended", ended)] {
        if count > 0 {
            metrics::counter!(CASCADED, "answer" => answer).increment(count as u64);
        }
    }
}

pub(crate) fn collected(removed: usize) {
    metrics::counter!(COLLECTED).increment(removed as u64);
}

pub(crate) fn mended(count: usize) {
    metrics::counter!(MENDED).increment(count as u64);
}

pub(crate) fn hints_heard() {
    metrics::counter!(HINTS_HEARD).increment(1);
}

pub(crate) fn queue(queue: &QueueSummary, oldest_waited: Duration) {
    let gauges = [
        (QUEUE_DEPTH, counted(queue.eligible)),
        (QUEUE_DELAYED, counted(queue.delayed)),
        (QUEUE_EXECUTING, counted(queue.executing)),
        (OLDEST_RUNNABLE_SECONDS, oldest_waited.as_secs_f64()),
    ];
    for (name, value) in gauges {
        metrics::gauge!(name, "queue" => queue.name.clone()).set(value);
    }
}

pub(crate) fn queue_empty(queue: &str) {
    let gauges = [
        QUEUE_DEPTH,
        QUEUE_DELAYED,
        QUEUE_EXECUTING,
        OLDEST_RUNNABLE_SECONDS,
    ];
    for name in gauges {
        metrics::gauge!(name, "queue" => queue.to_owned()).set(0.0);
    }
}

pub(crate) fn parked(status: Status, count: Count) {
    metrics::gauge!(PARKED, "status" => status.as_str()).set(counted(count));
}

fn counted(count: Count) -> f64 {
    match count {
        Count::Exactly(count) | Count::AtLeast(count) => count as f64,
    }
}
