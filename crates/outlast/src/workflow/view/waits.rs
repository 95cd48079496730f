//! Finds out what a workflow waits for, from its history and its children.
//!
//! `explain`, the HTTP API and the dashboard call it. It reads a bounded number of events and
//! children.

mod groups;

use crate::workflow::replay::events::{
    Ended, GroupPosition, Mismatch, Reason, Scheduled, WaitData, data_of,
};
pub use groups::{GroupWait, WindowWait};
use groups::{UnreadChildren, groups, members_of};

use crate::client::Admin;
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    BLOCKED, ClosePolicy, Event, EventKind, Filter, HistoryRequest, Instance, InstanceId, Json,
    ListRequest, Result, Status, Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many running children are read to identify them. Further children are only counted.
const CHILDREN_SEEN: usize = 200;

/// What a workflow waits for, and the failures it has handled.
///
/// It covers the last [`HISTORY_PAGE_MAX`](outlast_core::limits::HISTORY_PAGE_MAX) events of its
/// current run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// The open waits, in the order of the calls. Finished children are not included, even if the
    /// workflow has not seen their end. Calls of a waiting group that are already answered are not
    /// included either.
    pub open: Vec<OpenWait>,
    /// The groups and selections that the workflow waits for.
    pub groups: Vec<GroupWait>,
    /// Why it cannot continue, when its code does not fit its history.
    pub blocked: Option<Blocked>,
    /// The failures that its code has handled, in order.
    pub handled: Vec<Handled>,
    /// Whether the whole history and all children were read. Otherwise there may be more.
    pub is_whole: bool,
}

/// A mismatch between the code of a workflow and its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// What the history has.
    pub expected: String,
    /// What the code has in its place.
    pub found: String,
    /// When it was first detected.
    pub since: Timestamp,
}

/// A failure that the code of a workflow has handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Handled {
    /// The sequence number of its event.
    pub seq: i32,
    /// When it was handled.
    pub at: Timestamp,
    /// The call that failed.
    pub call: Option<i32>,
    /// The name of that call.
    pub name: String,
    /// Why it failed.
    pub reason: String,
}

impl Admin<'_> {
    /// Returns what a workflow waits for, what blocks it, and the failures it has handled.
    ///
    /// A finished workflow waits for nothing. For a machine the result is empty.
    pub async fn waits(self, instance: &Instance) -> Result<Waits> {
        if !instance.is_workflow() {
            return Ok(Waits {
                is_whole: true,
                ..Waits::default()
            });
        }
        let looked_at = i32::try_from(HISTORY_PAGE_MAX).unwrap_or(i32::MAX);
        let request = HistoryRequest {
            id: instance.id,
            run: instance.run,
            after: (instance.events - looked_at).max(0),
            max: HISTORY_PAGE_MAX,
        };
        let events = self.told(request).await?;
        let mut waits = Waits {
            handled: handled(&events),
            is_whole: request.after == 0,
            ..Waits::default()
        };
        if instance.status.is_terminal() {
            return Ok(waits);
        }
        waits.open = open_waits(&events);
        waits.open.retain(|it| !has_come(it, instance));
        waits.blocked = blocked(instance, &events);
        let uncounted = self.see_children(instance, &mut waits).await?;
        waits.groups = groups(&waits.open, &uncounted);
        Ok(waits)
    }

    /// Returns events of a run without their results, which are not needed and may be large.
    async fn told(self, mut request: HistoryRequest) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let page = self.history(request).await?;
            events.extend(page.rows.into_iter().map(without_result));
            match events.last() {
                Some(last) if page.more && events.len() < HISTORY_PAGE_MAX => {
                    request.after = last.seq;
                    request.max = HISTORY_PAGE_MAX - events.len();
                }
                Some(_) | None => return Ok(events),
            }
        }
    }

    /// Identifies the awaited children and removes the finished ones.
    ///
    /// If there are more children than are read, it returns how many have finished.
    async fn see_children(self, instance: &Instance, waits: &mut Waits) -> Result<UnreadChildren> {
        let mut uncounted = UnreadChildren::default();
        if waits.open.iter().all(|it| it.started.is_none()) {
            return Ok(uncounted);
        }
        let live = Status::ALL.into_iter().filter(|it| !it.is_terminal());
        let request = ListRequest {
            filter: Filter {
                parent: Some(instance.id),
                statuses: live.collect(),
                ..Filter::default()
            },
            before: None,
            limit: CHILDREN_SEEN,
            values: false,
        };
        let page = self.client.store.list(request).await?;
        let seen = page.instances.iter().filter_map(|child| {
            let place = (child.parent?.round, child.position?);
            Some((place, child))
        });
        let seen: HashMap<(i32, i32), &Instance> = seen.collect();
        for it in &mut waits.open {
            if let Some(child) = it.started.and_then(|place| seen.get(&place)) {
                (it.child, it.child_run) = (Some(child.id), Some(child.run));
                (it.child_status, it.is_held) = (Some(child.status), child.held);
            }
        }
        if page.next.is_none() {
            waits
                .open
                .retain(|it| it.started.is_none() || it.child_status.is_some());
            return Ok(uncounted);
        }
        waits.is_whole = false;
        let window = instance.barrier.as_ref().and_then(|it| it.window);
        uncounted.window = window.map(|places| (instance.round, places as usize));
        for round in self.client.store.rounds(instance.id).await? {
            let ended = round.children.iter().filter(|(it, _)| it.is_terminal());
            let ended: u64 = ended.map(|(_, children)| children).sum();
            let ended = usize::try_from(ended).unwrap_or(usize::MAX);
            uncounted.ended.insert(round.round, ended);
        }
        Ok(uncounted)
    }
}

