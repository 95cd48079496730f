//! Workflows as JSON.

use super::raw;
use crate::words::rfc3339;
use outlast::machine::Transition;
use outlast::workflow::{EventDetail, GroupPlace, OpenWait, Waits};
use outlast::{Event, RunSummary};
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
        })).collect::<Vec<_>>(),
        "complete": waits.is_whole,
        "blocked": blocked.map(|it| json!({
            "expected": it.expected,
            "found": it.found,
            "since": rfc3339(it.since),
        })),
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
    })
}

fn kind(is_selection: bool) -> &'static str {
    match is_selection {
        true => "select",
        false => "all",
    }
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
    reason: Option<String>,
    expected: Option<String>,
    found: Option<String>,
    data: Option<Box<RawValue>>,
}

impl EventObject {
    pub(crate) fn of(event: &Event) -> EventObject {
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
            reason: detail.reason,
            expected: detail.expected,
            found: detail.found,
            data: raw(&event.data),
        }
    }
}
