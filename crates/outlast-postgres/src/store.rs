//! The store and its verbs; each is a function in the file of its name.

use crate::options::Options;
use crate::session::Session;
use crate::{
    claim, collect, commit, deliver, fire, insert, inspect, lease, operate, reap, reconcile,
};
use async_trait::async_trait;
use outlast_core::{
    Cancelled, Child, ClaimRequest, Claimed, CollectRequest, Collected, Commit, Committed, Count,
    DeleteAnswer, Delivered, Filter, Fired, Heartbeat, Inserts, Inspect, Instance, InstanceId,
    ListRequest, NewInstance, NewSignal, NewWorker, Note, Operation, Page, QueueSummary,
    ReapRequest, Reaped, ReconcileRequest, Reconciled, Release, Released, Result, Retried,
    SignalId, SignalOrInsert, SignalRow, SignalledOrInserted, Store, Timestamp, Worker, WorkerId,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A store on PostgreSQL. Clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    session: Arc<Session>,
    schema: Arc<str>,
}

impl Postgres {
    /// Connects with the defaults, and migrates the schema `outlast`.
    ///
    /// `url` is what every PostgreSQL client takes: `postgres://user:password@host:5432/database`, with
    /// several hosts and `target_session_attrs=read-write` for failover, `sslmode` and `sslrootcert`
    /// for TLS.
    pub async fn connect(url: &str) -> Result<Postgres> {
        Postgres::options(url)?.connect().await
    }

    /// How to connect, to be changed before connecting.
    pub fn options(url: &str) -> Result<Options> {
        Options::parse(url)
    }

    /// The schema that holds everything.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn new(session: Session, schema: String) -> Postgres {
        Postgres {
            session: Arc::new(session),
            schema: schema.into(),
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("schema", &self.schema)
            .field("connections", &self.session.pool.status().size)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Postgres {
    async fn now(&self) -> Result<Timestamp> {
        inspect::now(&self.session).await
    }

    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts> {
        insert::insert(&self.session, &rows, claim_for).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        claim::claim(&self.session, &request).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Result<Committed> {
        commit::commit(&self.session, &commits).await
    }

    async fn release(&self, releases: Vec<Release>) -> Result<Released> {
        claim::release(&self.session, &releases).await
    }

    async fn forget(&self, worker: WorkerId, held: Vec<InstanceId>) -> Result<Vec<InstanceId>> {
        claim::forget(&self.session, worker, &held).await
    }

    async fn deliver(&self, signals: Vec<NewSignal>) -> Result<Delivered> {
        deliver::deliver(&self.session, &signals).await
    }

    async fn register(&self, worker: NewWorker) -> Result<WorkerId> {
        lease::register(&self.session, &worker).await
    }

    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat> {
        lease::heartbeat(&self.session, worker, lease).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        lease::deregister(&self.session, worker).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        reap::reap(&self.session, request).await
    }

    async fn fire(&self, max: usize) -> Result<Fired> {
        fire::fire(&self.session, max).await
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        collect::collect(&self.session, request).await
    }

    async fn reconcile(&self, request: ReconcileRequest) -> Result<Reconciled> {
        reconcile::reconcile(&self.session, request).await
    }

    async fn cancel(&self, ids: Vec<InstanceId>, note: Note) -> Result<Cancelled> {
        operate::cancel(&self.session, &ids, &note).await
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        operate::retry(&self.session, &ids, &note).await
    }

    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        operate::delete(&self.session, &ids, &note).await
    }

    async fn pause(&self, queue: &str, note: Note) -> Result<bool> {
        operate::pause(&self.session, queue, &note).await
    }

    async fn resume(&self, queue: &str, note: Note) -> Result<bool> {
        operate::resume(&self.session, queue, &note).await
    }

    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted> {
        let _ = request;
        Err(outlast_core::Error::Closed {
            operation: "signal_or_insert",
        })
    }

    fn place(&self) -> &str {
        "postgres"
    }

    async fn close(&self) {
        self.session.close().await;
    }
}

#[async_trait]
impl Inspect for Postgres {
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>> {
        inspect::get(&self.session, id).await
    }

    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>> {
        inspect::find(&self.session, machine, key).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page> {
        inspect::list(&self.session, &request).await
    }

    async fn count(&self, filter: Filter) -> Result<Count> {
        inspect::count(&self.session, &filter).await
    }

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Vec<SignalRow>> {
        inspect::signals(&self.session, id, after).await
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Vec<Child>> {
        inspect::children(&self.session, id, round, after).await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>> {
        inspect::queues(&self.session).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        inspect::workers(&self.session).await
    }

    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        inspect::operations(&self.session, instance).await
    }
}
