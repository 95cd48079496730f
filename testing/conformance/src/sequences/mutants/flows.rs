//! The changes that the mutants of workflows make.

use super::{Mutant, Mutation};
use crate::model::Tables;
use outlast_core::*;

impl Mutant {
    /// Changes one outcome before the model sees it.
    pub(super) fn bend_flow(&self, commit: &mut Commit) {
        let is_flow = matches!(commit.outcome, Outcome::Flow { .. });
        if self.is(Mutation::DropsEventsOfMachines) && !is_flow {
            commit.events.clear();
        }
        if self.is(Mutation::DatesEventsByTheCommit) {
            commit.events.iter_mut().for_each(|it| it.at = None);
        }
        if self.is(Mutation::WakesByTheFirstEvent)
            && let Outcome::Flow {
                then: Flowing::Park(park),
                ..
            } = &mut commit.outcome
        {
            park.needs_all = false;
        }
        if self.is(Mutation::ParksWithoutLooking)
            && let Outcome::Flow {
                then:
                    Flowing::Park(Park {
                        join_sets: Some(ends),
                        ..
                    }),
                ..
            } = &mut commit.outcome
        {
            let sets = ends.sets.iter_mut();
            sets.for_each(|part| part.children.clear());
        }
    }

    /// Changes the rows that a verb with these outcomes must see wrongly.
    pub(super) fn hide(&self, commits: &[Commit], tables: &mut Tables) {
        for row in tables.instances.values_mut() {
            let waits = row.status == Status::AwaitingChildren;
            if self.is(Mutation::CountsEveryRound) && waits {
                let rounds = (1..=row.round).map(ChildRange::whole);
                let sets = row.joining.iter_mut().flatten();
                sets.for_each(|part| part.ranges = rounds.clone().collect());
            }
            if self.is(Mutation::CountsJoinSetsTogether) && waits {
                let sets = row.joining.as_deref_mut().unwrap_or_default();
                let all: Vec<ChildRange> =
                    sets.iter().flat_map(|part| part.ranges.clone()).collect();
                sets.iter_mut().for_each(|part| part.ranges = all.clone());
            }
            if self.is(Mutation::CountsAwaitedFailuresAsSuccesses)
                && is_bad(row)
                && is_awaited(row, commits)
            {
                row.status = Status::Done;
            }
            if self.is(Mutation::ParksDespiteCancels) && flows_on(row, commits) {
                row.cancel = None;
            }
        }
    }

    /// Restores the rows that [`hide`](Mutant::hide) has changed.
    pub(super) fn unhide(&self, before: &Tables, commits: &[Commit], after: &mut Tables) {
        for (id, old) in &before.instances {
            let Some(row) = after.instances.get_mut(id) else {
                continue;
            };
            let is_untouched = row.revision == old.revision;
            let counts_others =
                self.is(Mutation::CountsEveryRound) || self.is(Mutation::CountsJoinSetsTogether);
            if counts_others && is_untouched {
                let sets = row.joining.iter_mut().flatten();
                for (part, old) in sets.zip(old.joining.iter().flatten()) {
                    part.ranges.clone_from(&old.ranges);
                }
            }
            if self.is(Mutation::CountsAwaitedFailuresAsSuccesses) && is_untouched && is_bad(old) {
                row.status = old.status;
            }
            if self.is(Mutation::ParksDespiteCancels) && flows_on(old, commits) {
                row.cancel.clone_from(&old.cancel);
            }
        }
    }
}

/// Whether one of these outcomes waits for the row.
fn is_awaited(row: &Instance, commits: &[Commit]) -> bool {
    let parks = commits.iter().filter_map(|it| it.outcome.park());
    let mut ends = parks.filter_map(|park| park.join_sets.as_ref());
    ends.any(|ends| ends.children().contains(&row.id))
}

/// Whether one of these outcomes parks it or starts children without answering a cancel.
fn flows_on(row: &Instance, commits: &[Commit]) -> bool {
    let is_meant = |it: &&Commit| it.claim.id == row.id && !it.answers_cancel;
    let outcomes = commits.iter().filter(is_meant).map(|it| &it.outcome);
    let begins = |it: &Outcome| it.park().is_some() || it.begins_round() && !it.is_fan_out();
    outcomes.filter(|it| begins(it)).count() > 0
}

fn is_bad(row: &Instance) -> bool {
    matches!(row.status, Status::Failed | Status::Cancelled)
}

/// Writes the events of outcomes that were lost.
pub(super) fn write_lost_events(commits: &[Commit], answers: &[Answer], after: &mut Tables) {
    for (commit, answer) in commits.iter().zip(answers) {
        let Some(row) = after.instances.get_mut(&commit.claim.id) else {
            continue;
        };
        if *answer != Answer::Lost {
            continue;
        }
        for event in &commit.events {
            row.events += 1;
            after.histories.entry(row.id).or_default().push(Event {
                run: row.run,
                seq: row.events,
                at: row.updated_at,
                kind: event.kind,
                call: event.call,
                name: event.name.clone(),
                data: event.data.clone(),
            });
        }
    }
}

/// Makes a new run another attempt of the same visit.
pub(super) fn stay_in_visits(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && new.run > old.run
        {
            new.entered = old.entered;
        }
    }
}

/// Keeps the timeout of the run before a new run.
pub(super) fn keep_run_timeouts(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && new.run > old.run
        {
            new.run_timeout_at = old.run_timeout_at;
        }
    }
}

/// Makes parents wait for children that were dropped.
pub(super) fn wait_for_dropped_children(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && new.round > old.round
            && !new.dropped.is_empty()
            && let Some(barrier) = new.barrier.as_mut()
            && new.joining.is_some()
            && barrier.joined == Some(Joined::Failure)
            && barrier.failed == 0
        {
            barrier.joined = None;
            new.status = Status::AwaitingChildren;
        }
    }
}

/// Keeps the histories of removed instances.
pub(super) fn keep_histories(before: &Tables, after: &mut Tables) {
    for (id, history) in &before.histories {
        let kept = after.histories.entry(*id);
        kept.or_insert_with(|| history.clone());
    }
}
