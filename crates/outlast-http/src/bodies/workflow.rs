//! Response bodies for workflows, and for the histories of workflows and machines.

use crate::bodies::barrier::PolicyWord;
use crate::bodies::instance::StatusWord;
use crate::bodies::time::Moment;
use crate::limits::{HANDLED_SHOWN, WAITS_SHOWN};
use outlast::machine::Transition;
use outlast::workflow::{
    Blocked, ChildCall, EventDetail, GroupPlace, GroupWait, Handled, OpenWait, Origin,
    PolicyApplied, TimelineEntry, Waits, WindowWait,
};
use outlast_core::{ClosePolicy, Event, EventKind, Json, ReplyKind, RunSummary, Status};
use serde::Serialize;

/// What a workflow waits for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Flow)]
pub(crate) struct FlowBody {
    /// Its open calls, in the order of the calls, at most 200.
    waits: Vec<WaitBody>,
    /// The total number of open calls.
    open: usize,
    /// The groups and selections among them.
    groups: Vec<GroupBody>,
    /// False when the history or the children exceed the bound of this read: there may be more.
    complete: bool,
    /// Why the workflow is blocked, while its code does not match its history.
    blocked: Option<BlockedBody>,
    /// The failures of this run that its code handled, the last 50 of them.
    handled: Vec<HandledBody>,
    /// The total number of handled failures.
    handled_count: usize,
}

/// An open call.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Wait)]
pub(crate) struct WaitBody {
    /// `step`, `activity`, `child`, `timer` or `signal`.
    kind: &'static str,
    /// The number of the call in its run.
    call: i32,
    /// The name in the call; empty for a timer.
    name: String,
    /// The child of an activity or a child call, if it was read.
    target: Option<TargetBody>,
    since: Moment,
    /// When a timer fires.
    deadline: Option<Moment>,
    /// Whether the child waits for a slot in the window of its group; null without a window.
    held: Option<bool>,
    /// What happens to the child when the workflow finishes.
    #[schema(value_type = Option<PolicyWord>)]
    policy: Option<ClosePolicy>,
    /// The groups of the call.
    group: Option<PlaceBody>,
    /// Whether the workflow still waits for the call: other calls of a failed group continue
    /// without it.
    awaited: bool,
}

/// An awaited child.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WaitTarget)]
pub(crate) struct TargetBody {
    id: String,
    /// Its newest known run.
    run: Option<i32>,
    #[schema(value_type = Option<StatusWord>)]
    status: Option<Status>,
}

/// The position of a call in its groups.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = GroupPlace)]
pub(crate) struct PlaceBody {
    /// `all` or `select`: the kind of the outermost group.
    kind: &'static str,
    /// The calls of the groups, from the outermost to the innermost.
    path: Vec<i32>,
    /// The number of calls in the outermost group.
    size: usize,
    /// The position of the call in it, from 0.
    index: usize,
    /// The kind of its calls: `children`, `activities`, `steps`, `timers`, `signals` or `mixed`.
    /// Only present for awaited groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    members: Option<&'static str>,
}

/// An awaited group or selection.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WaitGroup)]
pub(crate) struct GroupBody {
    /// `all` or `select`.
    kind: &'static str,
    call: i32,
    /// The number of its calls.
    size: usize,
    /// The number of its open calls.
    open: usize,
    /// The kind of its calls: `children`, `activities`, `steps`, `timers`, `signals` or `mixed`.
    members: &'static str,
    /// When the first timer of a selection fires.
    deadline: Option<Moment>,
    /// The open children by state, if the group has a window.
    window: Option<WindowBody>,
}

/// The open children of a group with a window.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WaitWindow)]
pub(crate) struct WindowBody {
    /// Children with a slot.
    running: usize,
    /// Children that wait for a slot.
    held: usize,
}

