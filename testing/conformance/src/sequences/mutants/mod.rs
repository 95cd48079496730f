//! Mutants: stores that break one rule each.
//!
//! The comparison must catch every one of them. A checker that has never failed proves nothing.

mod family;
mod flows;
mod store;
mod updates;

use super::shrink::{Found, try_seed, try_unshrunk};
use super::{USUAL_SEQUENCES, USUAL_VERBS};
use crate::model::Tables;
use crate::{Model, Subject};
use outlast_core::*;

/// The rule that a mutant breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Defect 3 (docs/protocol.md): an outcome is written although its claim is lost.
    ForgetsTheFence,
    /// Defect 5 (docs/protocol.md): siblings that finish in one batch count once.
    CountsSiblingsOnce,
    /// Defect 6 (docs/protocol.md): a finished child of an older round counts.
    CountsOlderRounds,
    /// Defect 6 (docs/protocol.md): a dropped child vanishes silently.
    HidesDroppedChildren,
    /// Defect 6 (docs/protocol.md): results are collected before the join.
    CollectsChildrenOfLiveParents,
    /// I6: a parent does not wait for a child that was retried in time.
    ForgetsRetriedChildren,
    /// Defect 9 (docs/protocol.md): a consumed dedup key is accepted again.
    ForgetsConsumedKeys,
    /// Defect 10 (docs/protocol.md): a signal to a finished instance is accepted.
    SignalsFinishedInstances,
    /// Defect 11 (docs/protocol.md): a signal that the step received wakes it again.
    WakesOnReceivedSignals,
    /// I7: progress also consumes signals that arrived after the claim.
    ConsumesLaterSignals,
    /// I3: the replies of a lost outcome are written.
    RepliesWithoutAClaim,
    /// I7: the last reply to an update stands.
    LetsTheLastReplyStand,
    /// An answered update stays in the inbox of a step that waits.
    KeepsAnsweredUpdates,
    /// An update that an end left unanswered is pending again after a retry.
    RevivesUpdates,
    /// A kept claim is not told of signals that arrived after it.
    NotesNoSignalOfRunningSteps,
    /// Defect 4 (docs/protocol.md): a key comes back with its status.
    TakesKeysBack,
    /// I8: rows of one partition key run side by side.
    IgnoresPartitionKeys,
    /// I10: rows are claimed five seconds early.
    ClaimsEarly,
    /// I10: deadlines fire five seconds early.
    FiresEarly,
    /// I10: instances time out five seconds early.
    TimesOutEarly,
    /// I3: a timeout leaves the claim of the running step valid.
    TimesOutWithinTheRevision,
    /// The timeout of a run goes on in the next run.
    KeepsRunTimeouts,
    /// A wake leaves the deadline behind.
    KeepsDeadlines,
    /// Defect 14 (docs/protocol.md): crashes are not counted.
    ForgetsCrashes,
    /// Section 5 of docs/specification.md: a retry forgets the awaited names.
    ForgetsAwaitsOnRetry,
    /// I4: an operator's verb records no operation.
    RecordsNothing,
    /// Claims ignore that a queue is paused.
    IgnoresPauses,
    /// The second of two equal claims in a batch is not answered as lost.
    ClaimsDoubleSuccess,
    /// A retry counts as another visit of its step.
    BeginsAVisitOnRetry,
    /// A wait stays in the previous visit.
    StaysInThePreviousVisit,
    /// A child loses the trace that it was given.
    ForgetsTheTraceOfChildren,
    /// I7: the signal that starts its target is missing from the inbox.
    DropsTheSignalThatStarts,
    /// I9: a finished holder that keeps its key is replaced.
    ReplacesEndedHolders,
    /// A delivery claims woken instances of a paused queue.
    ClaimsOnDeliveryFromPausedQueues,
    /// I7: a claim that a delivery makes comes without its inbox.
    ClaimsOnDeliveryWithoutTheInbox,
    /// I13: a cancel is answered and forgotten.
    ForgetsCancels,
    /// A cancel takes the claim away from a running step.
    LosesClaimsOfCancelledInstances,
    /// A retried instance keeps its cancel.
    KeepsCancelsOnRetry,
    /// A retried instance keeps its error value.
    KeepsErrorValuesOnRetry,
    /// A failed instance has no error value.
    ForgetsErrorValues,
    /// I13: any outcome counts as the answer to a cancel.
    AnswersCancelsByAnyOutcome,
    /// A retried answer to a cancel counts as an answer.
    AnswersCancelsByRetry,
    /// I13: the end of a parent affects no children.
    ForgetsPolicies,
    /// I13: a cascade stops after its first batch.
    CascadesOneBatch,
    /// A cascade always reports that nothing is left.
    ReportsThatCascadesEnded,
    /// I13: a cascade reaches children that were started later.
    CascadesToLaterChildren,
    /// A parent is collected before its cascade has run.
    CollectsBeforeTheCascade,
    /// I2: the place of a finished child goes to no other.
    AdmitsNoOtherChild,
    /// One finished child gives every sibling a place.
    AdmitsAllSiblings,
    /// A child that waits for a place is claimed.
    ClaimsWithoutAPlace,
    /// I6: failed children count as successful ones.
    ForgetsFailures,
    /// The first failure changes.
    MovesTheFirstFailure,
    /// The outcome of a machine writes no events.
    DropsEventsOfMachines,
    /// Every event gets the time of the commit.
    DatesEventsByTheCommit,
    /// I3: the events of a lost outcome are written.
    WritesEventsOfLostOutcomes,
    /// A history outlives its instance.
    KeepsHistoriesOfRemovedInstances,
    /// A new run starts no new visit.
    RenewsWithinTheVisit,
    /// I2: a park misses children that have finished meanwhile.
    ParksWithoutLooking,
    /// A park counts failed children as successful ones.
    CountsAwaitedFailuresAsSuccesses,
    /// I2: a parent waits for a child that was not started.
    WaitsForDroppedChildren,
    /// I6: a finished child counts although the workflow does not wait for its round.
    CountsEveryRound,
    /// A finished child counts for every join set of a workflow.
    CountsJoinSetsTogether,
    /// The first event wakes a park that needs all.
    WakesByTheFirstEvent,
    /// I2: a signal does not wake a workflow that also waits for children.
    SleepsThroughSignals,
    /// A workflow waits for a retried child, as a machine does.
    CountsRetriedChildrenOfWorkflows,
    /// A claim of a workflow carries the children of its last round.
    HandsOutChildrenOfWorkflows,
    /// I13: a workflow parks despite an unanswered cancel.
    ParksDespiteCancels,
}

