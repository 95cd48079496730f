//! A wrapper of a store that acts as a store in another process, and whose calls can fail.

#![allow(dead_code, reason = "each test binary uses its part")]

use async_trait::async_trait;
use outlast::store::{
    Answer, Cancelled, CascadeRequest, Cascaded, Child, ClaimOffer, ClaimRef, ClaimRequest,
    Claimed, CollectRequest, Collected, Commit, Committed, Count, DeleteAnswer, Delivered, Error,
    Event, Extent, Family, Filter, Fired, Heartbeat, HeldClaim, Hints, HistoryRequest, Inserts,
    Inspect, Instance, InstanceId, Invalid, ListRequest, Listen, NeedingRepair, NewInstance,
    NewSignal, NewWorker, Note, Operation, OperationId, Page, QueueSummary, ReapRequest, Reaped,
    Release, Released, RepairScope, Repaired, Result, Retried, RoundSummary, Rows, RunStats,
    RunSummary, SentUpdate, Signal, SignalId, SignalOrInsert, SignalRow, SignalledOrInserted,
    Status, StepCountRequest, StepCounts, Store, Terminated, TimedOut, Timestamp, View, Worker,
    WorkerId, WriteCheck,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// The point at which a call fails or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// Before the call is carried out.
    Before,
    /// After the call was carried out, before its answer is returned.
    After,
}

