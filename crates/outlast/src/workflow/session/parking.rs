//! How a workflow goes on or waits, and what wakes it.

use super::super::runtime::{Ask, Runtime, UnitKind};
use super::Session;
use crate::machine::Decided;
use outlast_core::{Due, Ends, Flowing, InstanceId, Outcome, Park, Proceed, Timestamp};
use std::collections::HashSet;
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
    let mut count: Option<i32> = None;
    let mut rounds = Vec::new();
    let mut children = Vec::new();
    for unit in runtime.waiting() {
        let new = started.filter(|(it, _)| *it == unit);
        let wakes = Wakes::of(runtime, unit, new.map(|(_, round)| round));
        park.names.extend(wakes.names);
        let due = wakes.due.map(|due| match due {
            (Some(at), _) => Due::At(at),
            (None, after) => Due::After(after),
        });
        park.deadline = earlier(park.deadline, due, runtime.now());
        if wakes.count > 0 {
            count = Some(count.map_or(wakes.count, |before| before.min(wakes.count)));
            rounds.extend(wakes.rounds);
            children.extend(wakes.children);
        }
    }
    park.names.sort_unstable();
    park.names.dedup();
    rounds.sort_unstable();
    rounds.dedup();
    // Who is waited for by several is one child all the same.
    children.sort_unstable();
    children.dedup();
    park.ends = count.map(|count| Ends {
        rounds,
        children,
        count,
    });
    park
}

/// What wakes a workflow that waits for one unit.
#[derive(Default)]
struct Wakes {
    names: Vec<String>,
    /// The moment, where it is known, else how long until then.
    due: Option<(Option<Timestamp>, Duration)>,
    count: i32,
    rounds: Vec<i32>,
    children: Vec<InstanceId>,
}

impl Wakes {
    fn of(runtime: &Runtime, unit: usize, new_round: Option<i32>) -> Wakes {
        let mut wakes = Wakes::default();
        let is_selection = runtime.units[unit].kind == UnitKind::Selection;
        // In a selection the first member counts, each of which waits for all of its own.
        for leaves in runtime.units[unit].members() {
            let member = Wakes::of_member(runtime, leaves, new_round);
            wakes.names.extend(member.names);
            wakes.due = sooner(wakes.due, member.due);
            if member.count > 0 {
                wakes.count = match wakes.count {
                    0 => member.count,
                    before if is_selection => before.min(member.count),
                    before => before + member.count,
                };
                wakes.rounds.extend(member.rounds);
                wakes.children.extend(member.children);
            }
        }
        wakes
    }

    fn of_member(runtime: &Runtime, leaves: &[i32], new_round: Option<i32>) -> Wakes {
        let mut wakes = Wakes::default();
        let mut latest: Option<(Option<Timestamp>, Duration)> = None;
        let mut seen = HashSet::new();
        for leaf in leaves {
            let call = runtime.call(*leaf);
            if call.end.is_some() || !seen.insert(leaf) {
                continue;
            }
            match &call.ask {
                Ask::Signal => wakes.names.push(call.name.clone()),
                Ask::Timer(after) => latest = later(latest, (call.due, *after)),
                Ask::Child(child) => {
                    wakes.count += 1;
                    match child.link.found {
                        Some(found) => {
                            wakes.rounds.push(child.link.round);
                            wakes.children.push(found);
                        }
                        None => wakes.rounds.extend(new_round),
                    }
                }
                Ask::Work | Ask::Nothing => {}
            }
        }
        // While something else is open, the timers of a group need not wake anybody: it is not complete without the rest.
        if wakes.count == 0 && wakes.names.is_empty() {
            wakes.due = latest;
        }
        wakes
    }
}

type Moment = (Option<Timestamp>, Duration);

/// The sooner of two timers. Of one that is about to be scheduled only the duration is known; it is scheduled after all
/// whose moment is known, so those are taken for sooner, and it is looked at again when they have come.
fn sooner(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    [a, b]
        .into_iter()
        .flatten()
        .min_by_key(|(at, after)| (at.is_none(), *at, *after))
}

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