/// A handled failure.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = HandledFailure)]
pub(crate) struct HandledBody {
    /// The event that records it.
    seq: i32,
    at: Moment,
    /// The call that failed.
    call: Option<i32>,
    /// The name of that call.
    name: String,
    reason: String,
}

/// The workflow call that started an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Origin)]
pub(crate) struct OriginBody {
    /// The run of the parent that made the call.
    run: i32,
    /// The number of the call in that run.
    call: i32,
    /// `activity` or `child`.
    kind: &'static str,
    /// The name of the call.
    name: String,
    /// The event of the parent's history that records it.
    seq: i32,
    at: Moment,
    group: Option<PlaceBody>,
}

/// A mismatch between history and code.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BlockedReplay)]
pub(crate) struct BlockedBody {
    /// The history's side.
    expected: String,
    /// The code's side.
    found: String,
    since: Moment,
}

/// An event of a history, or a close policy that was applied after its end.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventBody {
    /// The position in the timeline of its run, from 1: first the events, then the policies.
    pub(crate) seq: i32,
    at: Moment,
    /// The kind of the event: `activity_scheduled`, `signal_consumed`, `run_completed` …;
    /// `policy_applied` when the end affected a child; `transitioned` for a machine.
    kind: &'static str,
    /// The call of the event; also null for a policy on a child of an earlier run, which is then
    /// in `data`.
    call: Option<i32>,
    /// The name of that call, or empty. For a machine, the step.
    name: String,
    /// The transition of a machine.
    transition: Option<RecordedTransitionBody>,
    /// The child that the event is about.
    child: Option<String>,
    child_run: Option<i32>,
    /// When a timer fires; for a transition, when its wait ends or its retry starts.
    deadline: Option<Moment>,
    /// What happens, or happened, to the child when the workflow finishes.
    #[schema(value_type = Option<PolicyWord>)]
    policy: Option<ClosePolicy>,
    group: Option<PlaceBody>,
    /// The id of an update that was taken or answered.
    update: Option<String>,
    /// How an update was answered: `done`, `failed` or `rejected`.
    reply: Option<&'static str>,
    /// The reason of a failure, a cancel or a handled failure; for a policy, what was done to the
    /// child and its final status.
    reason: Option<String>,
    /// The history's side of a mismatch, for a blocked replay.
    expected: Option<String>,
    /// The code's side of the mismatch.
    found: Option<String>,
    /// The stored data of the event, byte for byte.
    #[schema(value_type = serde_json::Value)]
    data: Json,
}

/// The outcome of a step of a machine.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = RecordedTransition)]
pub(crate) struct RecordedTransitionBody {
    /// `next`, `retry`, `wait`, `fan_out`, `done`, `stop` or `cancel`.
    outcome: String,
    /// The next step; null at an end.
    to: Option<String>,
    /// Which attempt it was, from 0.
    attempt: i32,
    /// How many earlier tries crashed the worker.
    crashes: i32,
    /// `signal`, `timeout` or `cancel`, if known.
    woken_by: Option<&'static str>,
    /// The names of the awaited signals that the step received, the first few.
    signals: Vec<String>,
    /// The names of the signals that the instance waits for, the first few.
    awaits: Vec<String>,
    /// The number of children of a fan-out.
    children: Option<usize>,
    /// The state when recording began, in the first event, if states are recorded.
    #[schema(value_type = Option<serde_json::Value>)]
    began: Option<Json>,
    /// The next state, if states are recorded.
    #[schema(value_type = Option<serde_json::Value>)]
    state: Option<Json>,
    /// The size of that state in bytes, if it is too large to be recorded.
    left_out: Option<usize>,
    /// Whether the history is full: later transitions are not recorded.
    is_last: bool,
}