/// Returns whether a wait is answered although the workflow has not seen it.
///
/// A workflow that needs all of a group sleeps until the last answer has arrived.
fn has_come(wait: &OpenWait, instance: &Instance) -> bool {
    let awaits = instance.awaits.as_deref().unwrap_or_default();
    let is_missing = match wait.kind {
        "signal" => awaits.contains(&wait.name),
        "timer" => instance.await_deadline.is_some(),
        _ => true,
    };
    instance.needs_all && wait.is_awaited && !is_missing
}

fn without_result(mut event: Event) -> Event {
    let has_result = matches!(
        event.kind,
        EventKind::StepCompleted
            | EventKind::StepFailed
            | EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::SignalConsumed
            | EventKind::RunCompleted
            | EventKind::ContinuedAsNew
            | EventKind::Transitioned
    );
    if has_result {
        event.data = Json::null();
    }
    event
}

/// Returns the mismatch of the last event, if that is what blocks the instance.
fn blocked(instance: &Instance, events: &[Event]) -> Option<Blocked> {
    let error = instance.last_error.as_deref()?;
    let last = events.last().filter(|_| error.starts_with(BLOCKED))?;
    if last.kind != EventKind::ReplayBlocked {
        return None;
    }
    let mismatch: Mismatch = data_of(&last.data).ok()?;
    Some(Blocked {
        expected: mismatch.expected,
        found: mismatch.found,
        since: last.at,
    })
}

fn handled(events: &[Event]) -> Vec<Handled> {
    let caught = events
        .iter()
        .filter(|event| event.kind == EventKind::FailureHandled);
    let handled = caught.map(|event| Handled {
        seq: event.seq,
        at: event.at,
        call: event.call,
        name: event.name.clone(),
        reason: data_of::<Reason>(&event.data).map_or_else(|_| String::new(), |it| it.reason),
    });
    handled.collect()
}

/// Something that a workflow still waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenWait {
    /// `step`, `activity`, `child`, `timer` or `signal`.
    pub kind: &'static str,
    /// The call.
    pub call: i32,
    /// Its name: of a step, a job, a workflow, a machine or a signal.
    pub name: String,
    /// When the wait began.
    pub since: Timestamp,
    /// When a timer is due.
    pub deadline: Option<Timestamp>,
    /// For a child: the round that started it, and its position there.
    pub started: Option<(i32, i32)>,
    /// The child, once the workflow has seen it.
    pub child: Option<InstanceId>,
    /// The newest run of the child that the workflow has seen.
    pub child_run: Option<i32>,
    /// The status of the child, if it was read.
    pub child_status: Option<Status>,
    /// Whether the child waits for a place in the window of its group.
    ///
    /// `None` without a window, or if the child was not read.
    pub is_held: Option<bool>,
    /// What happens to the child when the workflow ends.
    pub on_parent_close: Option<ClosePolicy>,
    /// The group it is in.
    pub group: Option<GroupPlace>,
    /// Whether the workflow still waits for it. The other calls of a failed group continue without
    /// that.
    pub is_awaited: bool,
}

