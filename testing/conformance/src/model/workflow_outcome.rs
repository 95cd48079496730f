//! Outcomes of workflows.

use super::Tables;
use super::effects::{Effects, ended_badly};
use super::tables::{change_status, make_runnable};
use outlast_core::{
    Barrier, ClosePolicy, Due, Flowing, Instance, InstanceId, Join, JoinProgress, JoinSets, Joined,
    Json, NewInstance, Parent, Park, Proceed, QueueNames, SignalId, Status, Timestamp, Until,
};

impl Tables {
    /// Starts children, if there are any, and goes on or parks where it is.
    pub(super) fn flow(
        &mut self,
        id: InstanceId,
        received: &[SignalId],
        (children, window): (Vec<NewInstance>, Option<u32>),
        then: Flowing,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        self.consume(id, received, now);
        let starts = !children.is_empty();
        if starts {
            self.begin_round(id, children, window, now, effects);
        }
        let row = self.row(id);
        row.attempt = 0;
        row.last_error = None;
        row.awaits = None;
        // An end of a child that nobody waits for must not be counted.
        if starts || row.joining.is_some() {
            row.joining = Some(Vec::new());
        }
        match then {
            Flowing::Proceed(Proceed::KeepClaim) => {}
            Flowing::Proceed(Proceed::Requeue) => {
                row.locked_by = None;
                make_runnable(row, now, &mut effects.woken);
            }
            Flowing::Park(park) => {
                let window = window.filter(|_| starts);
                self.park_flow(id, park, (starts, window), now, &mut effects.woken);
            }
        }
    }

    fn begin_round(
        &mut self,
        id: InstanceId,
        children: Vec<NewInstance>,
        window: Option<u32>,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        let round = self.row(id).round + 1;
        let join = Join {
            window,
            ..Join::default()
        };
        let (_, dropped) = self.spawn(Parent { id, round }, children, join, now, effects);
        let row = self.row(id);
        row.round = round;
        row.dropped = dropped;
        row.barrier = row.barrier.or(Some(unjoined()));
    }

    /// Parks, unless something of what it waits for is there.
    fn park_flow(
        &mut self,
        id: InstanceId,
        park: Park,
        (starts, window): (bool, Option<u32>),
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        let is_signalled = self
            .inbox(id)
            .any(|signal| park.names.contains(&signal.name));
        let ends = park.ends.map(|ends| (self.look_at(&ends), ends));
        let row = self.row(id);
        row.locked_by = None;
        row.eligible_at = now;
        row.awaits = Some(park.names).filter(|names| !names.is_empty());
        let mut status = Status::AwaitingSignal.derived(row.awaits.is_some());
        if let Some((seen, ends)) = ends {
            status = Status::AwaitingChildren;
            let is_short = starts && !row.dropped.is_empty() && ends.awaits_round(row.round);
            await_ends(row, seen, ends, is_short, window);
        }
        let is_joined =
            status == Status::AwaitingChildren && row.barrier.is_some_and(|it| it.joined.is_some());
        if is_signalled || is_joined {
            make_runnable(row, now, woken);
        } else {
            change_status(row, status);
            row.await_deadline = park.deadline.map(|due| match due {
                Due::After(delay) => now + delay,
                Due::At(moment) => moment,
            });
        }
    }

    /// How the awaited children of earlier commits stand, before anything of this batch has ended.
    fn look_at(&self, ends: &JoinSets) -> Seen {
        let mut seen = Seen::default();
        for id in ends.children() {
            match self.instances.get(&id) {
                None => seen.gone += 1,
                Some(row) => seen.bad += i32::from(ended_badly(row)),
            }
        }
        for part in &ends.parts {
            let has_ended = |id: &&InstanceId| {
                let row = self.instances.get(id);
                row.is_some_and(|row| row.status.is_terminal())
            };
            let ended = part.children.iter().filter(has_ended).count();
            seen.ended.push(i32::try_from(ended).unwrap_or(i32::MAX));
        }
        seen
    }

    /// Another run of the same instance.
    pub(super) fn renew(
        &mut self,
        id: InstanceId,
        received: &[SignalId],
        state: Json,
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        self.consume(id, received, now);
        let row = self.row(id);
        row.run += 1;
        row.events = 0;
        row.state = state;
        row.entered = row.revision;
        row.attempt = 0;
        row.last_error = None;
        row.awaits = None;
        row.locked_by = None;
        make_runnable(row, now, woken);
        let present = row.run;
        self.forget_runs(id, present);
    }
}

/// What a park finds of the children it waits for.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// How many of each part have ended, well or badly.
    ended: Vec<i32>,
    /// Have failed or were cancelled.
    bad: i32,
    /// Are no longer stored.
    gone: i32,
}

/// What is left of the part that is nearest.
pub(super) fn least(parts: &[JoinProgress]) -> i32 {
    let left = parts.iter().map(|part| part.left);
    left.min().unwrap_or_default()
}

/// Counts from what is left, and decides at once if nothing is.
fn await_ends(row: &mut Instance, seen: Seen, ends: JoinSets, is_short: bool, window: Option<u32>) {
    let started = ends.least();
    let parts = ends.parts.into_iter().zip(seen.ended);
    let parts = parts.map(|(part, ended)| JoinProgress {
        spans: part.spans,
        left: (part.count - ended).max(0),
    });
    let parts: Vec<JoinProgress> = parts.collect();
    let left = least(&parts);
    let joined = if seen.bad > 0 || seen.gone > 0 || is_short {
        Some(Joined::Failure)
    } else {
        (left == 0).then_some(Joined::All)
    };
    row.joining = Some(parts);
    row.children_pending = left;
    row.barrier = Some(Barrier {
        until: Until::FailFast,
        window,
        rest: ClosePolicy::Abandon,
        started,
        failed: seen.bad,
        first_failure: None,
        joined,
    });
}

/// The barrier of one that has started children and waited for none.
fn unjoined() -> Barrier {
    Barrier {
        until: Until::All,
        window: None,
        rest: ClosePolicy::Abandon,
        started: 0,
        failed: 0,
        first_failure: None,
        joined: None,
    }
}
