//! The readable facts of an event, whatever its kind.
//!
//! The timeline of the CLI, the HTTP API and the dashboard show them. Reading never fails: an
//! unknown fact is `None`.

use super::waits::GroupPlace;
use crate::machine::Transition;
use crate::workflow::replay::events::{
    Accepted, ChildMessage, Consumed, Ended, Failed, Marked, Mismatch, Reason, Resolved, Scheduled,
    UpdateReply, WaitData,
};
use crate::workflow::replay::events::{GroupPosition, data_of};
use outlast_core::{ClosePolicy, Event, EventKind, InstanceId, ReplyKind, Timestamp};

/// The readable facts of an event. A fact that is missing or unreadable is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDetail {
    /// The child.
    pub child: Option<InstanceId>,
    /// The run of that child.
    pub child_run: Option<i32>,
    /// The round that starts the child, and its position there.
    pub started: Option<(i32, i32)>,
    /// What happens to the child when the workflow ends.
    pub on_parent_close: Option<ClosePolicy>,
    /// When a timer is due. For a transition: how long it waits at most, or when it is retried.
    pub deadline: Option<Timestamp>,
    /// The group that the call is in.
    pub group: Option<GroupPlace>,
    /// Why a call failed, was cancelled or was handled; or the message to a child.
    pub reason: Option<String>,
    /// The call with which a group failed.
    pub failed: Option<i32>,
    /// The member that was first, from 0.
    pub winner: Option<usize>,
    /// The version that was marked.
    pub version: Option<i32>,
    /// What the history has and the code does not.
    pub expected: Option<String>,
    /// What the code has instead.
    pub found: Option<String>,
    /// The id of an update that was taken or answered.
    pub update: Option<String>,
    /// How an update was answered. A reply that is no value has its text in `reason`.
    pub reply: Option<ReplyKind>,
    /// The outcome of a machine's step.
    pub transition: Option<Transition>,
}

impl EventDetail {
    /// Reads the data of an event.
    pub fn of(event: &Event) -> EventDetail {
        let data = &event.data;
        let group = |place: Option<GroupPosition>| place.map(GroupPlace::from);
        let none = EventDetail::default();
        match event.kind {
            EventKind::ActivityScheduled | EventKind::ChildScheduled => data_of::<Scheduled>(data)
                .map_or(none, |it| EventDetail {
                    started: Some((it.round, it.position)),
                    on_parent_close: Some(it.on_parent_close),
                    group: group(it.group),
                    ..EventDetail::default()
                }),
            EventKind::TimerScheduled | EventKind::StepScheduled | EventKind::SignalAwaited => {
                data_of::<WaitData>(data).map_or(none, |it| EventDetail {
                    deadline: it
                        .after_us
                        .map(|us| Timestamp(event.at.0.saturating_add(us))),
                    group: group(it.group),
                    ..EventDetail::default()
                })
            }
            EventKind::ChildStarted
            | EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated => data_of::<Ended>(data).map_or(none, |it| EventDetail {
                child: it.child,
                child_run: it.child.map(|_| it.run),
                reason: it.error,
                ..EventDetail::default()
            }),
            EventKind::StepFailed => data_of::<Failed>(data).map_or(none, |it| EventDetail {
                reason: Some(it.error),
                ..EventDetail::default()
            }),
            EventKind::ChildMessaged => {
                data_of::<ChildMessage>(data).map_or(none, |it| EventDetail {
                    child: it.child,
                    reason: Some(it.answer),
                    ..EventDetail::default()
                })
            }
            EventKind::UpdateAccepted => data_of::<Accepted>(data).map_or(none, |it| EventDetail {
                update: it.update,
                ..EventDetail::default()
            }),
            EventKind::SignalConsumed => data_of::<Consumed>(data).map_or(none, |it| EventDetail {
                update: it.update,
                ..EventDetail::default()
            }),
            EventKind::UpdateCompleted => {
                data_of::<UpdateReply>(data).map_or(none, |it| EventDetail {
                    update: it.update,
                    reply: Some(it.kind),
                    reason: match it.kind {
                        ReplyKind::Done => None,
                        ReplyKind::Failed | ReplyKind::Rejected => it.reply.decode().ok(),
                    },
                    ..EventDetail::default()
                })
            }
            EventKind::GroupResolved | EventKind::SelectionResolved => data_of::<Resolved>(data)
                .map_or(none, |it| EventDetail {
                    failed: it.failed,
                    winner: it.winner,
                    ..EventDetail::default()
                }),
            EventKind::VersionMarked => data_of::<Marked>(data).map_or(none, |it| EventDetail {
                version: Some(it.version),
                ..EventDetail::default()
            }),
            EventKind::CancelRequested
            | EventKind::FailureHandled
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::TimedOut => data_of::<Reason>(data).map_or(none, |it| EventDetail {
                reason: Some(it.reason),
                ..EventDetail::default()
            }),
            EventKind::ReplayBlocked => data_of::<Mismatch>(data).map_or(none, |it| EventDetail {
                expected: Some(it.expected),
                found: Some(it.found),
                ..EventDetail::default()
            }),
            EventKind::Transitioned => data_of::<Transition>(data).map_or(none, |it| EventDetail {
                deadline: it
                    .after_us
                    .map(|us| Timestamp(event.at.0.saturating_add(us))),
                reason: it.error.clone(),
                transition: Some(it),
                ..EventDetail::default()
            }),
            EventKind::RunStarted
            | EventKind::GroupAwaited
            | EventKind::SelectionAwaited
            | EventKind::StepCompleted
            | EventKind::TimerFired
            | EventKind::TimerCancelled
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted => none,
        }
    }
}
