//! Creates the outcomes with which a workflow continues or parks, and decides what wakes it.
//!
//! The session calls it. A park may wake the workflow too early, which costs a look, but never too
//! late.

use super::super::runtime::{Ask, Runtime};
use super::Session;
use super::end::has_survived;
use crate::machine::Decided;
use outlast_core::limits::{CHILDREN_MAX, JOIN_SETS_MAX};
use outlast_core::{
    ChildRange, Due, Flowing, InstanceId, JoinSet, JoinSets, Outcome, Park, Proceed, Timestamp,
};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

impl Session {
    /// Starts the children of a wait, and parks if there is nothing else to do.
    pub(super) fn start(&mut self, wait: usize, goes_on: bool) -> Decided {
        let round = self.round + 1;
        let (children, window) = {
            let mut runtime = self.flow.lock();
            runtime.record_notes(true);
            let children = runtime.schedule(wait, round);
            runtime.record_waiting();
            let combinator = runtime.waits[wait].combinator.as_ref();
            let window = combinator.and_then(|it| it.window);
            (children, window)
        };
        let then = match goes_on {
            true => Flowing::Proceed(Proceed::KeepClaim),
            false => Flowing::Park(what_wakes(&self.flow.lock(), Some((wait, round)))),
        };
        self.decided(Outcome::Flow {
            children,
            window,
            then,
        })
    }

    /// Writes all unwritten events, and continues.
    ///
    /// Afterwards the runtime is not [dirty](Runtime::is_dirty). Otherwise the next action would
    /// be this one again, in an endless loop.
    pub(super) fn write(&mut self) -> Decided {
        self.record_all();
        let decided = self.write_recorded();
        debug_assert!(
            !decided.events.is_empty() || !decided.replies.is_empty(),
            "a write without events and replies is followed by the same write"
        );
        decided
    }

    /// Adds the notes and the waits of the code to the history.
    fn record_all(&mut self) {
        let mut runtime = self.flow.lock();
        let has_survived = self.result.as_ref().is_none_or(has_survived);
        runtime.record_notes(has_survived);
        if !self.is_over() {
            runtime.record_waiting();
        }
    }

    /// Writes the events that are in the history, and continues.
    pub(super) fn write_recorded(&mut self) -> Decided {
        self.decided(Outcome::Flow {
            children: Vec::new(),
            window: None,
            then: Flowing::Proceed(Proceed::KeepClaim),
        })
    }

    /// Parks the instance until something arrives that the code waits for.
    pub(super) fn park(&mut self) -> Decided {
        self.record_all();
        let park = what_wakes(&self.flow.lock(), None);
        self.decided(Outcome::Flow {
            children: Vec::new(),
            window: None,
            then: Flowing::Park(park),
        })
    }
}

/// Returns what wakes a parked workflow.
///
/// `started` is the wait whose children this commit starts, and their round.
fn what_wakes(runtime: &Runtime, started: Option<(usize, i32)>) -> Park {
    let mut handled = runtime.updates.names().map(str::to_owned).peekable();
    // An update wakes code that has a handler for it, whatever else is missing.
    let has_none = handled.peek().is_none();
    #[cfg(outlast_mutants)]
    let has_none = has_none || outlast_core::mutant::is("groups-beside-handlers-need-all");
    if has_none && let Some(park) = all_of_one_group(runtime, started) {
        return park;
    }
    let mut park = Park {
        names: handled.collect(),
        ..Park::default()
    };
    let mut sets = Vec::new();
    for wait in runtime.waiting() {
        let round = started.filter(|(it, _)| *it == wait);
        let mut starting = NewChildren::of(round.map(|(_, round)| round));
        // The first member of a selection decides, and each member waits for all of its calls. A
        // group is one member.
        for leaves in runtime.waits[wait].members() {
            let wakes = WakeConditions::of(runtime, leaves, &mut starting);
            let due = wakes.due().map(due);
            park.deadline = earlier(park.deadline, due, runtime.now());
            park.names.extend(wakes.names);
            sets.extend(wakes.part);
        }
    }
    park.names.sort_unstable();
    park.names.dedup();
    let sets = merge_excess(sets);
    park.join_sets = (!sets.is_empty()).then(|| JoinSets {
        sets: sets.into_iter().map(JoinPart::awaited).collect(),
    });
    park
}

