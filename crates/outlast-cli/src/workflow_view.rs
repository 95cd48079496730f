//! Texts for the waits of a workflow and for the events of histories, also those of machines.

use crate::format::{relative, time_of_day};
use outlast::machine::{Transition, WokenBy};
use outlast::store::{ClosePolicy, Timestamp};
use outlast::workflow::{
    ChildCall, EventDetail, GroupPlace, GroupWait, OpenWait, Origin, PolicyApplied, TimelineEntry,
};

/// Formats `44, awaiting_signal`; for a workflow `45 run 2, executing`.
pub(crate) fn target(wait: &OpenWait) -> String {
    let Some(child) = wait.child else {
        return String::new();
    };
    let run = match wait.child_run {
        Some(run) if run > 1 => format!(" run {run}"),
        Some(_) | None => String::new(),
    };
    let status = match (wait.is_held, wait.child_status) {
        (Some(true), _) => ", held".to_owned(),
        (Some(false) | None, Some(status)) => format!(", {status}"),
        (Some(false) | None, None) => String::new(),
    };
    format!("{child}{run}{status}")
}

/// Formats `44`, or `44 run 2` after a continue-as-new; empty for a child that is not known yet.
pub(crate) fn child(call: &ChildCall) -> String {
    match (call.child, call.run) {
        (Some(child), Some(run)) if run > 1 => format!("{child} run {run}"),
        (Some(child), Some(_) | None) => child.to_string(),
        (None, _) => String::new(),
    }
}

/// Formats the status of a child.
pub(crate) fn child_status(call: &ChildCall) -> &'static str {
    match (call.was_terminated, call.status) {
        (true, _) => "terminated",
        (false, Some(status)) => status.as_str(),
        (false, None) => "no longer stored",
    }
}

/// Formats the child's position in a group and the reason of its failure.
pub(crate) fn fate(call: &ChildCall) -> String {
    let parts = [call.group.as_ref().map(place), call.reason.clone()];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// Formats `4 run, 8 held`; empty without a window.
pub(crate) fn window(group: &GroupWait) -> String {
    let counts =
        |it: &outlast::workflow::WindowWait| format!("{} run, {} held", it.running, it.held);
    group.window.as_ref().map(counts).unwrap_or_default()
}

/// Returns `all` or `select`.
pub(crate) fn kind(is_selection: bool) -> &'static str {
    match is_selection {
        true => "select",
        false => "all",
    }
}

/// Formats `call 3 of run 1`, with the position in a group.
pub(crate) fn origin(origin: &Origin) -> String {
    let Origin { run, call, .. } = origin;
    let group = origin.group.as_ref();
    let group = group.map(|it| format!(", {}", place(it)));
    format!("call {call} of run {run}{}", group.unwrap_or_default())
}

/// Formats `all 4: 2 of 50`; with nested groups `all 4 > 6: 2 of 50`.
pub(crate) fn place(place: &GroupPlace) -> String {
    let kind = kind(place.is_selection);
    let path: Vec<_> = place.path.iter().map(i32::to_string).collect();
    let (path, member) = (path.join(" > "), place.index + 1);
    format!("{kind} {path}: {member} of {}", place.size)
}

/// Formats the details of a timeline entry, without its kind.
pub(crate) fn describe(entry: &TimelineEntry, run: i32, now: Timestamp) -> String {
    match entry {
        TimelineEntry::Event(event) => detail_text(&EventDetail::of(event), now),
        TimelineEntry::PolicyApplied(policy) => applied(policy, run),
    }
}

/// Formats the effect on a child when its workflow finished.
fn applied(policy: &PolicyApplied, run: i32) -> String {
    let PolicyApplied { child, reason, .. } = policy;
    let action = match policy.policy {
        ClosePolicy::RequestCancel => "asked to cancel",
        ClosePolicy::Terminate => "terminated",
        ClosePolicy::Abandon => "left running",
    };
    let before = policy.status_before.map(|it| format!(" when {it}"));
    let earlier = policy.origin.as_ref().filter(|it| it.run != run);
    let earlier = earlier.map(|it| format!("; started by {}", origin(it)));
    let (before, earlier) = (before.unwrap_or_default(), earlier.unwrap_or_default());
    format!("instance {child} {action}{before}; {reason}{earlier}")
}

