//! Lists the children of a run, call by call, from the history of the workflow.

use super::waits::GroupPlace;
use crate::client::Admin;
use crate::workflow::replay::events::{CallKind, Ended, Scheduled, data_of};
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    Child, ClosePolicy, Event, EventKind, HistoryRequest, Instance, InstanceId, Result, Status,
    Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many pages of children are read to find the status of those without a recorded end.
const PAGES_MAX: usize = 5;

/// A call of a workflow that has started a child or an activity.
///
/// It is one entry, however many runs the child has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChildCall {
    /// The number of the call in its run.
    pub call: i32,
    /// `activity` or `child`.
    pub kind: &'static str,
    /// The machine of the child.
    pub machine: String,
    /// The version of that machine.
    pub version: i32,
    /// What happens to the child when the workflow ends.
    pub on_parent_close: ClosePolicy,
    /// The group it is in.
    pub group: Option<GroupPlace>,
    /// When it was scheduled.
    pub at: Timestamp,
    /// The child, once the workflow has seen it.
    pub child: Option<InstanceId>,
    /// Its newest run that the workflow has seen.
    pub run: Option<i32>,
    /// Its final or current status.
    ///
    /// `None` when the end is not recorded and the child is no longer stored.
    pub status: Option<Status>,
    /// Whether it was terminated.
    pub was_terminated: bool,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// Whether its end is in the workflow's history. Then the history is used, whatever happened
    /// to the child since.
    pub is_recorded: bool,
    /// The round that started it, and its position there.
    #[serde(skip)]
    place: (i32, i32),
}

impl Admin<'_> {
    /// Returns the children of a run, call by call: at most `max` after the call `after`.
    ///
    /// Recorded facts come from the history, even when the child is no longer stored. For the
    /// others the current status is read.
    pub async fn child_calls(
        self,
        instance: &Instance,
        run: i32,
        after: i32,
        max: usize,
    ) -> Result<Vec<ChildCall>> {
        let mut calls = BTreeMap::new();
        let mut request = HistoryRequest {
            id: instance.id,
            run,
            after: 0,
            max: HISTORY_PAGE_MAX,
        };
        loop {
            let events = self.history(request).await?;
            let new = events.iter().filter(|it| it.call > Some(after));
            new.for_each(|event| apply(&mut calls, event));
            match events.last() {
                Some(last) if events.more => request.after = last.seq,
                Some(_) | None => break,
            }
        }
        let mut calls: Vec<ChildCall> = calls.into_values().take(max).collect();
        self.read_status(instance, &mut calls).await?;
        Ok(calls)
    }

    /// Reads the status of children without a recorded end.
    async fn read_status(self, instance: &Instance, calls: &mut [ChildCall]) -> Result<()> {
        let open = calls.iter().filter(|it| !it.is_recorded);
        let rounds: BTreeSet<i32> = open.map(|it| it.place.0).collect();
        let mut seen: HashMap<(i32, i32), ChildStatus> = HashMap::new();
        let mut pages = 0;
        for round in rounds {
            let mut after = None;
            while pages < PAGES_MAX {
                let page = self
                    .client
                    .store
                    .children(instance.id, Some(round), after)
                    .await?;
                pages += 1;
                after = page.last().map(|child| child.id);
                let is_last = !page.more;
                seen.extend(page.rows.iter().map(ChildStatus::of));
                if is_last {
                    break;
                }
            }
        }
        for call in calls.iter_mut().filter(|it| !it.is_recorded) {
            if let Some(child) = seen.get(&call.place) {
                (call.child, call.run) = (Some(child.id), Some(child.run));
                (call.status, call.ended_at) = (Some(child.status), child.ended_at);
            }
        }
        Ok(())
    }
}

/// The status of a child. State and result are not kept: those of many children may be large.
struct ChildStatus {
    id: InstanceId,
    run: i32,
    status: Status,
    ended_at: Option<Timestamp>,
}

impl ChildStatus {
    fn of(child: &Child) -> ((i32, i32), ChildStatus) {
        let seen = ChildStatus {
            id: child.id,
            run: child.run,
            status: child.status,
            ended_at: child.finished_at,
        };
        ((child.round, child.position), seen)
    }
}

/// Applies an event to the calls.
fn apply(calls: &mut BTreeMap<i32, ChildCall>, event: &Event) {
    let Some(call) = event.call else {
        return;
    };
    let end = match event.kind {
        EventKind::ActivityScheduled | EventKind::ChildScheduled => {
            calls.extend(scheduled(call, event).map(|it| (call, it)));
            return;
        }
        EventKind::ChildStarted => None,
        EventKind::ActivityCompleted | EventKind::ChildCompleted => Some(Status::Done),
        EventKind::ActivityFailed | EventKind::ChildFailed => Some(Status::Failed),
        EventKind::ActivityCancelled | EventKind::ChildCancelled | EventKind::ChildTerminated => {
            Some(Status::Cancelled)
        }
        EventKind::RunStarted
        | EventKind::StepScheduled
        | EventKind::StepCompleted
        | EventKind::StepFailed
        | EventKind::ChildMessaged
        | EventKind::GroupAwaited
        | EventKind::GroupResolved
        | EventKind::SelectionAwaited
        | EventKind::SelectionResolved
        | EventKind::TimerScheduled
        | EventKind::TimerFired
        | EventKind::TimerCancelled
        | EventKind::SignalAwaited
        | EventKind::SignalConsumed
        | EventKind::UpdateAccepted
        | EventKind::UpdateCompleted
        | EventKind::VersionMarked
        | EventKind::CancelRequested
        | EventKind::FailureHandled
        | EventKind::ReplayBlocked
        | EventKind::ContinuedAsNew
        | EventKind::RunCompleted
        | EventKind::RunFailed
        | EventKind::RunCancelled
        | EventKind::TimedOut
        | EventKind::Transitioned => return,
    };
    let (Some(it), Ok(told)) = (calls.get_mut(&call), data_of::<Ended>(&event.data)) else {
        return;
    };
    if told.child.is_some() {
        (it.child, it.run) = (told.child, Some(told.run));
    }
    if end.is_some() {
        (it.status, it.ended_at) = (end, Some(event.at));
        it.was_terminated = event.kind == EventKind::ChildTerminated;
        (it.reason, it.is_recorded) = (told.error, true);
    }
}

fn scheduled(call: i32, event: &Event) -> Option<ChildCall> {
    let scheduled: Scheduled = data_of(&event.data).ok()?;
    Some(ChildCall {
        call,
        kind: CallKind::of(event.kind)?.as_str(),
        machine: scheduled.machine,
        version: scheduled.version,
        on_parent_close: scheduled.on_parent_close,
        group: scheduled.group.map(Into::into),
        at: event.at,
        child: None,
        run: None,
        status: None,
        was_terminated: false,
        ended_at: None,
        reason: None,
        is_recorded: false,
        place: (scheduled.round, scheduled.position),
    })
}
