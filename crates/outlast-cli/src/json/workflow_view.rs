//! Workflows as JSON.

use super::raw;
use crate::format::rfc3339;
use crate::workflow_view::kind;
use outlast::machine::Transition;
use outlast::store::{Event, Json, RunSummary, View};
use outlast::workflow::{
    ChildCall, EventDetail, GroupPlace, OpenWait, Origin, PolicyApplied, TimelineEntry, Waits,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What a workflow waits for.
pub(crate) fn waits(waits: &Waits) -> Value {
    let blocked = waits.blocked.as_ref();
    json!({
        "waits": waits.open.iter().map(wait).collect::<Vec<_>>(),
        "open": waits.open.len(),
        "groups": waits.groups.iter().map(|group| json!({
            "kind": kind(group.is_selection),
            "call": group.call,
            "size": group.size,
            "open": group.open,
            "members": group.members,
            "deadline": group.deadline.map(rfc3339),
            "window": group.window.map(|it| json!({"running": it.running, "held": it.held})),
        })).collect::<Vec<_>>(),
        "complete": waits.is_whole,
        "blocked": blocked.map(|it| json!({
            "expected": it.expected,
            "found": it.found,
            "since": rfc3339(it.since),
        })),
        "handled": waits.handled.iter().map(|it| json!({
            "seq": it.seq,
            "at": rfc3339(it.at),
            "call": it.call,
            "name": it.name,
            "reason": it.reason,
        })).collect::<Vec<_>>(),
        "handled_count": waits.handled.len(),
    })
}

/// The workflow call that started an instance.
pub(crate) fn origin(it: &Origin) -> Value {
    json!({
        "run": it.run,
        "call": it.call,
        "kind": it.kind,
        "name": it.name,
        "seq": it.seq,
        "at": rfc3339(it.at),
        "group": it.group.as_ref().map(place),
    })
}

/// A call that started a child.
pub(crate) fn call(it: &ChildCall) -> Value {
    json!({
        "call": it.call,
        "kind": it.kind,
        "machine": it.machine,
        "version": it.version,
        "policy": it.on_parent_close.as_str(),
        "group": it.group.as_ref().map(place),
        "at": rfc3339(it.at),
        "child": it.child.map(|id| id.to_string()),
        "child_run": it.run,
        "status": it.status.map(|status| status.as_str()),
        "terminated": it.was_terminated,
        "ended_at": it.ended_at.map(rfc3339),
        "reason": it.reason,
        "recorded": it.is_recorded,
    })
}

fn wait(wait: &OpenWait) -> Value {
    json!({
        "kind": wait.kind,
        "call": wait.call,
        "name": wait.name,
        "target": wait.child.map(|id| json!({
            "id": id.to_string(),
            "run": wait.child_run,
            "status": wait.child_status.map(|status| status.as_str()),
        })),
        "since": rfc3339(wait.since),
        "deadline": wait.deadline.map(rfc3339),
        "held": wait.is_held,
        "policy": wait.on_parent_close.map(|policy| policy.as_str()),
        "group": wait.group.as_ref().map(place),
        "awaited": wait.is_awaited,
    })
}

fn place(place: &GroupPlace) -> Value {
    json!({
        "kind": kind(place.is_selection),
        "path": place.path,
        "size": place.size,
        "index": place.index,
        "members": place.members,
    })
}

pub(crate) fn run(run: &RunSummary) -> Value {
    json!({
        "run": run.run,
        "events": run.events,
        "started_at": rfc3339(run.started_at),
        "last_at": rfc3339(run.last_at),
        "last": run.last.as_str(),
    })
}

/// A value that a workflow has published.
#[derive(Serialize)]
pub(crate) struct ViewObject {
    name: String,
    revision: i64,
    at: String,
    data: Option<Box<RawValue>>,
}

impl ViewObject {
    pub(crate) fn of(view: &View) -> ViewObject {
        ViewObject {
            name: view.name.clone(),
            revision: view.revision.0,
            at: rfc3339(view.at),
            data: raw(&view.data),
        }
    }
}

/// An event of a history.
#[derive(Serialize)]
pub(crate) struct EventObject {
    seq: i32,
    at: String,
    kind: &'static str,
    call: Option<i32>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    transition: Option<Transition>,
    child: Option<String>,
    child_run: Option<i32>,
    deadline: Option<String>,
    policy: Option<&'static str>,
    group: Option<Value>,
    /// The id of an update that was taken or answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<String>,
    /// How an update was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<&'static str>,
    reason: Option<String>,
    expected: Option<String>,
    found: Option<String>,
    data: Option<Box<RawValue>>,
}

impl EventObject {
    pub(crate) fn of(entry: &TimelineEntry, run: i32) -> EventObject {
        match entry {
            TimelineEntry::Event(event) => EventObject::event(event),
            TimelineEntry::PolicyApplied(policy) => EventObject::applied(policy, run),
        }
    }

    fn applied(applied: &PolicyApplied, run: i32) -> EventObject {
        let origin = applied.origin.as_ref();
        let more = json!({
            "run": origin.map(|it| it.run),
            "call": origin.map(|it| it.call),
            "status_before": applied.status_before.map(|it| it.as_str()),
        });
        EventObject {
            seq: applied.seq,
            at: rfc3339(applied.at),
            kind: TimelineEntry::POLICY_APPLIED,
            call: applied.call_in(run),
            name: origin.map(|it| it.name.clone()).unwrap_or_default(),
            transition: None,
            child: Some(applied.child.to_string()),
            child_run: None,
            deadline: None,
            policy: Some(applied.policy.as_str()),
            group: None,
            update: None,
            reply: None,
            reason: Some(applied.reason.clone()),
            expected: None,
            found: None,
            data: Json::of(&more).ok().and_then(|data| raw(&data)),
        }
    }

    fn event(event: &Event) -> EventObject {
        let detail = EventDetail::of(event);
        EventObject {
            seq: event.seq,
            at: rfc3339(event.at),
            kind: event.kind.as_str(),
            call: event.call,
            name: event.name.clone(),
            transition: detail.transition,
            child: detail.child.map(|id| id.to_string()),
            child_run: detail.child_run,
            deadline: detail.deadline.map(rfc3339),
            policy: detail.on_parent_close.map(|policy| policy.as_str()),
            group: detail.group.as_ref().map(place),
            update: detail.update,
            reply: detail.reply.map(|kind| kind.as_str()),
            reason: detail.reason,
            expected: detail.expected,
            found: detail.found,
            data: raw(&event.data),
        }
    }
}
