//! Questions of `Inspect`, asked between the verbs of a sequence.
//!
//! Questions change no state that a verb reads. They are not drawn with the verbs, since that
//! would make the verbs rarer. Each question follows from its position in the sequence.

use super::calls::Call;
use super::state::State;
use super::steps::{self, QUEUES};
use outlast_core::{
    ClaimRef, Deadline, Delays, Filter, HistoryRequest, Instance, InstanceId, ListRequest,
    Revision, RunStats, Runs, Status, StepCountRequest, Timestamp, minute_of,
};
use std::time::Duration;

/// Returns the question at position `nth`.
pub(super) fn question(nth: usize, state: &State, now: Timestamp) -> Call {
    let mut dice = Dice(nth as u64);
    match dice.roll(9) {
        8 => Call::Inbox(claim(&mut dice, state)),
        0 => Call::Record(stats(&mut dice, now)),
        1 => Call::Rounds(any_instance(&mut dice, state)),
        5 => Call::CloseActions(any_parent(&mut dice, state)),
        6 => Call::Family(any_parent(&mut dice, state)),
        7 => Call::History(history(&mut dice, state)),
        2 => Call::StepCounts(StepCountRequest {
            after: dice.maybe(2, |dice| any_instance(dice, state)),
            limit: 1 + dice.roll(20),
        }),
        _ => Call::Search(ListRequest {
            filter: filter(&mut dice, state, now),
            before: dice.maybe(4, |dice| any_instance(dice, state)),
            limit: 1 + dice.roll(8),
            values: dice.roll(2) == 0,
        }),
    }
}

/// A claim that is held if possible, at its revision or at the one before.
fn claim(dice: &mut Dice, state: &State) -> ClaimRef {
    let executes = |row: &&Instance| row.status == Status::Executing;
    let rows: Vec<&Instance> = state.instances.iter().filter(executes).collect();
    match rows.is_empty() {
        true => ClaimRef {
            id: any_instance(dice, state),
            revision: Revision(1),
        },
        false => {
            let row = rows[dice.roll(rows.len())];
            ClaimRef {
                id: row.id,
                revision: Revision(row.revision.0 - i64::from(dice.roll(4) == 0)),
            }
        }
    }
}

/// A page of a history, of an instance that has one if possible.
fn history(dice: &mut Dice, state: &State) -> HistoryRequest {
    let has_history = |row: &&Instance| row.run > 1 || row.events > 0;
    let rows: Vec<&Instance> = state.instances.iter().filter(has_history).collect();
    let (id, run) = match rows.is_empty() {
        true => (any_instance(dice, state), 1),
        false => {
            let row = rows[dice.roll(rows.len())];
            (row.id, row.run - dice.roll(2) as i32)
        }
    };
    HistoryRequest {
        id,
        run,
        after: dice.roll(3) as i32,
        max: 1 + dice.roll(3),
    }
}

/// A filter. Each condition is present in some questions only.
fn filter(dice: &mut Dice, state: &State, now: Timestamp) -> Filter {
    let sets = ["un", "%", "not work", "bad"];
    let some_statuses = |dice: &mut Dice| {
        let statuses = Status::ALL.into_iter();
        statuses.filter(|_| dice.roll(2) == 0).collect()
    };
    let deadline = |dice: &mut Dice| match dice.roll(3) {
        0 => Deadline::None,
        _ => Deadline::Before(now + Duration::from_secs(dice.roll(30) as u64)),
    };
    let lately =
        |dice: &mut Dice| now + Duration::from_secs(1) - Duration::from_secs(dice.roll(60) as u64);
    Filter {
        machine: dice.maybe(4, |dice| steps::machine(dice.roll(2)).to_owned()),
        queue: dice.maybe(6, |dice| QUEUES[dice.roll(2)].to_owned()),
        // Executing instances have a separate index.
        statuses: match dice.roll(8) {
            0 => some_statuses(dice),
            1 => vec![Status::Executing],
            // Stores keep the next two as one status and report them as two.
            2 => vec![Status::Sleeping],
            3 => vec![Status::AwaitingSignal],
            _ => Vec::new(),
        },
        error: dice.maybe(5, |dice| sets[dice.roll(sets.len())].to_owned()),
        attempts_from: dice.maybe(5, |dice| dice.roll(3) as i32),
        deadline: dice.maybe(4, deadline),
        parent: dice.maybe(4, |dice| any_parent(dice, state)),
        ended_from: dice.maybe(6, lately),
        ended_until: dice.maybe(6, lately),
        ..Filter::default()
    }
}

/// Statistics of the last minutes, and sometimes of a time that is about to be removed.
fn stats(dice: &mut Dice, now: Timestamp) -> RunStats {
    let mut stats = RunStats::default();
    for _ in 0..1 + dice.roll(3) {
        let minutes_ago = match dice.roll(7) {
            0 => 1_400 + dice.roll(100),
            recent => recent / 3,
        };
        let minute = minute_of(now - Duration::from_secs(60 * minutes_ago as u64));
        let count = 1 + dice.roll(4) as u64;
        stats.runs.push(Runs {
            minute,
            machine: "a".into(),
            version: 1,
            step: ["start", "next"][dice.roll(2)].into(),
            outcome: "done".into(),
            next: String::new(),
            count,
            micros: 10 * count,
        });
        stats.delays.push(Delays {
            minute,
            queue: QUEUES[dice.roll(2)].into(),
            bin: count as u8,
            count,
        });
    }
    stats
}

/// A stored instance, or an unknown id when none is stored.
fn any_instance(dice: &mut Dice, state: &State) -> InstanceId {
    let rows = &state.instances;
    let row = (!rows.is_empty()).then(|| &rows[dice.roll(rows.len())]);
    row.map_or(InstanceId(0), |row| row.id)
}

/// An instance with children, if there is one.
fn any_parent(dice: &mut Dice, state: &State) -> InstanceId {
    let parents = state.instances.iter().filter_map(|row| row.parent);
    let parents: Vec<InstanceId> = parents.map(|parent| parent.id).collect();
    match parents.is_empty() {
        true => any_instance(dice, state),
        false => parents[dice.roll(parents.len())],
    }
}

/// A pseudo-random generator that is the same on every run.
struct Dice(u64);

impl Dice {
    /// Returns a number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        // Any odd factor with a shift of the high bits will do. The quality does not matter.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed >> 33) % sides as u64) as usize
    }

    /// Makes a value one time in `of`.
    fn maybe<T>(&mut self, of: usize, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        (self.roll(of) == 0).then(|| make(self))
    }
}
