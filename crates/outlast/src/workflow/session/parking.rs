//! How a workflow goes on or waits, and what wakes it.

use super::super::runtime::{Ask, Runtime};
use super::Session;
use crate::machine::Decided;
use outlast_core::limits::AWAITED_PARTS_MAX;
use outlast_core::{
    Awaited, Due, Ends, Flowing, InstanceId, Outcome, Park, Proceed, Span, Timestamp,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

impl Session {
    /// Starts the children of a unit, and waits if there is nothing else to do.
    pub(super) fn start(&mut self, unit: usize, goes_on: bool) -> Decided {
        let round = self.round + 1;
        let (children, window) = {
            let mut runtime = self.flow.lock();
            runtime.record_notes(true);
            let children = runtime.schedule(unit, round);
            runtime.record_waiting();
            let several = runtime.units[unit].several.as_ref();
            let window = several.and_then(|it| it.window);
            (children, window)
        };
        let then = match goes_on {
            true => Flowing::Proceed(Proceed::KeepClaim),
            false => Flowing::Park(what_wakes(&self.flow.lock(), Some((unit, round)))),
        };
        self.decided(Outcome::Flow {
            children,
            window,
            then,
        })
    }

    /// Records what the code waits for, writes what there is, and goes on.
    pub(super) fn proceed(&mut self) -> Decided {
        self.record_all();
        self.go_on()
    }

    fn record_all(&mut self) {
        let mut runtime = self.flow.lock();
        runtime.record_notes(true);
        runtime.record_waiting();
    }

    /// Writes what there is, and goes on.
    pub(super) fn go_on(&mut self) -> Decided {
        self.decided(Outcome::Flow {
            children: Vec::new(),
            window: None,
            then: Flowing::Proceed(Proceed::KeepClaim),
        })
    }

    /// Waits for what the code waits for.
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

/// What wakes a workflow that waits; `started` is the unit whose children go with it, and their round.
fn what_wakes(runtime: &Runtime, started: Option<(usize, i32)>) -> Park {
    let mut park = Park::default();
    let mut parts = Vec::new();
    for unit in runtime.waiting() {
        let round = started.filter(|(it, _)| *it == unit);
        let mut starting = Starting::of(round.map(|(_, round)| round));
        // Of a selection the first member counts, each of which waits for all of its own; a group is one member.
        for leaves in runtime.units[unit].members() {
            let wakes = Wakes::of(runtime, leaves, &mut starting);
            park.names.extend(wakes.names);
            let due = wakes.due.map(|due| match due {
                (Some(at), _) => Due::At(at),
                (None, after) => Due::After(after),
            });
            park.deadline = earlier(park.deadline, due, runtime.now());
            parts.extend(wakes.part);
        }
    }
    park.names.sort_unstable();
    park.names.dedup();
    let parts = few(parts);
    park.ends = (!parts.is_empty()).then(|| Ends {
        parts: parts.into_iter().map(Part::awaited).collect(),
    });
    park
}

/// The children of a unit that are started by the commit that parks: their round, and how many of them have been met.
struct Starting {
    round: Option<i32>,
    met: i32,
}

impl Starting {
    fn of(round: Option<i32>) -> Starting {
        Starting { round, met: 0 }
    }

    /// Where the next of them will stand.
    fn next(&mut self) -> Option<(i32, i32)> {
        let place = self.round.map(|round| (round, self.met));
        self.met += 1;
        place
    }
}

/// What wakes a workflow that waits for one member.
#[derive(Default)]
struct Wakes {
    names: Vec<String>,
    /// The moment, where it is known, else how long until then.
    due: Option<Moment>,
    part: Option<Part>,
}

impl Wakes {
    fn of(runtime: &Runtime, leaves: &[i32], starting: &mut Starting) -> Wakes {
        let mut names = Vec::new();
        let mut part = Part::default();
        let mut latest: Option<Moment> = None;
        let mut seen = HashSet::new();
        for leaf in leaves {
            let call = runtime.call(*leaf);
            if call.end.is_some() || !seen.insert(leaf) {
                continue;
            }
            match &call.ask {
                Ask::Signal => names.push(call.name.clone()),
                Ask::Timer(after) => latest = later(latest, (call.due, *after)),
                Ask::Child(child) => match child.link.found {
                    Some(found) => part.add(child.link.round, child.link.position, Some(found)),
                    None => {
                        if let Some((round, position)) = starting.next() {
                            part.add(round, position, None);
                        }
                    }
                },
                Ask::Work | Ask::Nothing => {}
            }
        }
        // While something else is open, the timers of a group need not wake anybody: it is not complete without the rest.
        let due = latest.filter(|_| part.count == 0 && names.is_empty());
        Wakes {
            names,
            due,
            part: (part.count > 0).then_some(part),
        }
    }
}

/// Children that are waited for together.
#[derive(Clone, Default)]
struct Part {
    /// From the first to the last position of those in each round. Who has ended between them ends no more; who is not
    /// waited for there may wake too early.
    spans: BTreeMap<i32, (i32, i32)>,
    children: Vec<InstanceId>,
    count: i32,
}

impl Part {
    fn add(&mut self, round: i32, position: i32, child: Option<InstanceId>) {
        self.count += 1;
        self.children.extend(child);
        self.widen(round, (position, position));
    }

    fn widen(&mut self, round: i32, (first, last): (i32, i32)) {
        let span = self.spans.entry(round).or_insert((first, last));
        *span = (span.0.min(first), span.1.max(last));
    }

    /// Whatever comes first of two. It is never woken too late, and by lone children never too early either.
    fn or(mut self, other: Part) -> Part {
        self.count = self.count.min(other.count);
        self.children.extend(other.children);
        for (round, span) in other.spans {
            self.widen(round, span);
        }
        self
    }

    fn awaited(mut self) -> Awaited {
        // Who is waited for by several is one child all the same.
        self.children.sort_unstable();
        self.children.dedup();
        let spans = self.spans.into_iter();
        Awaited {
            spans: spans
                .map(|(round, (first, last))| Span { round, first, last })
                .collect(),
            children: self.children,
            count: self.count,
        }
    }
}

/// Not more parts than can be counted: lone children are one, since the first of them counts. Of what are still too many,
/// the smallest are taken together: they have the fewest ends to wake with.
fn few(parts: Vec<Part>) -> Vec<Part> {
    let (lone, mut parts): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|it| it.count == 1);
    parts.extend(lone.into_iter().reduce(Part::or));
    if parts.len() > AWAITED_PARTS_MAX {
        parts.sort_by_key(|part| Reverse(part.count));
        let smallest = parts.split_off(AWAITED_PARTS_MAX - 1);
        parts.extend(smallest.into_iter().reduce(Part::or));
    }
    parts
}

type Moment = (Option<Timestamp>, Duration);

fn later(a: Option<Moment>, b: Moment) -> Option<Moment> {
    a.into_iter()
        .chain([b])
        .max_by_key(|(at, after)| (at.is_none(), *at, *after))
}

/// The earlier of two deadlines. One that counts from the commit on is compared as if that were now: waking too early
/// costs a look.
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

    #[test]
    fn of_two_deadlines_the_earlier_wakes() {
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
