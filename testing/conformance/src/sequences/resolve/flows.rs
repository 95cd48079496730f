//! Resolves the outcomes of workflows.

use super::super::state::State;
use super::super::steps::{self, Flowing, JoinProgress, JoinSet, Kind, Parking, Pick, Row, Then};
use super::{has_ended, new_instances, pick};
use outlast_core::{
    ChildRange, Due, EventKind, Flowing as Next, Instance, InstanceId, JoinSet as Part, JoinSets,
    NewEvent, NewView, Outcome, Park, Proceed, Timestamp,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fits the outcome to the kind of the instance, except sometimes.
///
/// A workflow parks on children where a machine fans out. A machine advances where a workflow
/// continues as new.
pub(super) fn fitting(kind: &Kind, n: Pick, row: &Instance) -> Kind {
    let fitting = match row.machine == steps::WORKFLOW {
        true => of_workflow(kind, row.round > 0),
        false => of_machine(kind, row.round > 0),
    };
    let fitting = fitting.filter(|_| !n.is_multiple_of(16));
    fitting.unwrap_or_else(|| kind.clone())
}

/// Starts rounds one after another, so that children of an older round can meet a newer one.
fn of_workflow(kind: &Kind, has_rounds: bool) -> Option<Kind> {
    let one_more = || match has_rounds {
        true => vec![Row::plain()],
        false => Vec::new(),
    };
    let (rows, window, then) = match kind {
        Kind::Keep => (one_more(), None, Then::Keep),
        Kind::Requeue => (one_more(), None, Then::Park(Parking::plain())),
        Kind::FanOut(rows, joining) => {
            let window = joining.join().window;
            (rows.clone(), window, Then::Park(Parking::plain()))
        }
        Kind::Retry { .. }
        | Kind::Wait { .. }
        | Kind::Flow(_)
        | Kind::Renew
        | Kind::Done
        | Kind::Stop
        | Kind::Cancel
        | Kind::EndlessSleep
        | Kind::EndlessPark
        | Kind::NamelessStep => return None,
    };
    Some(Kind::Flow(Flowing { rows, window, then }))
}

fn of_machine(kind: &Kind, has_rounds: bool) -> Option<Kind> {
    let one_more = || Kind::FanOut(vec![Row::plain()], JoinProgress::plain());
    match kind {
        Kind::Keep | Kind::Requeue => has_rounds.then(one_more),
        Kind::Flow(flowing) => Some(Kind::FanOut(flowing.rows.clone(), JoinProgress::plain())),
        Kind::Renew => Some(Kind::Requeue),
        Kind::FanOut(..)
        | Kind::Retry { .. }
        | Kind::Wait { .. }
        | Kind::Done
        | Kind::Stop
        | Kind::Cancel
        | Kind::EndlessSleep
        | Kind::EndlessPark
        | Kind::NamelessStep => None,
    }
}

pub(super) fn flow(flowing: &Flowing, id: InstanceId, state: &State, now: Timestamp) -> Outcome {
    Outcome::Flow {
        children: new_instances(&flowing.rows, now),
        window: flowing.window,
        then: match &flowing.then {
            Then::Keep => Next::Proceed(Proceed::KeepClaim),
            Then::Requeue => Next::Proceed(Proceed::Requeue),
            Then::Park(parking) => Next::Park(park(parking, flowing.rows.len(), id, state, now)),
        },
    }
}

/// Makes a park that can be woken. A park for nothing else waits five seconds.
fn park(parking: &Parking, starts: usize, id: InstanceId, state: &State, now: Timestamp) -> Park {
    let names = steps::names(parking.names);
    let mut ends = parking.ends.clone();
    if let Some(ends) = ends.as_mut().filter(|_| parking.needs_all) {
        // One join set: a park that needs all can have no more.
        ends.sets -= ends.sets % 3;
    }
    let ends = ends.and_then(|it| awaited(&it, starts, id, state));
    let deadline = parking.deadline.map(|seconds| {
        let time = Duration::from_secs(seconds.unsigned_abs());
        match seconds {
            0.. => Due::After(time),
            _ => Due::At(now - time),
        }
    });
    let endless = names.is_empty() && ends.is_none();
    Park {
        names,
        deadline: match deadline {
            None if endless => Some(Due::After(Duration::from_secs(5))),
            deadline => deadline,
        },
        join_sets: ends,
        needs_all: parking.needs_all,
    }
}

/// Makes join sets that wait for no more children than they contain: more would never finish.
fn awaited(wanted: &JoinSet, starts: usize, id: InstanceId, state: &State) -> Option<JoinSets> {
    let round = state.instance(id)?.round;
    let children = state.instances.iter();
    let children = children.filter(|row| row.parent.is_some_and(|it| it.id == id));
    let (ended, living): (Vec<&Instance>, Vec<&Instance>) = children.partition(|it| has_ended(it));
    let is_wanted = |n: usize| wanted.living & (1 << (n % 4)) != 0;
    let living = living.into_iter().enumerate();
    let mut chosen: Vec<&Instance> = living
        .filter(|(n, _)| is_wanted(*n))
        .map(|(_, row)| row)
        .collect();
    chosen.extend(wanted.ended.and_then(|n| pick(&ended, n).copied()));
    let mut places: Vec<Place> = chosen.into_iter().filter_map(Place::of).collect();
    if wanted.started {
        let new = (0..).take(starts).map(|position| Place {
            round: round + 1,
            position,
            id: None,
        });
        places.extend(new);
    }
    let sets = divided(&places, wanted.sets);
    let sets = sets.into_iter().filter(|part| !part.is_empty());
    let sets: Vec<Part> = sets
        .map(|part| awaited_part(&part, wanted))
        .collect::<Option<_>>()?;
    (!sets.is_empty()).then_some(JoinSets { sets })
}

/// The position of an awaited child, and its id if it was started before.
#[derive(Clone, Copy)]
struct Place {
    round: i32,
    position: i32,
    id: Option<InstanceId>,
}

impl Place {
    fn of(row: &Instance) -> Option<Place> {
        Some(Place {
            round: row.parent?.round,
            position: row.position?,
            id: Some(row.id),
        })
    }
}

/// Divides children into up to three join sets, in blocks or in turn.
///
/// In turn, their ranges overlap. Sometimes all of them also contain the same child.
fn divided(places: &[Place], how: Pick) -> Vec<Vec<Place>> {
    let n = 1 + how % 3;
    let mut sets = vec![Vec::new(); n];
    for (at, place) in places.iter().enumerate() {
        let part = match (how / 3).is_multiple_of(2) {
            true => at * n / places.len(),
            false => at % n,
        };
        sets[part].push(*place);
    }
    if how.is_multiple_of(5)
        && let Some(common) = places.first()
    {
        sets[1..].iter_mut().for_each(|part| part.push(*common));
    }
    sets
}

fn awaited_part(places: &[Place], wanted: &JoinSet) -> Option<Part> {
    let count = match wanted.count % 3 {
        0 | 1 => places.len(),
        _ => 1 + wanted.count % places.len(),
    };
    let mut ranges: BTreeMap<i32, ChildRange> = BTreeMap::new();
    for &Place {
        round, position, ..
    } in places
    {
        let span = ranges.entry(round).or_insert(ChildRange {
            round,
            first: position,
            last: position,
        });
        span.first = span.first.min(position);
        span.last = span.last.max(position);
    }
    let is_whole = wanted.sets.is_multiple_of(4);
    let ranges = ranges.into_values().map(|span| match is_whole {
        true => ChildRange::whole(span.round),
        false => span,
    });
    Some(Part {
        ranges: ranges.collect(),
        children: places.iter().filter_map(|place| place.id).collect(),
        count: i32::try_from(count).ok()?,
    })
}

/// Makes views for an outcome with `events` events, often the same ones again.
pub(super) fn views(events: usize, seed: Pick) -> Vec<NewView> {
    // An outcome without events may be that of an instance without a history.
    let count = if events == 0 { 0 } else { seed % 3 };
    let view = |n: usize| NewView {
        name: ["progress", "stage"][n].to_owned(),
        data: steps::state(["one", "two", "three"][seed / 3 % 3]),
    };
    (0..count).map(view).collect()
}

/// Makes `n` events, some with a time before `now`.
pub(super) fn events(n: usize, seed: Pick, now: Timestamp) -> Vec<NewEvent> {
    let kinds = EventKind::ALL.iter().cycle().skip(seed);
    let event = |(n, kind): (usize, &EventKind)| NewEvent {
        kind: *kind,
        call: i32::try_from((seed + n) % 4).ok().filter(|call| *call > 0),
        name: ["", "reserve", "pack"][(seed + n) % 3].to_owned(),
        data: steps::state("told"),
        at: (seed % 3 == 1).then(|| now - Duration::from_secs(1)),
    };
    kinds.take(n).enumerate().map(event).collect()
}
