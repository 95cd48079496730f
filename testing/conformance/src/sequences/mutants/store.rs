//! A mutant as a store: each verb calls the model, with a change before or after.

use super::{Mutant, Mutation, family, flows, updates};
use async_trait::async_trait;
use outlast_core::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
impl Store for Mutant {
    async fn now(&self) -> Result<Timestamp> {
        self.model.now().await
    }

    async fn check_writes(&self) -> Result<WriteCheck> {
        self.model.check_writes().await
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
                if self.is(Mutation::ClaimsWithoutAPlace) {
                    row.held = row.held.map(|_| false);
                }
                if self.is(Mutation::HandsOutChildrenOfWorkflows) {
                    row.joining = None;
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
                row.joining.clone_from(&before.instances[id].joining);
                if row.status == Status::Runnable {
                    row.held = before.instances[id].held;
                }
            }
        });
        self.spoil(&before);
        claimed
    }

    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed> {
        let mut commits = commits.to_vec();
        let before = self.tables();
        self.bend(&mut commits, &before);
        self.tamper(|tables| self.hide(&commits, tables));
        if self.is(Mutation::LetsTheLastReplyStand) {
            self.tamper(|tables| updates::forget_replies(&commits, tables));
        }
        let mut committed = self.model.commit(commits.clone().into()).await?;
        self.tamper(|tables| self.unhide(&before, &commits, tables));
        self.tamper(|tables| updates::restore_replies(&before, tables));
        if self.is(Mutation::KeepsAnsweredUpdates) {
            self.tamper(|tables| updates::put_back(&before, &commits, tables));
        }
        if self.is(Mutation::RepliesWithoutAClaim) {
            let (answers, now) = (&committed.answers, self.model.now().await?);
            self.tamper(|tables| updates::write_lost_replies(&commits, answers, tables, now));
        }
        if self.is(Mutation::WritesEventsOfLostOutcomes) {
            let answers = &committed.answers;
            self.tamper(|tables| flows::write_lost_events(&commits, answers, tables));
        }
        if self.is(Mutation::ClaimsDoubleSuccess) {
            let mut first = BTreeMap::new();
            for (commit, answer) in commits.iter().zip(&mut committed.answers) {
                let claim = (commit.claim.id, commit.claim.revision);
                *answer = first.entry(claim).or_insert_with(|| answer.clone()).clone();
            }
        }
        if self.is(Mutation::AnswersCancelsByRetry) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                let retried = rows.filter(|row| {
                    let old = before.instances.get(&row.id);
                    old.is_some_and(|old| row.attempt > old.attempt)
                });
                let cancels = retried.filter_map(|row| row.cancel.as_mut());
                cancels.for_each(|it| it.answered = true);
            });
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

    async fn inbox(&self, claim: ClaimRef) -> Result<Option<Vec<Signal>>> {
        self.model.inbox(claim).await
    }

    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>> {
        self.model.claims_of(worker).await
    }

    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered> {
        let before = self.tables();
        if self.is(Mutation::ClaimsOnDeliveryFromPausedQueues) {
            self.tamper(|tables| tables.paused.clear());
        }
        if self.is(Mutation::SignalsFinishedInstances) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                let dead = rows.filter(|row| row.status.is_terminal());
                dead.for_each(|row| row.status = Status::Runnable);
            });
        }
        if self.is(Mutation::SleepsThroughSignals) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                let joining = rows.filter(|row| row.status == Status::AwaitingChildren);
                joining.for_each(|row| row.awaits = None);
            });
        }
        let mut delivered = self.model.deliver(signals, claim_for).await;
        if let (Ok(delivered), true) = (
            &mut delivered,
            self.is(Mutation::ClaimsOnDeliveryWithoutTheInbox),
        ) {
            delivered.claims.iter_mut().for_each(|it| it.inbox.clear());
        }
        self.tamper(|tables| {
            tables.paused.clone_from(&before.paused);
            if self.is(Mutation::NotesNoSignalOfRunningSteps) {
                tables.latest_signals.clone_from(&before.latest_signals);
            }
            for (id, row) in &mut tables.instances {
                let old = &before.instances[id];
                row.awaits.clone_from(&old.awaits);
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

    async fn time_out(&self, max: usize) -> Result<TimedOut> {
        let before = self.tables();
        let early = Duration::from_secs(5);
        if self.is(Mutation::TimesOutEarly) {
            self.shift_timeouts(|moment| moment - early);
        }
        let timed_out = self.model.time_out(max).await;
        if self.is(Mutation::TimesOutEarly) {
            self.shift_timeouts(|moment| moment + early);
        }
        if self.is(Mutation::TimesOutWithinTheRevision) {
            self.tamper(|tables| {
                for (id, row) in &mut tables.instances {
                    row.revision = before.instances[id].revision;
                }
            });
        }
        timed_out
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        let before = self.tables();
        if self.is(Mutation::CollectsChildrenOfLiveParents) {
            self.tamper(|tables| {
                tables
                    .instances
                    .values_mut()
                    .for_each(|row| row.parent = None);
            });
        }
        if self.is(Mutation::CollectsBeforeTheCascade) {
            self.tamper(|tables| tables.cascades.clear());
        }
        let collected = self.model.collect(request).await;
        self.tamper(|tables| {
            tables.cascades.clone_from(&before.cascades);
            if self.is(Mutation::KeepsHistoriesOfRemovedInstances) {
                flows::keep_histories(&before, tables);
            }
            for (id, row) in &mut tables.instances {
                row.parent = before.instances[id].parent;
            }
        });
        collected
    }

    async fn repair(&self, ids: Vec<InstanceId>, note: Note) -> Result<Repaired> {
        self.model.repair(ids, note).await
    }

    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled> {
        let before = self.tables();
        let cancelled = self.model.cancel(ids, extent, note).await;
        self.tamper(|tables| {
            if self.is(Mutation::ForgetsCancels) {
                family::forget_cancels(&before, tables);
            }
            if self.is(Mutation::LosesClaimsOfCancelledInstances) {
                let rows = tables.instances.values_mut();
                let ran = rows.filter(|row| row.status == Status::Executing);
                let newly_cancelled =
                    ran.filter(|row| row.cancel != before.instances[&row.id].cancel);
                newly_cancelled.for_each(|row| row.revision = row.revision.next());
            }
        });
        self.spoil(&before);
        cancelled
    }

    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated> {
        let before = self.tables();
        self.tamper(|tables| self.hide(&[], tables));
        let terminated = self.model.terminate(ids, extent, note).await;
        self.tamper(|tables| self.unhide(&before, &[], tables));
        self.spoil(&before);
        terminated
    }

    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded> {
        let before = self.tables();
        if self.is(Mutation::CascadesToLaterChildren) {
            self.tamper(|tables| {
                let cascades = tables.cascades.values_mut();
                cascades.for_each(|it| it.before.0 = i32::MAX);
            });
        }
        let mut cascaded = self.model.cascade(request).await?;
        if self.is(Mutation::CascadesOneBatch) {
            let first = before.cascades.keys().next();
            self.tamper(|tables| tables.cascades.retain(|key, _| Some(key) != first));
        }
        if self.is(Mutation::ReportsThatCascadesEnded) {
            cascaded.more = false;
        }
        self.spoil(&before);
        Ok(cascaded)
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        let before = self.tables();
        if self.is(Mutation::CountsRetriedChildrenOfWorkflows) {
            self.tamper(|tables| {
                let rows = tables.instances.values_mut();
                rows.for_each(|row| row.joining = None);
            });
        }
        let retried = self.model.retry(ids, note).await;
        self.tamper(|tables| {
            for (id, row) in &mut tables.instances {
                row.joining.clone_from(&before.instances[id].joining);
            }
        });
        if self.is(Mutation::RevivesUpdates) {
            self.tamper(|tables| tables.replies.clone_from(&before.replies));
        }
        if self.is(Mutation::KeepsCancelsOnRetry) {
            self.tamper(|tables| {
                for (id, row) in &mut tables.instances {
                    row.cancel.clone_from(&before.instances[id].cancel);
                }
            });
        }
        if self.is(Mutation::KeepsErrorValuesOnRetry) {
            self.tamper(|tables| {
                for (id, row) in &mut tables.instances {
                    row.result.clone_from(&before.instances[id].result);
                }
            });
        }
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
        let before = self.tables();
        let deleted = self.model.delete(ids, note).await;
        if self.is(Mutation::KeepsHistoriesOfRemovedInstances) {
            self.tamper(|tables| flows::keep_histories(&before, tables));
        }
        deleted
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

    async fn add_run_stats(&self, stats: RunStats) -> Result<()> {
        self.model.add_run_stats(stats).await
    }

    fn database_id(&self) -> &str {
        self.model.database_id()
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

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>> {
        self.model.signals(id, after).await
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>> {
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

    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        self.model.close_actions(parent, after).await
    }

    async fn family(&self, id: InstanceId) -> Result<Option<Family>> {
        self.model.family(id).await
    }

    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>> {
        self.model.rounds(id).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        self.model.history(request).await
    }

    async fn update(&self, id: InstanceId, update: &str) -> Result<Option<SentUpdate>> {
        self.model.update(id, update).await
    }

    async fn views(&self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>> {
        self.model.views(id, name).await
    }

    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>> {
        self.model.histories(id).await
    }

    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts> {
        self.model.count_by_step(request).await
    }

    async fn run_stats(&self, since: Timestamp) -> Result<RunStats> {
        self.model.run_stats(since).await
    }

    async fn needing_repair(&self, scope: RepairScope) -> Result<NeedingRepair> {
        self.model.needing_repair(scope).await
    }

    async fn doctor(&self) -> Result<Vec<outlast_core::Finding>> {
        self.model.doctor().await
    }
}
