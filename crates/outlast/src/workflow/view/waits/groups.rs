//! The groups and selections that a workflow waits for.

use super::OpenWait;
use crate::workflow::replay::events::CallKind;
use crate::workflow::view::detail::EventDetail;
use outlast_core::{Event, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A group or a selection that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupWait {
    /// Its call.
    pub call: i32,
    /// Whether the first of it counts, and not all.
    pub is_selection: bool,
    /// What its calls are, those in groups within it too: `children`, `activities`, `steps`, `timers`, `signals`, or
    /// `mixed`.
    pub members: &'static str,
    /// How many calls it has.
    pub size: usize,
    /// How many of them have not come to anything yet.
    pub open: usize,
    /// When the first of its timers fires, of a selection: until then the others are waited for.
    pub deadline: Option<Timestamp>,
    /// How its open children stand, when no more than some of them run at a time.
    pub window: Option<WindowWait>,
}

/// How the open children of a group with a window stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WindowWait {
    /// How many have a place.
    pub running: usize,
    /// How many wait for one.
    pub held: usize,
}

/// What is known of the children of a workflow that has more of them than are looked at.
#[derive(Debug, Default)]
pub(super) struct Uncounted {
    /// How many of a round have ended, though they are among what is open.
    pub(super) ended: HashMap<i32, usize>,
    /// The round that was begun last, and how many of it run at a time.
    pub(super) window: Option<(i32, usize)>,
}

/// The groups that what is open belongs to.
pub(super) fn groups(open: &[OpenWait], uncounted: &Uncounted) -> Vec<GroupWait> {
    let mut members: BTreeMap<i32, Vec<&OpenWait>> = BTreeMap::new();
    for it in open.iter().filter(|it| it.is_awaited) {
        let group = it.group.as_ref().and_then(|place| place.path.first());
        if let Some(&group) = group {
            members.entry(group).or_default().push(it);
        }
    }
    let groups = members.into_iter();
    groups
        .filter_map(|(call, open)| group(call, &open, uncounted))
        .collect()
}

fn group(call: i32, members: &[&OpenWait], uncounted: &Uncounted) -> Option<GroupWait> {
    let place = members.first()?.group.as_ref()?;
    let rounds = members.iter().filter_map(|it| Some(it.started?.0));
    let rounds: HashSet<i32> = rounds.collect();
    let ended = rounds
        .iter()
        .filter_map(|round| uncounted.ended.get(round))
        .sum();
    let timers = members.iter().filter(|it| it.kind == "timer");
    let deadline = timers.filter_map(|it| it.deadline).min();
    Some(GroupWait {
        call,
        is_selection: place.is_selection,
        members: place.members.unwrap_or(MIXED),
        size: place.size,
        open: members.len().saturating_sub(ended),
        deadline: deadline.filter(|_| place.is_selection),
        window: window(members, &rounds, ended, uncounted),
    })
}

/// Who has a place is known of those that were looked at. Of more, it is as many as the window has, if that is known.
fn window(
    members: &[&OpenWait],
    rounds: &HashSet<i32>,
    ended: usize,
    uncounted: &Uncounted,
) -> Option<WindowWait> {
    if let Some((round, places)) = uncounted.window {
        let children = members.iter().filter(|it| it.started.is_some()).count();
        let open = children.saturating_sub(ended);
        return rounds.contains(&round).then_some(WindowWait {
            running: open.min(places),
            held: open.saturating_sub(places),
        });
    }
    let held: Vec<bool> = members.iter().filter_map(|it| it.is_held).collect();
    (!held.is_empty()).then(|| WindowWait {
        running: held.iter().filter(|held| !**held).count(),
        held: held.iter().filter(|held| **held).count(),
    })
}

const MIXED: &str = "mixed";

/// What the calls of each outermost group are.
pub(super) fn members_of(events: &[Event]) -> HashMap<i32, &'static str> {
    let mut members = HashMap::new();
    for event in events {
        let Some(kind) = CallKind::of(event.kind).and_then(plural) else {
            continue;
        };
        let group = EventDetail::of(event).group;
        if let Some(&call) = group.as_ref().and_then(|place| place.path.first()) {
            let known = members.entry(call).or_insert(kind);
            if *known != kind {
                *known = MIXED;
            }
        }
    }
    members
}

fn plural(kind: CallKind) -> Option<&'static str> {
    Some(match kind {
        CallKind::Step => "steps",
        CallKind::Activity => "activities",
        CallKind::Child => "children",
        CallKind::Timer => "timers",
        CallKind::Signal => "signals",
        CallKind::Tell | CallKind::Group | CallKind::Selection => return None,
    })
}