const ALL: [Mutation; 67] = [
    Mutation::ForgetsTheFence,
    Mutation::CountsSiblingsOnce,
    Mutation::CountsOlderRounds,
    Mutation::HidesDroppedChildren,
    Mutation::CollectsChildrenOfLiveParents,
    Mutation::ForgetsRetriedChildren,
    Mutation::ForgetsConsumedKeys,
    Mutation::SignalsFinishedInstances,
    Mutation::WakesOnReceivedSignals,
    Mutation::ConsumesLaterSignals,
    Mutation::RepliesWithoutAClaim,
    Mutation::LetsTheLastReplyStand,
    Mutation::KeepsAnsweredUpdates,
    Mutation::RevivesUpdates,
    Mutation::NotesNoSignalOfRunningSteps,
    Mutation::TakesKeysBack,
    Mutation::IgnoresPartitionKeys,
    Mutation::ClaimsEarly,
    Mutation::FiresEarly,
    Mutation::TimesOutEarly,
    Mutation::TimesOutWithinTheRevision,
    Mutation::KeepsRunTimeouts,
    Mutation::KeepsDeadlines,
    Mutation::ForgetsCrashes,
    Mutation::ForgetsAwaitsOnRetry,
    Mutation::RecordsNothing,
    Mutation::IgnoresPauses,
    Mutation::ClaimsDoubleSuccess,
    Mutation::BeginsAVisitOnRetry,
    Mutation::StaysInThePreviousVisit,
    Mutation::ForgetsTheTraceOfChildren,
    Mutation::DropsTheSignalThatStarts,
    Mutation::ReplacesEndedHolders,
    Mutation::ClaimsOnDeliveryFromPausedQueues,
    Mutation::ClaimsOnDeliveryWithoutTheInbox,
    Mutation::ForgetsCancels,
    Mutation::LosesClaimsOfCancelledInstances,
    Mutation::KeepsCancelsOnRetry,
    Mutation::KeepsErrorValuesOnRetry,
    Mutation::ForgetsErrorValues,
    Mutation::AnswersCancelsByAnyOutcome,
    Mutation::AnswersCancelsByRetry,
    Mutation::ForgetsPolicies,
    Mutation::CascadesOneBatch,
    Mutation::ReportsThatCascadesEnded,
    Mutation::CascadesToLaterChildren,
    Mutation::CollectsBeforeTheCascade,
    Mutation::AdmitsNoOtherChild,
    Mutation::AdmitsAllSiblings,
    Mutation::ClaimsWithoutAPlace,
    Mutation::ForgetsFailures,
    Mutation::MovesTheFirstFailure,
    Mutation::DropsEventsOfMachines,
    Mutation::DatesEventsByTheCommit,
    Mutation::WritesEventsOfLostOutcomes,
    Mutation::KeepsHistoriesOfRemovedInstances,
    Mutation::RenewsWithinTheVisit,
    Mutation::ParksWithoutLooking,
    Mutation::CountsAwaitedFailuresAsSuccesses,
    Mutation::WaitsForDroppedChildren,
    Mutation::CountsEveryRound,
    Mutation::CountsJoinSetsTogether,
    Mutation::WakesByTheFirstEvent,
    Mutation::SleepsThroughSignals,
    Mutation::CountsRetriedChildrenOfWorkflows,
    Mutation::HandsOutChildrenOfWorkflows,
    Mutation::ParksDespiteCancels,
];