/// Returns the park of code that waits for one group and nothing else.
///
/// Nothing need wake it before the whole group is complete. Returns `None` when that is not
/// certain, and when only one thing is missing, since that wakes by itself.
fn all_of_one_group(runtime: &Runtime, started: Option<(usize, i32)>) -> Option<Park> {
    let mut waits = runtime.waiting();
    let wait = waits.next().filter(|_| waits.next().is_none())?;
    let mut members = runtime.waits[wait].members();
    let leaves = members.next().filter(|_| members.next().is_none())?;
    let round = started.filter(|(it, _)| *it == wait);
    let mut starting = NewChildren::of(round.map(|(_, round)| round));
    let WakeConditions {
        mut names,
        latest,
        part,
        is_whole,
        ..
    } = WakeConditions::of(runtime, leaves, &mut starting);
    let things = names.len() + usize::from(latest.is_some()) + usize::from(part.is_some());
    // A child outside of the group must not be counted as one of its members. Then a failed child
    // of the group would not wake the workflow.
    if !is_whole || things < 2 || part.as_ref().is_some_and(|part| !part.is_exact()) {
        return None;
    }
    names.sort_unstable();
    let are_apart = names.is_sorted_by(|a, b| a < b);
    #[cfg(outlast_mutants)]
    let are_apart = {
        let is_mutant = outlast_core::mutant::is("inexact-groups-need-all");
        names.dedup_by(|a, b| is_mutant && a == b);
        are_apart || is_mutant
    };
    let park = Park {
        names,
        deadline: latest.map(due),
        join_sets: part.map(|mut part| {
            part.tidy(|_, _| false);
            JoinSets::one(part.awaited())
        }),
        needs_all: true,
    };
    are_apart.then_some(park)
}

/// The children of a wait that the parking commit starts: their round, and how many were counted.
struct NewChildren {
    round: Option<i32>,
    met: i32,
}

impl NewChildren {
    fn of(round: Option<i32>) -> NewChildren {
        NewChildren { round, met: 0 }
    }

    /// Returns the round and position that the next of them will have.
    fn next(&mut self) -> Option<(i32, i32)> {
        let place = self.round.map(|round| (round, self.met));
        self.met += 1;
        place
    }
}

/// What wakes a workflow that waits for one member.
#[derive(Default)]
struct WakeConditions {
    names: Vec<String>,
    /// The latest timer.
    latest: Option<DueTime>,
    part: Option<JoinPart>,
    /// Whether this covers everything that is open of the member.
    is_whole: bool,
}

impl WakeConditions {
    fn of(runtime: &Runtime, leaves: &[i32], starting: &mut NewChildren) -> WakeConditions {
        let mut names = Vec::new();
        let mut part = JoinPart::default();
        let mut latest: Option<DueTime> = None;
        let mut is_whole = true;
        let mut seen = HashSet::new();
        for leaf in leaves {
            let call = runtime.call(*leaf);
            if call.end.is_some() || !seen.insert(leaf) {
                continue;
            }
            match &call.ask {
                Ask::Signal | Ask::Update(_) => names.push(call.name.clone()),
                Ask::Timer(after) => latest = later(latest, (call.due, *after)),
                Ask::Child(child) => match child.link.found {
                    Some(found) => part.add(child.link.round, child.link.position, Some(found)),
                    None => match starting.next() {
                        Some((round, position)) => part.add(round, position, None),
                        None => is_whole = false,
                    },
                },
                Ask::Work | Ask::Nothing => is_whole = false,
            }
        }
        WakeConditions {
            names,
            latest,
            part: (part.count > 0).then_some(part),
            is_whole,
        }
    }

    /// Returns when time wakes the workflow.
    ///
    /// While other calls are open, the timers of a group need not wake it: the group is not
    /// complete.
    fn due(&self) -> Option<DueTime> {
        self.latest
            .filter(|_| self.part.is_none() && self.names.is_empty())
    }
}

/// Children that are awaited together; becomes a `JoinSet`.
#[derive(Clone, Default)]
struct JoinPart {
    /// Ranges of positions in a round, in any order. A child in a range that has finished does not
    /// finish again. A child in a range that is not awaited may wake the workflow too early.
    ranges: Vec<ChildRange>,
    children: Vec<InstanceId>,
    count: i32,
}

impl JoinPart {
    /// Adds a child; children at consecutive positions share a range.
    fn add(&mut self, round: i32, position: i32, child: Option<InstanceId>) {
        self.count += 1;
        self.children.extend(child);
        match self.ranges.last_mut().filter(|span| span.round == round) {
            Some(span) => {
                span.first = span.first.min(position);
                span.last = span.last.max(position);
            }
            None => self.ranges.push(ChildRange {
                round,
                first: position,
                last: position,
            }),
        }
    }