/// Decides for each call, by the name of its verb, whether it fails.
type Breaks = Arc<dyn Fn(&'static str) -> Option<Break> + Send + Sync>;
/// Receives every batch of commits and its answers.
type Observes = Arc<dyn Fn(&[Commit], &Committed) + Send + Sync>;
/// Decides for each call, by the name of its verb, what it waits for. It waits before the call is
/// carried out, or before the answer is returned.
type Delays = Arc<dyn Fn(&'static str) -> Option<(Break, Arc<Notify>)> + Send + Sync>;
/// Decides for each batch of commits what it waits for.
type Holds = Arc<dyn Fn(&[Commit]) -> Option<Arc<Notify>> + Send + Sync>;

/// Decides for each commit whether it is answered with this instead of being written.
type Instead = Arc<dyn Fn(&Commit) -> Option<Answer> + Send + Sync>;

/// A store that looks like the store of another process: no hint reaches it in memory.
#[derive(Clone)]
pub(crate) struct Through<S> {
    store: S,
    database_id: String,
    mute: bool,
    breaks: Breaks,
    observes: Observes,
    holds: Holds,
    instead: Instead,
    delays: Delays,
    /// Gets a permit for every claim that was answered.
    claims: Arc<Semaphore>,
    /// Gets a permit for every `get` that was answered.
    gets: Arc<Semaphore>,
}

impl<S: Store + Inspect> Through<S> {
    pub(crate) fn new(store: S) -> Through<S> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let database_id = format!(
            "{} {}",
            store.database_id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Through {
            store,
            database_id,
            mute: false,
            breaks: Arc::new(|_| None),
            observes: Arc::new(|_, _| {}),
            holds: Arc::new(|_| None),
            instead: Arc::new(|_| None),
            delays: Arc::new(|_| None),
            claims: Arc::new(Semaphore::new(0)),
            gets: Arc::new(Semaphore::new(0)),
        }
    }

    /// Waits until the first claim of each queue was answered. None of them can take a later
    /// insert.
    pub(crate) async fn first_claims(&self, queues: u32) {
        let claims = self.claims.acquire_many(queues).await;
        claims.expect("the semaphore is never closed").forget();
    }

    /// A semaphore that gets a permit for every `get` that was answered.
    pub(crate) fn gets(&self) -> Arc<Semaphore> {
        self.gets.clone()
    }

    /// Neither sends nor receives hints.
    pub(crate) fn mute(mut self) -> Through<S> {
        self.mute = true;
        self
    }

    pub(crate) fn breaking(
        mut self,
        breaks: impl Fn(&'static str) -> Option<Break> + Send + Sync + 'static,
    ) -> Through<S> {
        self.breaks = Arc::new(breaks);
        self
    }

    /// Passes every batch of commits and its answers to a function.
    pub(crate) fn observing(
        mut self,
        observes: impl Fn(&[Commit], &Committed) + Send + Sync + 'static,
    ) -> Through<S> {
        self.observes = Arc::new(observes);
        self
    }

    pub(crate) fn holding(
        mut self,
        holds: impl Fn(&[Commit]) -> Option<Arc<Notify>> + Send + Sync + 'static,
    ) -> Through<S> {
        self.holds = Arc::new(holds);
        self
    }

    /// Refuses outcomes, as a database does with a constraint or a trigger of its own.
    pub(crate) fn rejecting(
        mut self,
        rejects: impl Fn(&Commit) -> bool + Send + Sync + 'static,
    ) -> Through<S> {
        let rejected = || Answer::Rejected(Invalid::new("the outcome", "is refused by the test"));
        self.instead = Arc::new(move |commit| rejects(commit).then(rejected));
        self
    }

    /// Answers commits as written without writing them, as after a fail-over to a server that lags
    /// behind. Only for outcomes that keep their claim.
    pub(crate) fn forgetting(
        mut self,
        forgets: impl Fn(&Commit) -> bool + Send + Sync + 'static,
    ) -> Through<S> {
        self.instead = Arc::new(move |commit| {
            forgets(commit).then(|| Answer::Committed {
                status: Status::Executing,
                revision: commit.claim.revision.next(),
                cancel: None,
                latest_signal: None,
                at: Timestamp(0),
            })
        });
        self
    }

    /// Writes the commits that have no other answer.
    async fn commit_some(&self, commits: &[Commit]) -> Result<Committed> {
        let mut answers: Vec<_> = commits
            .iter()
            .map(|commit| (self.instead)(commit))
            .collect();
        let written = commits
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.is_none());
        let written: Vec<_> = written.map(|(commit, _)| commit.clone()).collect();
        let mut committed = self.store.commit(written.into()).await?;
        let unanswered = answers.iter_mut().filter(|answer| answer.is_none());
        for (answer, written) in unanswered.zip(committed.answers) {
            *answer = Some(written);
        }
        committed.answers = answers.into_iter().flatten().collect();
        Ok(committed)
    }

    pub(crate) fn delaying(
        mut self,
        delays: impl Fn(&'static str) -> Option<(Break, Arc<Notify>)> + Send + Sync + 'static,
    ) -> Through<S> {
        self.delays = Arc::new(delays);
        self
    }

    async fn call<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let broken = || Error::Transient {
            operation: verb,
            reason: "the test broke it".into(),
            source: None,
        };
        let call = async {
            let delay = (self.delays)(verb);
            if let Some((Break::Before, gate)) = &delay {
                gate.notified().await;
            }
            let answer = call.await;
            if let Some((Break::After, gate)) = &delay {
                gate.notified().await;
            }
            answer
        };
        match (self.breaks)(verb) {
            None => call.await,
            Some(Break::Before) => Err(broken()),
            Some(Break::After) => {
                call.await?;
                Err(broken())
            }
        }
    }
}

#[async_trait]
impl<S: Store + Inspect> Store for Through<S> {
    async fn now(&self) -> Result<Timestamp> {
        self.store.now().await
    }

    async fn check_writes(&self) -> Result<WriteCheck> {
        self.call("check_writes", self.store.check_writes()).await
    }

    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts> {
        self.call("insert", self.store.insert(rows, claim_for))
            .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        let claimed = self.call("claim", self.store.claim(request)).await;
        self.claims.add_permits(1);
        claimed
    }

    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed> {
        let commit = async {
            if let Some(gate) = (self.holds)(&commits) {
                gate.notified().await;
            }
            let committed = self.commit_some(&commits).await?;
            (self.observes)(&commits, &committed);
            Ok(committed)
        };
        self.call("commit", commit).await
    }

    async fn release(&self, releases: Vec<Release>) -> Result<Released> {
        self.call("release", self.store.release(releases)).await
    }

    async fn inbox(&self, claim: ClaimRef) -> Result<Option<Vec<Signal>>> {
        self.call("inbox", self.store.inbox(claim)).await
    }

    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>> {
        self.call("claims_of", self.store.claims_of(worker)).await
    }

    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered> {
        self.call("deliver", self.store.deliver(signals, claim_for))
            .await
    }

    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted> {
        self.call("signal_or_insert", self.store.signal_or_insert(request))
            .await
    }

    async fn register(&self, worker: NewWorker) -> Result<WorkerId> {
        self.call("register", self.store.register(worker)).await
    }

    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat> {
        self.call("heartbeat", self.store.heartbeat(worker, lease))
            .await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.call("deregister", self.store.deregister(worker)).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.call("reap", self.store.reap(request)).await
    }

    async fn fire(&self, max: usize) -> Result<Fired> {
        self.call("fire", self.store.fire(max)).await
    }

    async fn time_out(&self, max: usize) -> Result<TimedOut> {
        self.call("time_out", self.store.time_out(max)).await
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        self.call("collect", self.store.collect(request)).await
    }

    async fn repair(&self, ids: Vec<InstanceId>, note: Note) -> Result<Repaired> {
        self.call("repair", self.store.repair(ids, note)).await
    }

    async fn add_run_stats(&self, stats: RunStats) -> Result<()> {
        self.call("record", self.store.add_run_stats(stats)).await
    }

    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled> {
        self.store.cancel(ids, extent, note).await
    }

    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated> {
        self.store.terminate(ids, extent, note).await
    }

    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded> {
        self.call("cascade", self.store.cascade(request)).await
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        self.store.retry(ids, note).await
    }

    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        self.store.delete(ids, note).await
    }

    async fn pause(&self, queue: &str, note: Note) -> Result<bool> {
        self.store.pause(queue, note).await
    }

    async fn resume(&self, queue: &str, note: Note) -> Result<bool> {
        self.store.resume(queue, note).await
    }

    fn database_id(&self) -> &str {
        &self.database_id
    }

    async fn notify(&self, hints: Hints) -> Result<()> {
        if self.mute {
            return Ok(());
        }
        self.call("notify", self.store.notify(hints)).await
    }

    async fn listen(&self) -> Result<Option<Box<dyn Listen>>> {
        if self.mute {
            return Ok(None);
        }
        self.call("listen", self.store.listen()).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[async_trait]
impl<S: Store + Inspect> Inspect for Through<S> {
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>> {
        let instance = self.store.get(id).await;
        self.gets.add_permits(1);
        instance
    }

    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>> {
        self.store.find(machine, key).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page> {
        self.store.list(request).await
    }

    async fn count(&self, filter: Filter) -> Result<Count> {
        self.store.count(filter).await
    }

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>> {
        self.store.signals(id, after).await
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>> {
        self.store.children(id, round, after).await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>> {
        self.store.queues().await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.store.workers().await
    }

    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        self.store.operations(instance).await
    }

    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        self.store.close_actions(parent, after).await
    }

    async fn family(&self, id: InstanceId) -> Result<Option<Family>> {
        self.store.family(id).await
    }

    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>> {
        self.store.rounds(id).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        self.store.history(request).await
    }

    async fn views(&self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>> {
        self.store.views(id, name).await
    }

    async fn update(&self, id: InstanceId, update: &str) -> Result<Option<SentUpdate>> {
        self.store.update(id, update).await
    }

    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>> {
        self.store.histories(id).await
    }

    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts> {
        self.store.count_by_step(request).await
    }

    async fn run_stats(&self, since: Timestamp) -> Result<RunStats> {
        self.store.run_stats(since).await
    }

    async fn needing_repair(&self, scope: RepairScope) -> Result<NeedingRepair> {
        let found = self.store.needing_repair(scope);
        self.call("needing_repair", found).await
    }

    async fn doctor(&self) -> Result<Vec<outlast::store::Finding>> {
        self.store.doctor().await
    }
}