/// A call that started a child, and the known state of the child.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ChildCall)]
pub(crate) struct CallBody {
    /// The number of the call in its run.
    call: i32,
    /// `activity` or `child`.
    kind: &'static str,
    machine: String,
    version: i32,
    /// What happens to the child when the workflow finishes.
    #[schema(value_type = PolicyWord)]
    policy: ClosePolicy,
    group: Option<PlaceBody>,
    /// When the call was scheduled.
    at: Moment,
    /// The child and its newest run, once known.
    child: Option<String>,
    child_run: Option<i32>,
    /// Its status; null when it is not recorded and the child is no longer stored.
    #[schema(value_type = Option<StatusWord>)]
    status: Option<Status>,
    terminated: bool,
    ended_at: Option<Moment>,
    /// Why the child failed or was cancelled.
    reason: Option<String>,
    /// Whether the status comes from the workflow's history; else from the child itself.
    recorded: bool,
}

/// A run whose history is stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunBody {
    /// The run, from 1.
    run: i32,
    /// The number of its events.
    events: i32,
    started_at: Moment,
    last_at: Moment,
    /// The kind of its last event.
    #[schema(value_type = String)]
    last: EventKind,
}

fn kind_word(is_selection: bool) -> &'static str {
    match is_selection {
        true => "select",
        false => "all",
    }
}

impl From<Waits> for FlowBody {
    fn from(waits: Waits) -> FlowBody {
        let open = waits.open.len();
        let shown = waits.open.into_iter().take(WAITS_SHOWN);
        FlowBody {
            waits: shown.map(WaitBody::from).collect(),
            open,
            groups: waits.groups.into_iter().map(GroupBody::from).collect(),
            complete: waits.is_whole,
            blocked: waits.blocked.map(BlockedBody::from),
            handled_count: waits.handled.len(),
            handled: last(waits.handled),
        }
    }
}

fn last(mut handled: Vec<Handled>) -> Vec<HandledBody> {
    let earlier = handled.len().saturating_sub(HANDLED_SHOWN);
    let shown = handled.drain(earlier..);
    shown.map(HandledBody::from).collect()
}

impl From<Handled> for HandledBody {
    fn from(handled: Handled) -> HandledBody {
        HandledBody {
            seq: handled.seq,
            at: Moment(handled.at),
            call: handled.call,
            name: handled.name,
            reason: handled.reason,
        }
    }
}

impl From<Origin> for OriginBody {
    fn from(origin: Origin) -> OriginBody {
        OriginBody {
            run: origin.run,
            call: origin.call,
            kind: origin.kind,
            name: origin.name,
            seq: origin.seq,
            at: Moment(origin.at),
            group: origin.group.map(PlaceBody::from),
        }
    }
}

impl From<WindowWait> for WindowBody {
    fn from(window: WindowWait) -> WindowBody {
        WindowBody {
            running: window.running,
            held: window.held,
        }
    }
}

impl From<OpenWait> for WaitBody {
    fn from(wait: OpenWait) -> WaitBody {
        WaitBody {
            kind: wait.kind,
            call: wait.call,
            name: wait.name,
            target: wait.child.map(|id| TargetBody {
                id: id.to_string(),
                run: wait.child_run,
                status: wait.child_status,
            }),
            since: Moment(wait.since),
            deadline: wait.deadline.map(Moment),
            held: wait.is_held,
            policy: wait.on_parent_close,
            group: wait.group.map(PlaceBody::from),
            awaited: wait.is_awaited,
        }
    }
}

impl From<GroupPlace> for PlaceBody {
    fn from(place: GroupPlace) -> PlaceBody {
        PlaceBody {
            kind: kind_word(place.is_selection),
            path: place.path,
            size: place.size,
            index: place.index,
            members: place.members,
        }
    }
}

impl From<GroupWait> for GroupBody {
    fn from(group: GroupWait) -> GroupBody {
        GroupBody {
            kind: kind_word(group.is_selection),
            call: group.call,
            size: group.size,
            open: group.open,
            members: group.members,
            deadline: group.deadline.map(Moment),
            window: group.window.map(WindowBody::from),
        }
    }
}

