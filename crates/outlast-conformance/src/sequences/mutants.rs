//! Stores that break one rule each. The comparison must catch every one of them: a checker that has never
//! failed proves nothing.

use super::shrink::{Found, try_seed, try_unshrunk};
use super::{USUAL_SEQUENCES, USUAL_VERBS};
use crate::model::Tables;
use crate::{Model, Subject};
use async_trait::async_trait;
use outlast_core::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// The rule a mutant breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// PROTOCOL §3 #3: an outcome is written whoever holds the claim now.
    ForgetsTheFence,
    /// PROTOCOL §3 #5: siblings that end in one batch count once.
    CountsSiblingsOnce,
    /// PROTOCOL §3 #6: the end of an older round's child counts.
    CountsOlderRounds,
    /// PROTOCOL §3 #6: a dropped child vanishes silently.
    HidesDroppedChildren,
    /// PROTOCOL §3 #6: results are collected before the join.
    CollectsChildrenOfTheLiving,
    /// I6: a child retried in time is not waited for.
    ForgetsRetriedChildren,
    /// PROTOCOL §3 #9: a consumed dedup key is accepted again.
    ForgetsConsumedKeys,
    /// PROTOCOL §3 #10: a signal to an ended instance is accepted.
    SignalsTheDead,
    /// PROTOCOL §3 #11: what the step was handed wakes it again.
    WakesOnWhatWasHandedOver,
    /// I7: progress consumes what came after the claim too.
    ConsumesLatecomers,
    /// PROTOCOL §3 #4: a key comes back with its status.
    TakesKeysBack,
    /// I8: rows of one key run side by side.
    IgnoresPartitionKeys,
    /// I10: rows are claimed five seconds early.
    ClaimsEarly,
    /// I10: deadlines come five seconds early.
    FiresEarly,
    /// A wake leaves the deadline behind.
    KeepsDeadlines,
    /// PROTOCOL §3 #14: crashes are not counted.
    ForgetsCrashes,
    /// §5: a retry forgets what was awaited.
    ForgetsAwaitsOnRetry,
    /// I4: an operator's act leaves no record.
    RecordsNothing,
    /// A pause is forgotten when the queue is asked.
    IgnoresPauses,
    /// The second of two equal claims in a batch is not answered as lost.
    ClaimsDoubleSuccess,
    /// A retry counts as another visit of its step.
    BeginsAVisitOnRetry,
    /// A wait stays in the visit before it.
    StaysInTheVisitBefore,
    /// A child has no trace, whatever it was given.
    ForgetsTheTraceOfChildren,
    /// I7: the signal that starts its target is not in the inbox.
    DropsTheSignalThatStarts,
    /// I9: an ended holder that keeps its key is replaced.
    ReplacesEndedHolders,
}

const ALL: [Mutation; 25] = [
    Mutation::ForgetsTheFence,
    Mutation::CountsSiblingsOnce,
    Mutation::CountsOlderRounds,
    Mutation::HidesDroppedChildren,
    Mutation::CollectsChildrenOfTheLiving,
    Mutation::ForgetsRetriedChildren,
    Mutation::ForgetsConsumedKeys,
    Mutation::SignalsTheDead,
    Mutation::WakesOnWhatWasHandedOver,
    Mutation::ConsumesLatecomers,
    Mutation::TakesKeysBack,
    Mutation::IgnoresPartitionKeys,
    Mutation::ClaimsEarly,
    Mutation::FiresEarly,
    Mutation::KeepsDeadlines,
    Mutation::ForgetsCrashes,
    Mutation::ForgetsAwaitsOnRetry,
    Mutation::RecordsNothing,
    Mutation::IgnoresPauses,
    Mutation::ClaimsDoubleSuccess,
    Mutation::BeginsAVisitOnRetry,
    Mutation::StaysInTheVisitBefore,
    Mutation::ForgetsTheTraceOfChildren,
    Mutation::DropsTheSignalThatStarts,
    Mutation::ReplacesEndedHolders,
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

    /// Reaches into the tables, past every rule.
    fn tamper<T>(&self, tampering: impl FnOnce(&mut Tables) -> T) -> T {
        let tampered = self
            .model
            .alone("tamper", |tables, _| Ok(tampering(tables)));
        tampered.expect("the model is open")
    }

    fn tables(&self) -> Tables {
        self.tamper(|tables| tables.clone())
    }

    /// What several verbs get wrong once they have run.
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
            Mutation::BeginsAVisitOnRetry => begin_visits(before, tables),
            Mutation::StaysInTheVisitBefore => stay_in_visits(before, tables),
            Mutation::ForgetsTheTraceOfChildren => {
                let rows = tables.instances.values_mut();
                rows.filter(|it| it.parent.is_some())
                    .for_each(|it| it.trace = None);
            }
            Mutation::ForgetsTheFence
            | Mutation::CollectsChildrenOfTheLiving
            | Mutation::ForgetsRetriedChildren
            | Mutation::SignalsTheDead
            | Mutation::WakesOnWhatWasHandedOver
            | Mutation::ConsumesLatecomers
            | Mutation::IgnoresPartitionKeys
            | Mutation::ClaimsEarly
            | Mutation::FiresEarly
            | Mutation::KeepsDeadlines
            | Mutation::ForgetsCrashes
            | Mutation::ForgetsAwaitsOnRetry
            | Mutation::IgnoresPauses
            | Mutation::ClaimsDoubleSuccess
            | Mutation::DropsTheSignalThatStarts
            | Mutation::ReplacesEndedHolders => {}
        });
    }

    /// Bends a batch of outcomes before the model sees it.
    fn bend(&self, commits: &mut [Commit], tables: &Tables) {
        for commit in commits {
            let Some(row) = tables.instances.get(&commit.claim.id) else {
                continue;
            };
            if self.is(Mutation::ForgetsTheFence) && row.status == Status::Executing {
                commit.claim.revision = row.revision;
            }
            let waits = matches!(commit.outcome, Outcome::Wait { .. });
            if self.is(Mutation::WakesOnWhatWasHandedOver) && waits {
                commit.received.clear();
            }
            if self.is(Mutation::ConsumesLatecomers) && !commit.received.is_empty() {
                let awaits = row.awaits.clone().unwrap_or_default();
                let latecomers = tables.signals.values();
                let latecomers = latecomers.filter(|it| it.target == row.id);
                let latecomers = latecomers.filter(|it| awaits.contains(&it.name));
                commit.received.extend(latecomers.map(|it| it.id));
            }
        }
    }
}