/// Formats the details of an event, without its kind.
fn detail_text(detail: &EventDetail, now: Timestamp) -> String {
    let EventDetail {
        child,
        child_run,
        started: _,
        on_parent_close,
        deadline,
        group,
        reason,
        failed,
        winner,
        version,
        expected,
        found,
        update,
        reply,
        transition,
    } = detail;
    if let Some(transition) = transition {
        return passage(transition, *deadline, now);
    }
    let run = child_run.filter(|run| *run > 1);
    let run = run.map(|run| format!(" run {run}")).unwrap_or_default();
    let parts = [
        child.map(|id| format!("instance {id}{run}")),
        deadline.map(|at| format!("until {} UTC ({})", time_of_day(at), relative(at, now))),
        group.as_ref().map(place),
        on_parent_close
            .filter(|policy| *policy != ClosePolicy::Abandon)
            .map(|policy| format!("{policy} when its parent finishes")),
        update.as_ref().map(|id| format!("update {id}")),
        reply.map(|kind| kind.as_str().to_owned()),
        reason.clone(),
        failed.map(|call| format!("call {call} failed")),
        winner.map(|member| format!("member {} was first", member + 1)),
        version.map(|version| format!("version {version}")),
        expected.as_ref().map(|it| format!("the history has {it}")),
        found.as_ref().map(|it| format!("the code has {it}")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// Formats `1 transition`.
pub(crate) fn transitions(count: i32) -> String {
    match count {
        1 => "1 transition".to_owned(),
        several => format!("{several} transitions"),
    }
}

/// Formats the details of a transition, without its outcome and next step.
fn passage(it: &Transition, deadline: Option<Timestamp>, now: Timestamp) -> String {
    let at = |at: Timestamp| format!("{} UTC ({})", time_of_day(at), relative(at, now));
    let is_retry = it.outcome == "retry";
    let parts = [
        (it.attempt > 0).then(|| format!("attempt {}", it.attempt + 1)),
        (it.crashes > 0).then(|| format!("{} worker crashes", it.crashes)),
        it.woken_by.map(|by| match by {
            WokenBy::Signal => format!("woken by {}", it.signals.join(", ")),
            WokenBy::Timeout => "woken by its timeout".to_owned(),
            WokenBy::Cancel => "cancel requested".to_owned(),
        }),
        it.error.clone(),
        it.children.map(|children| format!("{children} children")),
        (!it.awaits.is_empty()).then(|| format!("waits for {}", it.awaits.join(", "))),
        deadline.map(|due| match is_retry {
            true => format!("retry at {}", at(due)),
            false => format!("until {}", at(due)),
        }),
        it.began
            .as_ref()
            .map(|it| format!("started with {}", it.as_str())),
        it.state.as_ref().map(|it| format!("state {}", it.as_str())),
        it.left_out
            .map(|bytes| format!("state of {bytes} bytes not recorded")),
        it.is_last
            .then(|| "the history is full; later transitions are not recorded".to_owned()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast::{InstanceId, Status};

    const NOW: Timestamp = Timestamp(1_767_279_600_000_000);

    fn wait() -> OpenWait {
        OpenWait {
            kind: "child",
            call: 3,
            name: "label".into(),
            since: NOW,
            deadline: None,
            started: Some((1, 0)),
            child: None,
            child_run: None,
            child_status: None,
            is_held: None,
            on_parent_close: Some(ClosePolicy::Abandon),
            group: None,
            is_awaited: true,
        }
    }

    #[test]
    fn the_target_of_a_wait_shows_the_known_fields_of_the_child() {
        assert_eq!(target(&wait()), "");
        let seen = OpenWait {
            child: Some(InstanceId(44)),
            child_run: Some(1),
            child_status: Some(Status::Executing),
            ..wait()
        };
        assert_eq!(target(&seen), "44, executing");
        let renewed = OpenWait {
            child_run: Some(2),
            child_status: None,
            ..seen
        };
        assert_eq!(target(&renewed), "44 run 2");
        let held = OpenWait {
            is_held: Some(true),
            child_run: Some(1),
            child_status: Some(Status::Runnable),
            ..renewed
        };
        assert_eq!(target(&held), "44, held");
    }

    #[test]
    fn an_event_line_shows_the_details_of_the_event() {
        let group = GroupPlace {
            path: vec![4, 6],
            size: 50,
            index: 1,
            is_selection: false,
            members: None,
        };
        let scheduled = EventDetail {
            on_parent_close: Some(ClosePolicy::Terminate),
            group: Some(group),
            ..EventDetail::default()
        };
        assert_eq!(
            detail_text(&scheduled, NOW),
            "all 4 > 6: 2 of 50; terminate when its parent finishes"
        );
        let failed = EventDetail {
            child: Some(InstanceId(44)),
            child_run: Some(1),
            reason: Some("out of stock".into()),
            ..EventDetail::default()
        };
        assert_eq!(detail_text(&failed, NOW), "instance 44; out of stock");
        let timer = EventDetail {
            deadline: Some(Timestamp(NOW.0 + 40_000_000)),
            ..EventDetail::default()
        };
        assert_eq!(detail_text(&timer, NOW), "until 15:00:40 UTC (in 40 s)");
        assert_eq!(detail_text(&EventDetail::default(), NOW), "");
        let wait = Transition {
            outcome: "wait".into(),
            to: Some("ship".into()),
            attempt: 1,
            woken_by: Some(WokenBy::Timeout),
            awaits: vec!["paid".into(), "refused".into()],
            left_out: Some(300_000),
            ..Transition::default()
        };
        let waits = EventDetail {
            transition: Some(wait),
            ..timer
        };
        assert_eq!(
            detail_text(&waits, NOW),
            "attempt 2; woken by its timeout; waits for paid, refused; until 15:00:40 UTC (in 40 s); \
             state of 300000 bytes not recorded"
        );
    }

    #[test]
    fn an_applied_policy_names_the_child_and_the_end_of_the_parent() {
        let origin = Origin {
            run: 1,
            call: 3,
            kind: "child",
            name: "label".into(),
            seq: 5,
            at: NOW,
            group: None,
        };
        let applied = TimelineEntry::PolicyApplied(PolicyApplied {
            seq: 9,
            at: NOW,
            child: InstanceId(44),
            policy: ClosePolicy::RequestCancel,
            status_before: Some(Status::AwaitingSignal),
            origin: Some(origin),
            reason: "parent 43 ended as done".into(),
        });
        let expected = "instance 44 asked to cancel when awaiting_signal; parent 43 ended as done";
        assert_eq!(describe(&applied, 1, NOW), expected);
        assert_eq!(
            describe(&applied, 2, NOW),
            format!("{expected}; started by call 3 of run 1")
        );
    }
}
