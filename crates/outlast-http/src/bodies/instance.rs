//! Response bodies that several routes share.

use crate::bodies::barrier::{BarrierBody, CancelBody, PolicyWord};
use crate::bodies::time::Moment;
use crate::bodies::workflow::{FlowBody, OriginBody};
use outlast_core::{ClosePolicy, Count, Instance, Json, Status, key};
use serde::Serialize;
use std::collections::BTreeMap;

/// Characters of an error in a list; the instance itself has the full text.
const ERROR_IN_LISTS: usize = 300;

/// An instance. Lists leave out `state`, `result`, `waiting`, `liveness`, `flow` and `origin`, and
/// cut `last_error` and the reason of a cancel.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Instance)]
pub(crate) struct InstanceBody {
    /// Decimal digits as text: an id may exceed the range of a JavaScript number.
    #[schema(example = "42")]
    pub(crate) id: String,
    pub(crate) machine: String,
    pub(crate) version: i32,
    pub(crate) step: String,
    #[schema(value_type = StatusWord)]
    pub(crate) status: Status,
    pub(crate) queue: String,
    /// Lower is more urgent.
    pub(crate) priority: i16,
    /// Increases with every change.
    pub(crate) revision: i64,
    /// How often the step was retried.
    pub(crate) attempt: i32,
    /// How often a worker crashed while it ran the step.
    pub(crate) crashes: i32,
    /// The correlation key. A key that is not text is shown like `\x00ff`.
    pub(crate) key: Option<String>,
    /// The correlation key in hexadecimal, only if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(crate) key_hex: Option<String>,
    /// Whether the instance still holds that key.
    pub(crate) holds_key: bool,
    /// The partition key. A key that is not text is shown like `\x00ff`.
    pub(crate) partition_key: Option<String>,
    /// The partition key in hexadecimal, only if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(crate) partition_key_hex: Option<String>,
    pub(crate) parent: Option<ParentBody>,
    /// Its position in its parent's fan-out, from 0; null without a parent.
    pub(crate) position: Option<i32>,
    /// What happens to the instance when its parent finishes first; null without a parent.
    #[schema(value_type = Option<PolicyWord>)]
    pub(crate) on_parent_close: Option<ClosePolicy>,
    /// Whether the instance waits for a slot in the window of its parent's fan-out; null without a
    /// window.
    pub(crate) held: Option<bool>,
    /// The cancel that was requested.
    pub(crate) cancel: Option<CancelBody>,
    /// The signals that the instance waits for.
    pub(crate) awaits: Option<Vec<String>>,
    /// The latest time at which its wait for a signal or for children ends; with `needs_all`, the
    /// earliest.
    pub(crate) await_deadline: Option<Moment>,
    /// Whether the instance waits for everything: `awaits`, the deadline and the children list
    /// what is missing.
    pub(crate) needs_all: bool,
    pub(crate) children_pending: i32,
    /// The number of fan-outs.
    pub(crate) round: i32,
    /// The current run of a workflow, from 1.
    pub(crate) run: i32,
    /// The number of events in the history of that run; 0 for a machine.
    pub(crate) events: i32,
    /// The join of its last fan-out; null when there was none.
    pub(crate) barrier: Option<BarrierBody>,
    pub(crate) eligible_at: Moment,
    /// The worker that runs the instance.
    pub(crate) worker: Option<String>,
    /// The W3C `traceparent` of the instance.
    pub(crate) trace: Option<String>,
    /// When the instance fails as timed out, over all its runs; null without a timeout. It stays
    /// after the end.
    pub(crate) timeout_at: Option<Moment>,
    /// When the instance fails as timed out because of its current run; null without a timeout of
    /// runs. It stays after the end.
    pub(crate) run_timeout_at: Option<Moment>,
    pub(crate) inserted_at: Moment,
    pub(crate) updated_at: Moment,
    pub(crate) finished_at: Option<Moment>,
    pub(crate) last_error: Option<String>,
    /// Stored byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, required = false)]
    pub(crate) state: Option<Json>,
    /// Stored byte for byte: the output of a done instance, or the error value of a failed one.
    /// Otherwise null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, required = false)]
    pub(crate) result: Option<Option<Json>>,
    /// What the instance waits for and until when, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(crate) waiting: Option<String>,
    /// What the instance does or waits for, in one word. `repair_needed`: nothing would ever wake
    /// it, and `POST /v1/instances/{id}/repair` does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<LivenessWord>, required = false)]
    pub(crate) liveness: Option<&'static str>,
    /// What a workflow waits for, by call; absent for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(crate) flow: Option<FlowBody>,
    /// The call that started the instance, if the parent is a workflow whose history is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(crate) origin: Option<OriginBody>,
}

