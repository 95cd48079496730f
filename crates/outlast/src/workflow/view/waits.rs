//! What a workflow waits for, read from its history: for people to look at.

mod groups;

use crate::workflow::replay::events::{
    Ended, Mismatch, Place, Reason, Scheduled, Waiting, data_of,
};
pub use groups::{GroupWait, WindowWait};
use groups::{Uncounted, groups, members_of};

use crate::client::Client;
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    BLOCKED, ClosePolicy, Event, EventKind, Filter, HistoryRequest, Instance, InstanceId, Json,
    ListRequest, Result, Status, Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many children that live are looked at, to tell who they are. Of more it is only counted how many there are.
const CHILDREN_SEEN: usize = 200;

/// What a workflow waits for and what it has survived, as far as its history was looked at: the last
/// [`HISTORY_PAGE_MAX`](outlast_core::limits::HISTORY_PAGE_MAX) events of its present run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// What is open, in the order of the calls. Children that have ended are not, whether the workflow has looked or not.
    pub open: Vec<OpenWait>,
    /// The groups and selections that are waited for.
    pub groups: Vec<GroupWait>,
    /// Why it cannot go on, when its code does not fit its history.
    pub blocked: Option<Blocked>,
    /// The failures that its code has caught and gone on from, in their order.
    pub handled: Vec<Handled>,
    /// Whether all of its history was looked at and all of its children were: else there may be more.
    pub is_whole: bool,
}

/// Where the code of a workflow does not fit its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// What the history has.
    pub expected: String,
    /// What the code has in its place.
    pub found: String,
    /// When it was first met.
    pub since: Timestamp,
}

/// A failure that the code of a workflow has caught and gone on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Handled {
    /// The event that says so.
    pub seq: i32,
    /// When.
    pub at: Timestamp,
    /// The call that failed.
    pub call: Option<i32>,
    /// What that call names.
    pub name: String,
    /// Why it failed.
    pub reason: String,
}

impl Client {
    /// What a workflow waits for, what keeps it, and what it has survived in its present run. What has ended waits for nothing;
    /// nothing at all is known of what is no workflow.
    pub async fn waits(&self, instance: &Instance) -> Result<Waits> {
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
        waits.blocked = blocked(instance, &events);
        let uncounted = self.see_children(instance, &mut waits).await?;
        waits.groups = groups(&waits.open, &uncounted);
        Ok(waits)
    }

    /// Events of a run without the results in them: these are not looked at here, and all of them may be large.
    async fn told(&self, mut request: HistoryRequest) -> Result<Vec<Event>> {
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

    /// Says who the awaited children are, and takes away those that have ended. Of more children than are looked at it
    /// answers how many have ended.
    async fn see_children(&self, instance: &Instance, waits: &mut Waits) -> Result<Uncounted> {
        let mut uncounted = Uncounted::default();
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
        let page = self.store.list(request).await?;
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
        for round in self.store.rounds(instance.id).await? {
            let ended = round.children.iter().filter(|(it, _)| it.is_terminal());
            let ended: u64 = ended.map(|(_, children)| children).sum();
            let ended = usize::try_from(ended).unwrap_or(usize::MAX);
            uncounted.ended.insert(round.round, ended);
        }
        Ok(uncounted)
    }
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

/// What the last event says of a replay that did not fit, while that is what keeps the instance.
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

/// Something that a workflow has asked for and that has not come yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenWait {
    /// `step`, `activity`, `child`, `timer` or `signal`.
    pub kind: &'static str,
    /// The call.
    pub call: i32,
    /// What it names: a step, a job, a workflow, a machine, a signal.
    pub name: String,
    /// Since when.
    pub since: Timestamp,
    /// When its time comes, of a timer.
    pub deadline: Option<Timestamp>,
    /// The fan-out that started it and its position there, of a child.
    pub started: Option<(i32, i32)>,
    /// The child, once the workflow has seen it.
    pub child: Option<InstanceId>,
    /// The newest run of the child that the workflow has seen.
    pub child_run: Option<i32>,
    /// How the child stands, where it was looked at.
    pub child_status: Option<Status>,
    /// Whether the child waits for a place in the window of its group; `None` when that has none, or it was not looked at.
    pub is_held: Option<bool>,
    /// What becomes of the child when the workflow ends.
    pub on_parent_close: Option<ClosePolicy>,
    /// The group it is in.
    pub group: Option<GroupPlace>,
    /// Whether the workflow still waits for it: the others of a group that has failed go on without.
    pub is_awaited: bool,
}

/// Where a call stands in the groups it is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupPlace {
    /// The calls of the groups, from the outermost to the innermost.
    pub path: Vec<i32>,
    /// How many calls the outermost has.
    pub size: usize,
    /// Which of them it is, from 0.
    pub index: usize,
    /// Whether the outermost is a selection: the first of it counts, and not all.
    pub is_selection: bool,
    /// What the calls of the outermost are: `children`, `activities`, `steps`, `timers`, `signals`, or `mixed`. Told where
    /// all of them were looked at, and not with a single event.
    pub members: Option<&'static str>,
}

impl From<Place> for GroupPlace {
    fn from(place: Place) -> GroupPlace {
        GroupPlace {
            path: place.path,
            size: place.size,
            index: place.index,
            is_selection: place.select,
            members: None,
        }
    }
}

/// What the events of a run leave open, in the order of the calls. Events whose data cannot be read count by their kind.
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
            | EventKind::ChildTold
            | EventKind::VersionMarked
            | EventKind::CancelRequested
            | EventKind::FailureHandled
            | EventKind::ReplayBlocked
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
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
    // A signal, a timer or a step that nobody waits for is nothing to look at.
    open.retain(|it| it.is_awaited || matches!(it.kind, "activity" | "child"));
    open
}

fn wait(kind: &'static str, call: i32, event: &Event) -> OpenWait {
    let waiting: Waiting = data_of(&event.data).unwrap_or_default();
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
