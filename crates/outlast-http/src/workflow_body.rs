//! Workflows: what they wait for. And what histories say, also those of machines.

use crate::barrier::PolicyWord;
use crate::limits::{HANDLED_SHOWN, WAITS_SHOWN};
use crate::shape::StatusWord;
use crate::time::Moment;
use outlast::machine::Transition;
use outlast::workflow::{
    Blocked, ChildCall, EventDetail, GroupPlace, GroupWait, Handled, OpenWait, Origin,
    PolicyApplied, TimelineEntry, Waits, WindowWait,
};
use outlast_core::{ClosePolicy, Event, EventKind, Json, RunSummary, Status};
use serde::Serialize;

/// What a workflow waits for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Flow)]
pub(crate) struct FlowBody {
    /// What it has asked for and what has not come, in the order of the calls, 200 at most.
    waits: Vec<WaitBody>,
    /// How many there are in all.
    open: usize,
    /// The groups and selections among them.
    groups: Vec<GroupBody>,
    /// False when its history or its children are more than what was looked at: there may be more.
    complete: bool,
    /// Why it cannot go on, while its code does not fit its history.
    blocked: Option<BlockedBody>,
    /// The failures of this run that its code has caught and gone on from, the last 50 of them.
    handled: Vec<HandledBody>,
    /// How many there are in all.
    handled_count: usize,
}

/// A call that is open.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Wait)]
pub(crate) struct WaitBody {
    /// `step`, `activity`, `child`, `timer` or `signal`.
    kind: &'static str,
    /// The number of the call in its run.
    call: i32,
    /// What it names; empty of a timer.
    name: String,
    /// The child, of an activity and a child, where it was looked at.
    target: Option<TargetBody>,
    since: Moment,
    /// When its time comes, of a timer.
    deadline: Option<Moment>,
    /// Whether the child waits for a place in the window of its group; null when that has none.
    held: Option<bool>,
    /// What becomes of the child when the workflow ends.
    #[schema(value_type = Option<PolicyWord>)]
    policy: Option<ClosePolicy>,
    /// The groups it is in.
    group: Option<PlaceBody>,
    /// Whether the workflow still waits for it: others of a group that has failed go on without.
    awaited: bool,
}

/// A child that is waited for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WaitTarget)]
pub(crate) struct TargetBody {
    id: String,
    /// Its newest run that is known.
    run: Option<i32>,
    #[schema(value_type = Option<StatusWord>)]
    status: Option<Status>,
}

/// Where a call stands in the groups it is in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = GroupPlace)]
pub(crate) struct PlaceBody {
    /// `all` or `select`, of the outermost.
    kind: &'static str,
    /// The calls of the groups, from the outermost to the innermost.
    path: Vec<i32>,
    /// How many calls the outermost has.
    size: usize,
    /// Which of them it is, from 0.
    index: usize,
    /// What its calls are: `children`, `activities`, `steps`, `timers`, `signals` or `mixed`. Only told of what is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    members: Option<&'static str>,
}

/// A group or a selection that is waited for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WaitGroup)]
pub(crate) struct GroupBody {
    /// `all` or `select`.
    kind: &'static str,
    call: i32,
    /// How many calls it has.
    size: usize,
    /// How many of them are open.
    open: usize,
    /// What they are: `children`, `activities`, `steps`, `timers`, `signals` or `mixed`.
    members: &'static str,
    /// Until when a selection is waited for: when the first of its timers fires.
    deadline: Option<Moment>,
    /// How its open children stand, when some of them only run at a time.
    window: Option<WindowBody>,
}

/// How the open children of a group with a window stand.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = WaitWindow)]
pub(crate) struct WindowBody {
    /// How many have a place.
    running: usize,
    /// How many wait for one.
    held: usize,
}

/// A failure that was caught.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = HandledFailure)]
pub(crate) struct HandledBody {
    /// The event that says so.
    seq: i32,
    at: Moment,
    /// The call that failed.
    call: Option<i32>,
    /// What that call names.
    name: String,
    reason: String,
}

/// The call of a workflow that has started an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Origin)]
pub(crate) struct OriginBody {
    /// The run of the parent that made the call.
    run: i32,
    /// The number of the call in that run.
    call: i32,
    /// `activity` or `child`.
    kind: &'static str,
    /// What the call names.
    name: String,
    /// The event of the parent's history that says so.
    seq: i32,
    at: Moment,
    group: Option<PlaceBody>,
}

/// Both sides of what does not fit.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BlockedReplay)]
pub(crate) struct BlockedBody {
    /// What the history has.
    expected: String,
    /// What the code has instead.
    found: String,
    since: Moment,
}