/// The position of a call in its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupPlace {
    /// The calls of the groups, from the outermost to the innermost.
    pub path: Vec<i32>,
    /// How many calls the outermost group has.
    pub size: usize,
    /// The index of this call among them, from 0.
    pub index: usize,
    /// Whether the outermost group is a selection, where the first member wins.
    pub is_selection: bool,
    /// The kind of calls in the outermost group.
    ///
    /// One of `children`, `activities`, `steps`, `timers`, `signals` and `mixed`. It is `None` for
    /// a single event: only the whole group shows it.
    pub members: Option<&'static str>,
}

impl From<GroupPosition> for GroupPlace {
    fn from(place: GroupPosition) -> GroupPlace {
        GroupPlace {
            path: place.path,
            size: place.size,
            index: place.index,
            is_selection: place.select,
            members: None,
        }
    }
}

/// Returns the open waits of a run from its events, in the order of the calls.
///
/// Events with unreadable data count by their kind.
pub fn open_waits(events: &[Event]) -> Vec<OpenWait> {
    let mut open: BTreeMap<i32, OpenWait> = BTreeMap::new();
    let mut resolved: HashSet<i32> = HashSet::new();
    for event in events {
        let Some(call) = event.call else {
            let is_over = matches!(
                event.kind,
                EventKind::ContinuedAsNew
                    | EventKind::RunCompleted
                    | EventKind::RunFailed
                    | EventKind::RunCancelled
                    | EventKind::TimedOut
            );
            if is_over {
                open.clear();
            }
            continue;
        };
        match event.kind {
            EventKind::ActivityScheduled => {
                open.insert(call, child_wait("activity", call, event));
            }
            EventKind::ChildScheduled => {
                open.insert(call, child_wait("child", call, event));
            }
            EventKind::StepScheduled => {
                open.insert(call, wait("step", call, event));
            }
            EventKind::TimerScheduled => {
                open.insert(call, wait("timer", call, event));
            }
            EventKind::SignalAwaited => {
                open.insert(call, wait("signal", call, event));
            }
            EventKind::ChildStarted => {
                if let (Some(it), Ok(seen)) = (open.get_mut(&call), data_of::<Ended>(&event.data)) {
                    it.child = seen.child;
                    it.child_run = Some(seen.run);
                }
            }
            EventKind::GroupResolved | EventKind::SelectionResolved => {
                resolved.insert(call);
            }
            EventKind::StepCompleted
            | EventKind::StepFailed
            | EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated
            | EventKind::TimerFired
            | EventKind::TimerCancelled
            | EventKind::SignalConsumed => {
                open.remove(&call);
            }
            EventKind::RunStarted
            | EventKind::GroupAwaited
            | EventKind::SelectionAwaited
            | EventKind::ChildMessaged
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
            | EventKind::Transitioned => {}
        }
    }
    let mut open: Vec<OpenWait> = open.into_values().collect();
    let members = members_of(events);
    for it in &mut open {
        let Some(place) = &mut it.group else {
            continue;
        };
        let Some(outermost) = place.path.first() else {
            continue;
        };
        it.is_awaited = !resolved.contains(outermost);
        place.members = members.get(outermost).copied();
    }
    // Signals, timers and steps that the workflow no longer waits for are not shown.
    open.retain(|it| it.is_awaited || matches!(it.kind, "activity" | "child"));
    open
}

fn wait(kind: &'static str, call: i32, event: &Event) -> OpenWait {
    let waiting: WaitData = data_of(&event.data).unwrap_or_default();
    OpenWait {
        kind,
        call,
        name: event.name.clone(),
        since: event.at,
        deadline: waiting
            .after_us
            .map(|us| Timestamp(event.at.0.saturating_add(us))),
        started: None,
        child: None,
        child_run: None,
        child_status: None,
        is_held: None,
        on_parent_close: None,
        group: waiting.group.map(Into::into),
        is_awaited: true,
    }
}

fn child_wait(kind: &'static str, call: i32, event: &Event) -> OpenWait {
    let scheduled: Option<Scheduled> = data_of(&event.data).ok();
    let started = scheduled.as_ref().map(|it| (it.round, it.position));
    let policy = scheduled.as_ref().map(|it| it.on_parent_close);
    OpenWait {
        kind,
        call,
        name: event.name.clone(),
        since: event.at,
        deadline: None,
        started,
        child: None,
        child_run: None,
        child_status: None,
        is_held: None,
        on_parent_close: policy,
        group: scheduled.and_then(|it| it.group).map(Into::into),
        is_awaited: true,
    }
}