    /// Returns whether the ranges contain the awaited children and no others.
    fn is_exact(&self) -> bool {
        let length = |span: &ChildRange| i64::from(span.last) - i64::from(span.first) + 1;
        self.ranges.iter().map(length).sum::<i64>() == i64::from(self.count)
    }

    /// Merges two sets: the first of the two to complete wakes the workflow.
    ///
    /// It never wakes too late. For single children it never wakes too early either.
    fn or(mut self, other: JoinPart) -> JoinPart {
        self.count = self.count.min(other.count);
        self.children.extend(other.children);
        self.ranges.extend(other.ranges);
        self
    }

    /// Removes duplicates and joins ranges.
    fn tidy(&mut self, may_lead_over: impl Fn(i32, (i32, i32)) -> bool) {
        // A child awaited by several calls is one child.
        self.children.sort_unstable();
        self.children.dedup();
        self.ranges = joined(std::mem::take(&mut self.ranges), may_lead_over);
    }

    fn awaited(self) -> JoinSet {
        JoinSet {
            ranges: self.ranges,
            children: self.children,
            count: self.count,
        }
    }
}

/// Merges sets until there are no more than the store can count.
///
/// Single children become one set, since the first of them decides. If there are still too many,
/// the smallest sets are merged: they have the fewest children to wake with.
fn merge_excess(sets: Vec<JoinPart>) -> Vec<JoinPart> {
    let (lone, mut groups): (Vec<JoinPart>, Vec<JoinPart>) =
        sets.into_iter().partition(|it| it.count == 1);
    let mut merged: Vec<JoinPart> = lone.into_iter().reduce(JoinPart::or).into_iter().collect();
    let room = JOIN_SETS_MAX - merged.len();
    if groups.len() > room {
        groups.sort_by_key(|part| Reverse(part.count));
        let smallest = groups.split_off(room - 1);
        merged.extend(smallest.into_iter().reduce(JoinPart::or));
    }
    for part in &mut groups {
        part.tidy(|_, _| true);
    }
    // No range of a merged set may span a child that another set waits for.
    while let Some(mut part) = merged.pop() {
        let others = groups.iter().chain(&merged);
        let others = others.flat_map(|other| other.ranges.clone()).collect();
        let others = joined(others, |_, _| false);
        part.tidy(|round, gap| !has_some(&others, round, gap));
        groups.push(part);
    }
    match is_too_much(&groups) {
        true => {
            let mut all = groups.into_iter().reduce(JoinPart::or).unwrap_or_default();
            all.tidy(|_, _| true);
            vec![all]
        }
        false => groups,
    }
}

/// Returns whether the sets exceed the bound of a park, which happens when they repeat children.
fn is_too_much(sets: &[JoinPart]) -> bool {
    let children: usize = sets.iter().map(|part| part.children.len()).sum();
    let ranges: usize = sets.iter().map(|part| part.ranges.len()).sum();
    children.max(ranges) > CHILDREN_MAX
}

/// Sorts the ranges and joins those that overlap, touch, or may span their gap.
fn joined(
    mut ranges: Vec<ChildRange>,
    may_lead_over: impl Fn(i32, (i32, i32)) -> bool,
) -> Vec<ChildRange> {
    ranges.sort_unstable();
    let mut joined: Vec<ChildRange> = Vec::with_capacity(ranges.len());
    for span in ranges {
        let before = joined.last_mut().filter(|it| it.round == span.round);
        let before = before.filter(|it| {
            let gap = (it.last + 1, span.first - 1);
            gap.0 > gap.1 || may_lead_over(span.round, gap)
        });
        match before {
            Some(before) => before.last = before.last.max(span.last),
            None => joined.push(span),
        }
    }
    joined
}

/// Returns whether these sorted, disjoint ranges contain a position from first to last.
fn has_some(ranges: &[ChildRange], round: i32, (first, last): (i32, i32)) -> bool {
    let next = ranges.partition_point(|span| (span.round, span.last) < (round, first));
    ranges
        .get(next)
        .is_some_and(|span| span.round == round && span.first <= last)
}

/// A time, if it is known, and its distance from the start of the timer.
type DueTime = (Option<Timestamp>, Duration);

fn due(moment: DueTime) -> Due {
    match moment {
        (Some(at), _) => Due::At(at),
        (None, after) => Due::After(after),
    }
}

fn later(a: Option<DueTime>, b: DueTime) -> Option<DueTime> {
    a.into_iter()
        .chain([b])
        .max_by_key(|(at, after)| (at.is_none(), *at, *after))
}