/// An event of a history, or a policy that was applied after its end.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventBody {
    /// Its place in the timeline of its run, from 1: first the events, then the policies.
    pub(crate) seq: i32,
    at: Moment,
    /// What it says: `activity_scheduled`, `signal_consumed`, `run_completed` …; `policy_applied` when a child was told of the
    /// end; of a machine `transitioned`.
    kind: &'static str,
    /// The call it belongs to; of a policy null as well when an earlier run has made it, which is in `data` then.
    call: Option<i32>,
    /// What that call names; empty when nothing. Of a machine, the step.
    name: String,
    /// What the step of a machine came to.
    transition: Option<TransitionBody>,
    /// The child it is about.
    child: Option<String>,
    child_run: Option<i32>,
    /// When the time of a timer comes; of a transition, until when it waits at most or when it is tried again.
    deadline: Option<Moment>,
    /// What becomes of the child when the workflow ends, or became of it.
    #[schema(value_type = Option<PolicyWord>)]
    policy: Option<ClosePolicy>,
    group: Option<PlaceBody>,
    /// Why something failed, was cancelled or was handled; what a child was told, and with which end.
    reason: Option<String>,
    /// What does not fit, of a replay that was blocked: what the history has.
    expected: Option<String>,
    /// What the code has instead.
    found: Option<String>,
    /// All that is stored with it, to the letter.
    #[schema(value_type = serde_json::Value)]
    data: Json,
}

/// An outcome of a step of a machine.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Transition)]
pub(crate) struct TransitionBody {
    /// `next`, `retry`, `wait`, `fan_out`, `done`, `stop` or `cancel`.
    outcome: String,
    /// The step that it leads to; null at an end.
    to: Option<String>,
    /// Which attempt it was, from 0.
    attempt: i32,
    /// How many tries before it had ended with the death of the worker.
    crashes: i32,
    /// `signal`, `timeout` or `cancel`, where it is known.
    woken_by: Option<&'static str>,
    /// The names of the awaited signals that the step was handed, the first few.
    signals: Vec<String>,
    /// The names of the signals that it waits for, the first few.
    awaits: Vec<String>,
    /// How many children a fan-out asks for.
    children: Option<usize>,
    /// The state of the step when recording began, in the first event where states are recorded.
    #[schema(value_type = Option<serde_json::Value>)]
    began: Option<Json>,
    /// The state that it leads to, where states are recorded.
    #[schema(value_type = Option<serde_json::Value>)]
    state: Option<Json>,
    /// The bytes of that state, when it is too large to be recorded.
    left_out: Option<usize>,
    /// Whether the history is full: what came after it is not recorded.
    is_last: bool,
}

/// A call that has started a child, and what is known of the child.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ChildCall)]
pub(crate) struct CallBody {
    /// The number of the call in its run.
    call: i32,
    /// `activity` or `child`.
    kind: &'static str,
    machine: String,
    version: i32,
    /// What becomes of the child when the workflow ends.
    #[schema(value_type = PolicyWord)]
    policy: ClosePolicy,
    group: Option<PlaceBody>,
    /// When it was scheduled.
    at: Moment,
    /// The child, once it was seen, and the newest run of it that was.
    child: Option<String>,
    child_run: Option<i32>,
    /// How it ended, or stands; null when that is not recorded and it is not stored any more.
    #[schema(value_type = Option<StatusWord>)]
    status: Option<Status>,
    terminated: bool,
    ended_at: Option<Moment>,
    /// Why it ended badly.
    reason: Option<String>,
    /// Whether its end is part of the workflow's history; else it is how the child stands.
    recorded: bool,
}

/// A run whose history is stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunBody {
    /// Which run, from 1.
    run: i32,
    /// How many events it has.
    events: i32,
    started_at: Moment,
    last_at: Moment,
    /// What its last event says.
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
    /// As the timeline of a run tells it.
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
            reason: Some(applied.reason),
            expected: None,
            found: None,
            data: Json::of(&more).unwrap_or_else(|_| Json::null()),
        }
    }
}

/// What else there is to say of a policy that was applied.
#[derive(Serialize)]
struct AppliedData {
    /// The run and the call that had started the child.
    run: Option<i32>,
    call: Option<i32>,
    /// What the child was.
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
            transition: detail.transition.map(TransitionBody::from),
            child: detail.child.map(|id| id.to_string()),
            child_run: detail.child_run,
            deadline: detail.deadline.map(Moment),
            policy: detail.on_parent_close,
            group: detail.group.map(PlaceBody::from),
            reason: detail.reason,
            expected: detail.expected,
            found: detail.found,
            data: event.data,
        }
    }
}

impl From<Transition> for TransitionBody {
    fn from(it: Transition) -> TransitionBody {
        TransitionBody {
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
