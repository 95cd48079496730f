//! What workflows decide.

use super::super::state::State;
use super::super::steps::{self, Awaited, Flowing, Joining, Kind, Parking, Pick, Row, Then};
use super::{has_ended, new_instances, pick};
use outlast_core::{
    Due, Ends, EventKind, Flowing as Next, Instance, InstanceId, NewEvent, Outcome, Park, Proceed,
    Timestamp,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The outcome as it fits the instance: a workflow flows where a machine fans out, and a machine goes on where a workflow
/// begins anew. Now and then it does not fit.
pub(super) fn fitting(kind: &Kind, n: Pick, row: &Instance) -> Kind {
    let fitting = match row.machine == steps::WORKFLOW {
        true => of_workflow(kind, row.round > 0),
        false => of_machine(kind, row.round > 0),
    };
    let fitting = fitting.filter(|_| !n.is_multiple_of(16));
    fitting.unwrap_or_else(|| kind.clone())
}

/// Rounds follow each other, so that what is left of an older one can meet a newer one.
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
    let one_more = || Kind::FanOut(vec![Row::plain()], Joining::plain());
    match kind {
        Kind::Keep | Kind::Requeue => has_rounds.then(one_more),
        Kind::Flow(flowing) => Some(Kind::FanOut(flowing.rows.clone(), Joining::plain())),
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

/// Something that can come: for nothing at all it waits five seconds.
fn park(parking: &Parking, starts: usize, id: InstanceId, state: &State, now: Timestamp) -> Park {
    let names = steps::names(parking.names);
    let ends = parking.ends.as_ref();
    let ends = ends.and_then(|it| awaited(it, starts, id, state));
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
        ends,
    }
}

/// At most as many ends as there are awaited children: more would never come.
fn awaited(wanted: &Awaited, starts: usize, id: InstanceId, state: &State) -> Option<Ends> {
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
    let rounds = chosen.iter().filter_map(|row| row.parent);
    let mut rounds: BTreeSet<i32> = rounds.map(|it| it.round).collect();
    let mut count = chosen.len();
    if wanted.started && starts > 0 {
        rounds.insert(round + 1);
        count += starts;
    }
    let count = match wanted.count % 3 {
        _ if count == 0 => return None,
        0 | 1 => count,
        _ => 1 + wanted.count % count,
    };
    Some(Ends {
        rounds: rounds.into_iter().collect(),
        children: chosen.into_iter().map(|row| row.id).collect(),
        count: i32::try_from(count).ok()?,
    })
}

/// So many events; some happened before they are told.
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