/// The parent of an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Parent)]
pub(crate) struct ParentBody {
    /// The parent's id.
    pub(crate) id: String,
    /// The parent's fan-out, from 1.
    pub(crate) round: i32,
}

/// What an instance does or waits for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Liveness, rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum LivenessWord {
    Queued,
    Running,
    WaitingForSignal,
    WaitingForTime,
    WaitingForChild,
    /// Nothing would ever wake it.
    RepairNeeded,
    Ended,
}

/// The status of an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Status, rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum StatusWord {
    Runnable,
    Executing,
    AwaitingSignal,
    /// It waits for a time alone.
    Sleeping,
    AwaitingChildren,
    Done,
    Failed,
    Cancelled,
}

impl InstanceBody {
    /// Returns the body that lists show.
    pub(crate) fn summary(instance: Instance) -> InstanceBody {
        let mut body = InstanceBody::whole(instance);
        body.state = None;
        body.result = None;
        body.last_error = body.last_error.map(shortened);
        body.cancel = body.cancel.map(|cancel| CancelBody {
            reason: shortened(cancel.reason),
            ..cancel
        });
        body
    }

    /// Returns the body with everything except the sentence.
    pub(crate) fn whole(instance: Instance) -> InstanceBody {
        let barrier = BarrierBody::of(&instance);
        let Instance {
            id,
            machine,
            version,
            step,
            state,
            status,
            revision,
            entered: _,
            trace,
            result,
            last_error,
            queue,
            priority,
            eligible_at,
            attempt,
            crashes,
            partition_key,
            locked_by,
            awaits,
            await_deadline,
            needs_all,
            parent,
            position,
            on_parent_close,
            held,
            cancel,
            round,
            run,
            events,
            joining: _,
            children_pending,
            barrier: _,
            dropped: _,
            correlation_key,
            correlation_scope: _,
            holds_key,
            timeout_at,
            run_timeout_at,
            inserted_at,
            updated_at,
            finished_at,
        } = instance;
        let (key, key_hex) = shown_key(correlation_key);
        let (partition_key, partition_key_hex) = shown_key(partition_key);
        InstanceBody {
            id: id.to_string(),
            machine,
            version,
            step,
            status,
            queue,
            priority,
            revision: revision.0,
            attempt,
            crashes,
            key,
            key_hex,
            holds_key,
            partition_key,
            partition_key_hex,
            on_parent_close: parent.map(|_| on_parent_close),
            parent: parent.map(|parent| ParentBody {
                id: parent.id.to_string(),
                round: parent.round,
            }),
            position,
            held,
            cancel: cancel.map(CancelBody::from),
            awaits,
            await_deadline: await_deadline.map(Moment),
            needs_all,
            children_pending,
            round,
            run,
            events,
            barrier,
            eligible_at: Moment(eligible_at),
            worker: locked_by.map(|worker| worker.to_string()),
            trace,
            timeout_at: timeout_at.map(Moment),
            run_timeout_at: run_timeout_at.map(Moment),
            inserted_at: Moment(inserted_at),
            updated_at: Moment(updated_at),
            finished_at: finished_at.map(Moment),
            last_error,
            state: Some(state),
            result: Some(result),
            waiting: None,
            liveness: None,
            flow: None,
            origin: None,
        }
    }
}

/// Returns the two members of a key: the key for people, and its digits if it is not text.
pub(crate) fn shown_key(stored: Option<String>) -> (Option<String>, Option<String>) {
    let digits = stored.as_deref().and_then(key::hex).map(str::to_owned);
    let shown = stored.map(|stored| key::shown(&stored).into_owned());
    (shown, digits)
}

fn shortened(error: String) -> String {
    match error.char_indices().nth(ERROR_IN_LISTS) {
        Some((end, _)) => format!("{}…", &error[..end]),
        None => error,
    }
}

/// A count, up to a bound.
#[derive(Clone, Copy, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Count)]
pub(crate) struct CountBody {
    pub(crate) count: u64,
    /// False when counting stopped at the bound: the count is a lower bound.
    pub(crate) exact: bool,
}

impl From<Count> for CountBody {
    fn from(count: Count) -> CountBody {
        match count {
            Count::Exactly(count) => CountBody { count, exact: true },
            Count::AtLeast(count) => CountBody {
                count,
                exact: false,
            },
        }
    }
}

/// The number of instances by status.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Returns a zero for every status.
pub(crate) fn no_counts() -> Counts {
    Status::ALL
        .into_iter()
        .map(|status| (status.as_str(), 0))
        .collect()
}
