//! The outcomes of workflows.

use super::Tables;
use super::effects::{Effects, ended_badly};
use super::tables::{change_status, make_runnable};
use outlast_core::{
    Barrier, ClosePolicy, Due, Flowing, Instance, InstanceId, Join, JoinProgress, JoinSets, Joined,
    Json, NewInstance, Parent, Park, Proceed, QueueNames, SignalId, Status, Timestamp, Until,
};

impl Tables {
    /// Starts the children, if any, and advances or parks the workflow.
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
        // A finished child must not be counted for a workflow that does not wait for it.
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

    /// Parks, unless the awaited event is already there.
    fn park_flow(
        &mut self,
        id: InstanceId,
        park: Park,
        (starts, window): (bool, Option<u32>),
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        let inbox: Vec<String> = self.inbox(id).map(|signal| signal.name.clone()).collect();
        let is_signalled = park.names.iter().any(|name| inbox.contains(name));
        let ends = park
            .join_sets
            .map(|ends| (self.check_children(&ends), ends));
        let deadline = park.deadline.map(|due| match due {
            Due::After(delay) => now + delay,
            Due::At(moment) => moment,
        });
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
        if park.needs_all {
            row.needs_all = true;
            row.await_deadline = deadline.filter(|deadline| *deadline > now);
            if let Some(awaits) = &mut row.awaits {
                awaits.retain(|name| !inbox.contains(name));
            }
            row.status = status;
            wake_if_complete(row, now, woken);
        } else if is_signalled || is_joined {
            make_runnable(row, now, woken);
        } else {
            change_status(row, status);
            row.await_deadline = deadline;
        }
    }

    /// Checks the awaited children, before any outcome of this batch finishes one.
    fn check_children(&self, ends: &JoinSets) -> Seen {
        let mut seen = Seen::default();
        for id in ends.children() {
            match self.instances.get(&id) {
                None => seen.gone += 1,
                Some(row) => seen.bad += i32::from(ended_badly(row)),
            }
        }
        for part in &ends.sets {
            let has_ended = |id: &&InstanceId| {
                let row = self.instances.get(id);
                row.is_some_and(|row| row.status.is_terminal())
            };
            let ended = part.children.iter().filter(has_ended).count();
            seen.ended.push(i32::try_from(ended).unwrap_or(i32::MAX));
        }
        seen
    }

    /// Starts the next run of the instance.
    pub(super) fn continue_as_new(
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
        self.restart_run_timeout(id, now);
        self.forget_runs(id, present);
    }
}

/// The state of the awaited children when a workflow parks.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The finished children of each join set, successful or not.
    ended: Vec<i32>,
    /// Children that failed or were cancelled.
    bad: i32,
    /// Children that are no longer stored.
    gone: i32,
}

/// Wakes a workflow that needs all, when nothing is missing or a child has failed.
///
/// Otherwise parks it for what is missing. Returns whether it was woken.
pub(super) fn wake_if_complete(row: &mut Instance, now: Timestamp, woken: &mut QueueNames) -> bool {
    let joined = row.barrier.and_then(|barrier| barrier.joined);
    let awaits_ends = row.status == Status::AwaitingChildren;
    if awaits_ends && joined.is_none() {
        change_status(row, Status::AwaitingChildren);
        return false;
    }
    let has_names = row.awaits.as_ref().is_some_and(|names| !names.is_empty());
    let is_due = row.await_deadline.is_none_or(|deadline| deadline <= now);
    let is_bad = awaits_ends && joined != Some(Joined::All);
    if is_bad || is_due && !has_names {
        make_runnable(row, now, woken);
        return true;
    }
    change_status(row, Status::AwaitingSignal.derived(has_names));
    false
}

/// Returns the pending children of the join set nearest to completion.
pub(super) fn least(sets: &[JoinProgress]) -> i32 {
    let left = sets.iter().map(|part| part.left);
    left.min().unwrap_or_default()
}

/// Sets the counts of a park.
///
/// Decides its join at once when a join set is complete or a child has failed.
fn await_ends(row: &mut Instance, seen: Seen, ends: JoinSets, is_short: bool, window: Option<u32>) {
    let started = ends.least();
    let sets = ends.sets.into_iter().zip(seen.ended);
    let sets = sets.map(|(part, ended)| JoinProgress {
        ranges: part.ranges,
        left: (part.count - ended).max(0),
    });
    let sets: Vec<JoinProgress> = sets.collect();
    let left = least(&sets);
    let joined = if seen.bad > 0 || seen.gone > 0 || is_short {
        Some(Joined::Failure)
    } else {
        (left == 0).then_some(Joined::All)
    };
    row.joining = Some(sets);
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

/// The barrier of a workflow that has started children and waited for none.
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