/// Returns the earlier of two deadlines.
///
/// A deadline relative to the commit is compared as if the commit were now: waking too early costs
/// a look.
fn earlier(a: Option<Due>, b: Option<Due>, now: Timestamp) -> Option<Due> {
    let moment = |due: &Due| match due {
        Due::After(after) => now + *after,
        Due::At(at) => *at,
    };
    [a, b].into_iter().flatten().min_by_key(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a set of children at these places.
    fn part(places: &[(i32, i32)]) -> JoinPart {
        let mut part = JoinPart::default();
        for &(round, position) in places {
            let id = i64::from(round) * 1_000_000 + i64::from(position);
            part.add(round, position, Some(InstanceId(id)));
        }
        part
    }

    fn group(round: i32, positions: std::ops::Range<i32>) -> JoinPart {
        part(&positions.map(|it| (round, it)).collect::<Vec<_>>())
    }

    fn spans(part: &JoinPart) -> Vec<(i32, i32, i32)> {
        let ranges = part.ranges.iter();
        ranges.map(|it| (it.round, it.first, it.last)).collect()
    }

    #[test]
    fn single_children_share_one_set_that_spans_no_group() {
        let lone = |position| part(&[(1, position)]);
        let sets = merge_excess(vec![lone(0), group(1, 1..1_001), lone(1_001), lone(1_003)]);
        assert_eq!(sets.len(), 2);
        assert_eq!(spans(&sets[0]), [(1, 1, 1_000)]);
        assert_eq!((sets[0].count, sets[1].count), (1_000, 1));
        // No set waits for the children between the last two.
        assert_eq!(spans(&sets[1]), [(1, 0, 0), (1, 1_001, 1_003)]);
        assert_eq!(sets[1].children.len(), 3);
    }

    #[test]
    fn a_group_has_one_range_in_each_round_despite_ended_children() {
        let left = part(&[(3, 1), (1, 0), (3, 4), (3, 900), (2, 7)]);
        let sets = merge_excess(vec![left]);
        assert_eq!(spans(&sets[0]), [(1, 0, 0), (2, 7, 7), (3, 1, 900)]);
        assert_eq!((sets.len(), sets[0].count), (1, 5));
    }

    #[test]
    fn the_smallest_of_too_many_groups_are_merged_apart_from_single_children() {
        let many = 2 * JOIN_SETS_MAX as i32;
        // Groups of two and three in turn, with a single child before and after them.
        let groups = (0..many).map(|n| group(1, 10 * n + 1..10 * n + 3 + n % 2));
        let mut sets: Vec<JoinPart> = groups.collect();
        sets.extend([part(&[(1, 0)]), part(&[(1, 10 * many)])]);
        let sets = merge_excess(sets);
        assert_eq!(sets.len(), JOIN_SETS_MAX);
        let count = |count| sets.iter().filter(|part| part.count == count).count();
        assert_eq!((count(1), count(2), count(3)), (1, 1, JOIN_SETS_MAX - 2));
        let pairs = sets.iter().find(|part| part.count == 2).unwrap();
        let others: Vec<ChildRange> = sets
            .iter()
            .filter(|part| part.count == 3)
            .flat_map(|part| part.ranges.clone())
            .collect();
        let meets = |a: &ChildRange, b: &ChildRange| a.first <= b.last && b.first <= a.last;
        for span in &pairs.ranges {
            assert!(!others.iter().any(|it| meets(it, span)), "{span:?}");
        }
        // Single children on both sides of the groups do not span them.
        let lone = sets.iter().find(|part| part.count == 1).unwrap();
        let ends = [(1, 0, 0), (1, 10 * many, 10 * many)];
        assert_eq!(spans(lone), ends);
    }

    #[test]
    fn groups_of_the_same_children_are_one_set() {
        let sets = merge_excess(vec![group(1, 0..2_000); 51]);
        assert_eq!(sets.len(), 1);
        assert_eq!((sets[0].count, sets[0].children.len()), (2_000, 2_000));
    }

    #[test]
    fn the_earlier_of_two_deadlines_wakes() {
        let (soon, late) = (Duration::from_secs(1), Duration::from_secs(2));
        let now = Timestamp(0);
        let at = |after| Some(Due::At(now + after));
        let after = |after| Some(Due::After(after));
        assert_eq!(earlier(at(soon), after(late), now), at(soon));
        assert_eq!(earlier(at(late), after(soon), now), after(soon));
        assert_eq!(earlier(None, after(soon), now), after(soon));
        assert_eq!(earlier(None, None, now), None);
    }
}