/// A parent of whom several children ended is told of one.
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

/// Where a step was tried again.
fn begin_visits(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && new.attempt > old.attempt
        {
            new.entered = new.revision;
        }
    }
}

/// Where a step waits.
fn stay_in_visits(before: &Tables, after: &mut Tables) {
    for (id, old) in &before.instances {
        if let Some(new) = after.instances.get_mut(id)
            && new.status == Status::AwaitingSignal
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

fn take_keys_back(tables: &mut Tables) {
    for row in tables.instances.values_mut() {
        if let Some(scope) = row.correlation_scope {
            row.holds_key = scope.contains(row.status);
        }
    }
}

#[async_trait]
impl Store for Mutant {
    async fn now(&self) -> Result<Timestamp> {
        self.model.now().await
    }

    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts> {
        self.model.insert(rows, claim_for).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        let before = self.tables();
        let early = Duration::from_secs(5);
        self.tamper(|tables| {
            if self.is(Mutation::IgnoresPauses) {
                tables.paused.clear();
            }
            for row in tables.instances.values_mut() {
                if self.is(Mutation::IgnoresPartitionKeys) {
                    row.partition_key = None;
                }
                if self.is(Mutation::ClaimsEarly) {
                    row.eligible_at = row.eligible_at - early;
                }
            }
        });
        let claimed = self.model.claim(request).await;
        self.tamper(|tables| {
            tables.paused = before.paused.clone();
            for (id, row) in &mut tables.instances {
                row.partition_key
                    .clone_from(&before.instances[id].partition_key);
                row.eligible_at = before.instances[id].eligible_at;
            }
        });
        self.spoil(&before);
        claimed
    }

    async fn commit(&self, mut commits: Vec<Commit>) -> Result<Committed> {
        let before = self.tables();
        self.bend(&mut commits, &before);
        let mut committed = self.model.commit(commits.clone()).await?;
        if self.is(Mutation::ClaimsDoubleSuccess) {
            let mut first = BTreeMap::new();
            for (commit, answer) in commits.iter().zip(&mut committed.answers) {
                let claim = (commit.claim.id, commit.claim.revision);
                *answer = first.entry(claim).or_insert_with(|| answer.clone()).clone();
            }
        }
        if self.is(Mutation::ForgetsAwaitsOnRetry) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                let retried = rows.filter(|row| {
                    before
                        .instances
                        .get(&row.id)
                        .is_some_and(|old| row.attempt > old.attempt)
                });
                retried.for_each(|row| row.awaits = None);
            });
        }
        self.spoil(&before);
        Ok(committed)
    }

    async fn release(&self, releases: Vec<Release>) -> Result<Released> {
        let before = self.tables();
        let released = self.model.release(releases).await;
        self.spoil(&before);
        released
    }

    async fn forget(&self, worker: WorkerId, held: Vec<InstanceId>) -> Result<Vec<InstanceId>> {
        self.model.forget(worker, held).await
    }

    async fn deliver(&self, signals: Vec<NewSignal>) -> Result<Delivered> {
        let before = self.tables();
        if self.is(Mutation::SignalsTheDead) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                let dead = rows.filter(|row| row.status.is_terminal());
                dead.for_each(|row| row.status = Status::Runnable);
            });
        }
        let delivered = self.model.deliver(signals).await;
        self.tamper(|tables| {
            for (id, row) in &mut tables.instances {
                let old = &before.instances[id];
                if old.status.is_terminal() {
                    row.status = old.status;
                }
                if self.is(Mutation::KeepsDeadlines) {
                    row.await_deadline = old.await_deadline;
                }
            }
        });
        delivered
    }

    async fn register(&self, worker: NewWorker) -> Result<WorkerId> {
        self.model.register(worker).await
    }

    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat> {
        self.model.heartbeat(worker, lease).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.model.deregister(worker).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        let before = self.tables();
        let reaped = self.model.reap(request).await;
        if self.is(Mutation::ForgetsCrashes) {
            self.tamper(|tables| {
                for (id, row) in &mut tables.instances {
                    row.crashes = before.instances[id].crashes;
                }
            });
        }
        self.spoil(&before);
        reaped
    }

    async fn fire(&self, max: usize) -> Result<Fired> {
        let early = Duration::from_secs(5);
        if !self.is(Mutation::FiresEarly) {
            return self.model.fire(max).await;
        }
        let shift = |by: fn(Timestamp, Duration) -> Timestamp| {
            self.tamper(|tables| {
                for row in tables.instances.values_mut() {
                    row.await_deadline = row.await_deadline.map(|it| by(it, early));
                }
            });
        };
        shift(|deadline, early| deadline - early);
        let fired = self.model.fire(max).await;
        shift(|deadline, early| deadline + early);
        fired
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        let before = self.tables();
        if self.is(Mutation::CollectsChildrenOfTheLiving) {
            self.tamper(|tables| {
                tables
                    .instances
                    .values_mut()
                    .for_each(|row| row.parent = None);
            });
        }
        let collected = self.model.collect(request).await;
        self.tamper(|tables| {
            for (id, row) in &mut tables.instances {
                row.parent = before.instances[id].parent;
            }
        });
        collected
    }

    async fn reconcile(&self, request: ReconcileRequest) -> Result<Reconciled> {
        self.model.reconcile(request).await
    }

    async fn cancel(&self, ids: Vec<InstanceId>, note: Note) -> Result<Cancelled> {
        let before = self.tables();
        let cancelled = self.model.cancel(ids, note).await;
        self.spoil(&before);
        cancelled
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        let before = self.tables();
        let retried = self.model.retry(ids, note).await;
        if self.is(Mutation::ForgetsRetriedChildren) {
            self.tamper(|tables| {
                for (id, row) in &mut tables.instances {
                    row.children_pending = before.instances[id].children_pending;
                }
            });
        }
        self.spoil(&before);
        retried
    }

    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        self.model.delete(ids, note).await
    }

    async fn pause(&self, queue: &str, note: Note) -> Result<bool> {
        self.model.pause(queue, note).await
    }

    async fn resume(&self, queue: &str, note: Note) -> Result<bool> {
        self.model.resume(queue, note).await
    }

    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted> {
        if self.is(Mutation::ReplacesEndedHolders) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                let ended = rows.filter(|row| row.status.is_terminal());
                ended.for_each(|row| row.holds_key = false);
            });
        }
        let answer = self.model.signal_or_insert(request).await?;
        if self.is(Mutation::DropsTheSignalThatStarts) {
            self.tamper(|tables| {
                let started = answer.inserted;
                let signals = &mut tables.signals;
                signals.retain(|_, signal| Some(signal.target) != started);
            });
        }
        Ok(answer)
    }

    fn place(&self) -> &str {
        self.model.place()
    }

    async fn close(&self) {
        self.model.close().await;
    }
}

#[async_trait]
impl Inspect for Mutant {
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>> {
        self.model.get(id).await
    }

    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>> {
        self.model.find(machine, key).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page> {
        self.model.list(request).await
    }

    async fn count(&self, filter: Filter) -> Result<Count> {
        self.model.count(filter).await
    }

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Vec<SignalRow>> {
        self.model.signals(id, after).await
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Vec<Child>> {
        self.model.children(id, round, after).await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>> {
        self.model.queues().await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.model.workers().await
    }

    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        self.model.operations(instance).await
    }
}