impl From<Blocked> for BlockedBody {
    fn from(blocked: Blocked) -> BlockedBody {
        BlockedBody {
            expected: blocked.expected,
            found: blocked.found,
            since: Moment(blocked.since),
        }
    }
}

impl EventBody {
    /// Converts an entry of a run's timeline.
    pub(crate) fn of(entry: TimelineEntry, run: i32) -> EventBody {
        match entry {
            TimelineEntry::Event(event) => EventBody::from(event),
            TimelineEntry::PolicyApplied(policy) => EventBody::applied(policy, run),
        }
    }

    fn applied(applied: PolicyApplied, run: i32) -> EventBody {
        let origin = applied.origin.as_ref();
        let more = AppliedData {
            run: origin.map(|it| it.run),
            call: origin.map(|it| it.call),
            status_before: applied.status_before,
        };
        EventBody {
            seq: applied.seq,
            at: Moment(applied.at),
            kind: TimelineEntry::POLICY_APPLIED,
            call: applied.call_in(run),
            name: origin.map(|it| it.name.clone()).unwrap_or_default(),
            transition: None,
            child: Some(applied.child.to_string()),
            child_run: None,
            deadline: None,
            policy: Some(applied.policy),
            group: None,
            update: None,
            reply: None,
            reason: Some(applied.reason),
            expected: None,
            found: None,
            data: Json::of(&more).unwrap_or_else(|_| Json::null()),
        }
    }
}

/// Further data of an applied policy.
#[derive(Serialize)]
struct AppliedData {
    /// The run and the call that started the child.
    run: Option<i32>,
    call: Option<i32>,
    /// The status of the child before.
    status_before: Option<Status>,
}

impl From<Event> for EventBody {
    fn from(event: Event) -> EventBody {
        let detail = EventDetail::of(&event);
        EventBody {
            seq: event.seq,
            at: Moment(event.at),
            kind: event.kind.as_str(),
            call: event.call,
            name: event.name,
            transition: detail.transition.map(RecordedTransitionBody::from),
            child: detail.child.map(|id| id.to_string()),
            child_run: detail.child_run,
            deadline: detail.deadline.map(Moment),
            policy: detail.on_parent_close,
            group: detail.group.map(PlaceBody::from),
            update: detail.update,
            reply: detail.reply.map(ReplyKind::as_str),
            reason: detail.reason,
            expected: detail.expected,
            found: detail.found,
            data: event.data,
        }
    }
}

impl From<Transition> for RecordedTransitionBody {
    fn from(it: Transition) -> RecordedTransitionBody {
        RecordedTransitionBody {
            outcome: it.outcome.into_owned(),
            to: it.to,
            attempt: it.attempt,
            crashes: it.crashes,
            woken_by: it.woken_by.map(|by| by.as_str()),
            signals: it.signals,
            awaits: it.awaits,
            children: it.children,
            began: it.began,
            state: it.state,
            left_out: it.left_out,
            is_last: it.is_last,
        }
    }
}

impl From<ChildCall> for CallBody {
    fn from(call: ChildCall) -> CallBody {
        CallBody {
            call: call.call,
            kind: call.kind,
            machine: call.machine,
            version: call.version,
            policy: call.on_parent_close,
            group: call.group.map(PlaceBody::from),
            at: Moment(call.at),
            child: call.child.map(|id| id.to_string()),
            child_run: call.run,
            status: call.status,
            terminated: call.was_terminated,
            ended_at: call.ended_at.map(Moment),
            reason: call.reason,
            recorded: call.is_recorded,
        }
    }
}

impl From<RunSummary> for RunBody {
    fn from(run: RunSummary) -> RunBody {
        RunBody {
            run: run.run,
            events: run.events,
            started_at: Moment(run.started_at),
            last_at: Moment(run.last_at),
            last: run.last,
        }
    }
}
