//! The groups and selections that a workflow waits for.

use super::OpenWait;
use crate::workflow::replay::events::CallKind;
use crate::workflow::view::detail::EventDetail;
use outlast_core::{Event, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A group or a selection that a workflow waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupWait {
    /// Its call.
    pub call: i32,
    /// Whether it is a selection, where the first member wins.
    pub is_selection: bool,
    /// The kind of its calls, including those of inner groups.
    ///
    /// One of `children`, `activities`, `steps`, `timers`, `signals` and `mixed`.
    pub members: &'static str,
    /// How many calls it has.
    pub size: usize,
    /// How many of them have no result yet.
    pub open: usize,
    /// For a selection: when the first of its timers is due, which ends the wait for the others.
    pub deadline: Option<Timestamp>,
    /// The open children of a group with a window.
    pub window: Option<WindowWait>,
}

/// How many open children of a windowed group run, and how many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WindowWait {
    /// How many have a place.
    pub running: usize,
    /// How many wait for a place.
    pub held: usize,
}

/// What is known of the children if there are more than are read.
#[derive(Debug, Default)]
pub(super) struct UnreadChildren {
    /// How many children of a round have finished, although they are among the open waits.
    pub(super) ended: HashMap<i32, usize>,
    /// The latest round, and how many of its children run at a time.
    pub(super) window: Option<(i32, usize)>,
}

/// Returns the groups of the open waits.
pub(super) fn groups(open: &[OpenWait], uncounted: &UnreadChildren) -> Vec<GroupWait> {
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

fn group(call: i32, members: &[&OpenWait], uncounted: &UnreadChildren) -> Option<GroupWait> {
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

/// Returns how many children have a place in the window.
///
/// If all children were read, each of them says so. Otherwise as many run as the window has
/// places, if that is known.
fn window(
    members: &[&OpenWait],
    rounds: &HashSet<i32>,
    ended: usize,
    uncounted: &UnreadChildren,
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

/// Returns the kind of calls in each outermost group.
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
        CallKind::Message | CallKind::Group | CallKind::Selection => return None,
    })
}
