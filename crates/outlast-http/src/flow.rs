//! Workflows: what they wait for. And what histories say, also those of machines.

use crate::barrier::PolicyWord;
use crate::limits::WAITS_SHOWN;
use crate::shape::StatusWord;
use crate::time::Moment;
use outlast::machine::Transition;
use outlast::workflow::{Blocked, EventDetail, GroupPlace, GroupWait, OpenWait, Waits};
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

/// An event of a history.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventBody {
    /// Its place in the history of its run, from 1.
    pub(crate) seq: i32,
    at: Moment,
    /// What it says: `activity_scheduled`, `signal_consumed`, `run_completed` …; of a machine `transitioned`.
    #[schema(value_type = String)]
    kind: EventKind,
    /// The call it belongs to.
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
    /// What becomes of the child when the workflow ends.
    #[schema(value_type = Option<PolicyWord>)]
    policy: Option<ClosePolicy>,
    group: Option<PlaceBody>,
    /// Why something failed, was cancelled or was handled; what a child was told.
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

impl From<Event> for EventBody {
    fn from(event: Event) -> EventBody {
        let detail = EventDetail::of(&event);
        EventBody {
            seq: event.seq,
            at: Moment(event.at),
            kind: event.kind,
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
