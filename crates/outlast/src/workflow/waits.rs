//! What a workflow waits for, read from its history: for people to look at.

use super::BLOCKED;
use super::events::{Ended, Mismatch, Place, Scheduled, Waiting, data_of};
use crate::client::Client;
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    ClosePolicy, Event, EventKind, Filter, HistoryRequest, Instance, InstanceId, ListRequest,
    Result, Status, Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many children that live are looked at, to tell who they are. Of more it is only counted how many there are.
const CHILDREN_SEEN: usize = 200;

/// What a workflow waits for, as far as its history was looked at: the last
/// [`HISTORY_PAGE_MAX`](outlast_core::limits::HISTORY_PAGE_MAX) events of its present run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// What is open, in the order of the calls. Children that have ended are not, whether the workflow has looked or not.
    pub open: Vec<OpenWait>,
    /// The groups and selections that are waited for.
    pub groups: Vec<GroupWait>,
    /// Why it cannot go on, when its code does not fit its history.
    pub blocked: Option<Blocked>,
    /// Whether all of its history was looked at and all of its children were: else there may be more.
    pub is_whole: bool,
}

/// A group or a selection that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupWait {
    /// Its call.
    pub call: i32,
    /// Whether the first of it counts, and not all.
    pub is_selection: bool,
    /// How many calls it has.
    pub size: usize,
    /// How many of them have not come to anything yet.
    pub open: usize,
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

impl Client {
    /// What a workflow waits for and what keeps it. Nothing of what has ended, and of what is no workflow.
    pub async fn waits(&self, instance: &Instance) -> Result<Waits> {
        if instance.status.is_terminal() || !instance.is_workflow() {
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
        let events = self.history(request).await?;
        let mut waits = Waits {
            open: open_waits(&events),
            groups: Vec::new(),
            blocked: blocked(instance, &events),
            is_whole: request.after == 0,
        };
        let ended = self.see_children(instance, &mut waits).await?;
        waits.groups = groups(&waits.open, &ended);
        Ok(waits)
    }

    /// Says who the awaited children are, and takes away those that have ended. Of more children than are looked at it
    /// answers how many have ended, by round.
    async fn see_children(
        &self,
        instance: &Instance,
        waits: &mut Waits,
    ) -> Result<HashMap<i32, usize>> {
        let mut rounds = HashMap::new();
        if waits.open.iter().all(|it| it.started.is_none()) {
            return Ok(rounds);
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
        };
        let page = self.store.list(request).await?;
        let seen = page.instances.iter().filter_map(|child| {
            let place = (child.parent?.round, child.position?);
            Some((place, (child.id, child.run, child.status)))
        });
        let seen: HashMap<(i32, i32), (InstanceId, i32, Status)> = seen.collect();
        for it in &mut waits.open {
            if let Some((id, run, status)) = it.started.and_then(|place| seen.get(&place)) {
                (it.child, it.child_run) = (Some(*id), Some(*run));
                it.child_status = Some(*status);
            }
        }
        if page.next.is_none() {
            waits
                .open
                .retain(|it| it.started.is_none() || it.child_status.is_some());
            return Ok(rounds);
        }
        waits.is_whole = false;
        for round in self.store.rounds(instance.id).await? {
            let ended = round.children.iter().filter(|(it, _)| it.is_terminal());
            let ended: u64 = ended.map(|(_, children)| children).sum();
            rounds.insert(round.round, usize::try_from(ended).unwrap_or(usize::MAX));
        }
        Ok(rounds)
    }
}

/// The groups that what is open belongs to. `ended` says how many children of a round have ended, though they are among
/// what is open.
fn groups(open: &[OpenWait], ended: &HashMap<i32, usize>) -> Vec<GroupWait> {
    let mut groups: BTreeMap<i32, (GroupWait, HashSet<i32>)> = BTreeMap::new();
    for it in open.iter().filter(|it| it.is_awaited) {
        let Some(place) = &it.group else {
            continue;
        };
        let Some(&call) = place.path.first() else {
            continue;
        };
        let group = GroupWait {
            call,
            is_selection: place.is_selection,
            size: place.size,
            open: 0,
        };
        let (group, rounds) = groups.entry(call).or_insert((group, HashSet::new()));
        group.open += 1;
        rounds.extend(it.started.map(|(round, _)| round));
    }
    let counted = groups.into_values().map(|(mut group, rounds)| {
        let ended = rounds.iter().filter_map(|round| ended.get(round));
        group.open = group.open.saturating_sub(ended.sum());
        group
    });
    counted.collect()
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
}

impl From<Place> for GroupPlace {
    fn from(place: Place) -> GroupPlace {
        GroupPlace {
            path: place.path,
            size: place.size,
            index: place.index,
            is_selection: place.select,
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
    for it in &mut open {
        let outermost = it.group.as_ref().and_then(|group| group.path.first());
        it.is_awaited = outermost.is_none_or(|group| !resolved.contains(group));
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
        on_parent_close: policy,
        group: scheduled.and_then(|it| it.group).map(Into::into),
        is_awaited: true,
    }
}