#[tokio::test]
async fn every_mutant_is_caught_by_a_run_of_the_usual_size() {
    let mut survivors = Vec::new();
    for mutation in ALL {
        if !is_caught(mutation).await {
            survivors.push(mutation);
        }
    }
    assert_eq!(survivors, []);
}

async fn is_caught(mutation: Mutation) -> bool {
    let open = async |clock| open(mutation, clock);
    for seed in 0..USUAL_SEQUENCES {
        if try_unshrunk(&open, seed, USUAL_VERBS).await.is_err() {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_failing_sequence_is_shrunk_and_its_seed_replays_it() {
    let open = async |clock| open(Mutation::ForgetsTheFence, clock);
    let mut seed = 0;
    let long: Found = loop {
        match try_unshrunk(&open, seed, USUAL_VERBS).await {
            Ok(_) => seed += 1,
            Err(found) => break found,
        }
    };
    let failure = try_seed(&open, seed, USUAL_VERBS).await.unwrap_err();
    assert!(failure.found.trail.len() <= 12, "{failure}");
    assert!(failure.found.trail.len() < long.trail.len(), "{failure}");
    let text = failure.to_string();
    assert!(text.contains(&format!("OUTLAST_SEED={seed} ")), "{text}");
    assert!(text.contains("lost") || text.contains("Lost"), "{text}");
    let again = try_seed(&open, seed, USUAL_VERBS).await.unwrap_err();
    assert_eq!(again.to_string(), text);
}

fn open(mutation: Mutation, clock: ManualClock) -> Subject {
    let model = Model::new(clock.clone());
    Subject::new(Mutant { model, mutation }, clock)
}

/// The model, except for one rule.
struct Mutant {
    model: Model,
    mutation: Mutation,
}

impl Mutant {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    /// Changes the tables directly, past every rule.
    fn tamper<T>(&self, tampering: impl FnOnce(&mut Tables) -> T) -> T {
        let tampered = self
            .model
            .alone("tamper", |tables, _| Ok(tampering(tables)));
        tampered.expect("the model is open")
    }

    fn tables(&self) -> Tables {
        self.tamper(|tables| tables.clone())
    }

    /// Changes the tables after a verb, for mutations of several verbs.
    fn spoil(&self, before: &Tables) {
        let mutation = self.mutation;
        self.tamper(|tables| match mutation {
            Mutation::CountsSiblingsOnce => count_siblings_once(before, tables),
            Mutation::CountsOlderRounds => count_older_rounds(before, tables),
            Mutation::TakesKeysBack => take_keys_back(tables),
            Mutation::ForgetsConsumedKeys => {
                tables.signals.retain(|_, it| it.consumed_at.is_none());
            }
            Mutation::HidesDroppedChildren => {
                tables
                    .instances
                    .values_mut()
                    .for_each(|it| it.dropped.clear());
            }
            Mutation::RecordsNothing => tables.operations.clear(),
            Mutation::ForgetsErrorValues => forget_error_values(tables),
            Mutation::BeginsAVisitOnRetry => begin_visits(before, tables),
            Mutation::StaysInThePreviousVisit => stay_in_visits(before, tables),
            Mutation::ForgetsTheTraceOfChildren => {
                let rows = tables.instances.values_mut();
                rows.filter(|it| it.parent.is_some())
                    .for_each(|it| it.trace = None);
            }
            Mutation::ForgetsPolicies => family::forget_policies(tables),
            Mutation::AdmitsNoOtherChild => family::take_places_away(before, tables),
            Mutation::AdmitsAllSiblings => family::admit_all_siblings(before, tables),
            Mutation::ForgetsFailures => family::forget_failures(tables),
            Mutation::MovesTheFirstFailure => family::move_first_failures(tables),
            Mutation::KeepsRunTimeouts => flows::keep_run_timeouts(before, tables),
            Mutation::RenewsWithinTheVisit => flows::stay_in_visits(before, tables),
            Mutation::WaitsForDroppedChildren => flows::wait_for_dropped_children(before, tables),
            Mutation::ForgetsTheFence
            | Mutation::CollectsChildrenOfLiveParents
            | Mutation::ForgetsRetriedChildren
            | Mutation::SignalsFinishedInstances
            | Mutation::WakesOnReceivedSignals
            | Mutation::ConsumesLaterSignals
            | Mutation::IgnoresPartitionKeys
            | Mutation::ClaimsEarly
            | Mutation::RepliesWithoutAClaim
            | Mutation::LetsTheLastReplyStand
            | Mutation::KeepsAnsweredUpdates
            | Mutation::RevivesUpdates
            | Mutation::NotesNoSignalOfRunningSteps
            | Mutation::FiresEarly
            | Mutation::TimesOutEarly
            | Mutation::TimesOutWithinTheRevision
            | Mutation::KeepsDeadlines
            | Mutation::ForgetsCrashes
            | Mutation::ForgetsAwaitsOnRetry
            | Mutation::IgnoresPauses
            | Mutation::ClaimsDoubleSuccess
            | Mutation::DropsTheSignalThatStarts
            | Mutation::ReplacesEndedHolders
            | Mutation::ClaimsOnDeliveryFromPausedQueues
            | Mutation::ClaimsOnDeliveryWithoutTheInbox
            | Mutation::ForgetsCancels
            | Mutation::LosesClaimsOfCancelledInstances
            | Mutation::KeepsCancelsOnRetry
            | Mutation::KeepsErrorValuesOnRetry
            | Mutation::AnswersCancelsByAnyOutcome
            | Mutation::AnswersCancelsByRetry
            | Mutation::CascadesOneBatch
            | Mutation::ReportsThatCascadesEnded
            | Mutation::CascadesToLaterChildren
            | Mutation::CollectsBeforeTheCascade
            | Mutation::ClaimsWithoutAPlace
            | Mutation::DropsEventsOfMachines
            | Mutation::DatesEventsByTheCommit
            | Mutation::WritesEventsOfLostOutcomes
            | Mutation::KeepsHistoriesOfRemovedInstances
            | Mutation::ParksWithoutLooking
            | Mutation::CountsAwaitedFailuresAsSuccesses
            | Mutation::CountsEveryRound
            | Mutation::CountsJoinSetsTogether
            | Mutation::WakesByTheFirstEvent
            | Mutation::SleepsThroughSignals
            | Mutation::CountsRetriedChildrenOfWorkflows
            | Mutation::HandsOutChildrenOfWorkflows
            | Mutation::ParksDespiteCancels => {}
        });
    }

    /// Moves the moments at which instances time out.
    fn shift_timeouts(&self, to: impl Fn(Timestamp) -> Timestamp) {
        self.tamper(|tables| {
            for row in tables.instances.values_mut() {
                row.timeout_at = row.timeout_at.map(&to);
                row.run_timeout_at = row.run_timeout_at.map(&to);
            }
        });
    }

    /// Changes a batch of outcomes before the model sees it.
    fn bend(&self, commits: &mut [Commit], tables: &Tables) {
        for commit in commits {
            let Some(row) = tables.instances.get(&commit.claim.id) else {
                continue;
            };
            if self.is(Mutation::ForgetsTheFence) && row.status == Status::Executing {
                commit.claim.revision = row.revision;
            }
            self.bend_flow(commit);
            if self.is(Mutation::AnswersCancelsByAnyOutcome) {
                commit.answers_cancel = true;
            }
            let waits = matches!(commit.outcome, Outcome::Wait { .. });
            if self.is(Mutation::WakesOnReceivedSignals) && waits {
                commit.received.clear();
            }
            if self.is(Mutation::ConsumesLaterSignals) && !commit.received.is_empty() {
                let awaits = row.awaits.clone().unwrap_or_default();
                let latecomers = tables.signals.values();
                let latecomers = latecomers.filter(|it| it.target == row.id);
                let latecomers = latecomers.filter(|it| awaits.contains(&it.name));
                commit.received.extend(latecomers.map(|it| it.id));
            }
        }
    }
}

/// Counts one child for a parent of several children that finished.
fn count_siblings_once(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        let Some(new) = after.instances.get_mut(id) else {
            continue;
        };
        if old.children_pending - new.children_pending > 1 {
            new.children_pending = old.children_pending - 1;
            new.status = Status::AwaitingChildren;
        }
    }
}

/// Starts a visit where a step was retried.
fn begin_visits(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && new.attempt > old.attempt
        {
            new.entered = new.revision;
        }
    }
}

/// Keeps the visit where a step waits.
fn stay_in_visits(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && matches!(new.status, Status::AwaitingSignal | Status::Sleeping)
        {
            new.entered = old.entered;
        }
    }
}

fn count_older_rounds(before: &Tables, after: &mut Tables) {
    let ended: Vec<Parent> = after
        .instances
        .values()
        .filter(|row| row.status.is_terminal())
        .filter(|row| {
            let old = before.instances.get(&row.id);
            old.is_some_and(|old| !old.status.is_terminal())
        })
        .filter_map(|row| row.parent)
        .collect();
    for parent in ended {
        if let Some(row) = after.instances.get_mut(&parent.id)
            && row.status == Status::AwaitingChildren
            && row.round != parent.round
        {
            row.children_pending -= 1;
            if row.children_pending == 0 {
                row.status = Status::Runnable;
            }
        }
    }
}

fn forget_error_values(tables: &mut Tables) {
    let rows = tables.instances.values_mut();
    rows.filter(|row| row.status == Status::Failed)
        .for_each(|row| row.result = None);
}

fn take_keys_back(tables: &mut Tables) {
    for row in tables.instances.values_mut() {
        if let Some(scope) = row.correlation_scope {
            row.holds_key = scope.contains(row.status);
        }
    }
}
