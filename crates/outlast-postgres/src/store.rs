//! The store. Each verb of `Store` and `Inspect` calls a function in the file of its name.
//!
//! This file holds no SQL and makes no decision. The files of the verbs do both. What a verb
//! promises is in the documentation of `Store`, once for both stores, and is not repeated here.

use crate::doctor::write_check;
use crate::hints::listen;
use crate::inspect::{list, step_count};
use crate::options::Options;
use crate::session::Session;
use crate::transaction::Schema;
use crate::verbs::{
    cascade, claim, collect, commit, deliver, fire, inbox, insert, lease, operate, reap, repair,
    run_stats, time_out,
};
use crate::{history_events, inspect};
use async_trait::async_trait;
use outlast_core::{
    Cancelled, CascadeRequest, Cascaded, Child, ClaimOffer, ClaimRef, ClaimRequest, Claimed,
    CollectRequest, Collected, Commit, Committed, Count, DeleteAnswer, Delivered, Event, Extent,
    Family, Filter, Fired, Heartbeat, HeldClaim, Hints, HistoryRequest, Inserts, Inspect, Instance,
    InstanceId, ListRequest, Listen, NeedingRepair, NewInstance, NewSignal, NewWorker, Note,
    Operation, OperationId, Page, QueueSummary, ReapRequest, Reaped, Release, Released,
    RepairScope, Repaired, Result, Retried, RoundSummary, Rows, RunStats, RunSummary, SentUpdate,
    Signal, SignalId, SignalOrInsert, SignalRow, SignalledOrInserted, StepCountRequest, StepCounts,
    Store, Terminated, TimedOut, Timestamp, View, Worker, WorkerId, WriteCheck,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// A store on PostgreSQL. Clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    pub(crate) session: Arc<Session>,
    schema: Arc<str>,
    database_id: Arc<str>,
}

impl Postgres {
    /// Connects with the default options, and migrates the schema `outlast`.
    ///
    /// `url` has the form that PostgreSQL's clients use:
    /// `postgres://user:password@host:5432/database`. For failover it names several hosts and
    /// `target_session_attrs=read-write`. `sslmode` and `sslrootcert` configure TLS.
    ///
    /// The store tries the hosts in turn. Each has `connect_timeout` to accept the connection
    /// (default: 10 s) and 5 s more to finish the login. After a failover the store connects to
    /// the new primary.
    pub async fn connect(url: &str) -> Result<Postgres> {
        Postgres::options(url)?.connect().await
    }

    /// Parses `url` into options that can be changed before connecting.
    pub fn options(url: &str) -> Result<Options> {
        Options::parse(url)
    }

    /// Returns the name of the schema that holds the tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn new(session: Session, schema: String) -> Postgres {
        Postgres {
            database_id: database_id(session.pool.manager().0.config(), &schema).into(),
            session: Arc::new(session),
            schema: schema.into(),
        }
    }
}

/// Returns the identity of the database: servers, database and schema, without a secret.
///
/// Stores of one process with the same identity share a hub (docs/decisions/0012). The identity
/// comes from the URL alone. Two URLs that name one database in different words only cost time.
fn database_id(config: &Config, schema: &str) -> String {
    let names = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
    // A URL gives a server by name, by address, or by both. The name wins.
    let servers: Vec<String> = match config.get_hosts() {
        [] => addresses.collect(),
        _ => names.collect(),
    };
    let ports = config.get_ports();
    let port = |nth: usize| ports.get(nth).or(ports.first()).copied().unwrap_or(5432);
    let servers: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(nth, server)| format!("{server}:{}", port(nth)))
        .collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("");
    format!("postgres {}/{database} {schema}", servers.join(","))
}

impl AsRef<Schema> for Postgres {
    fn as_ref(&self) -> &Schema {
        &self.session.transactions
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

    async fn check_writes(&self) -> Result<WriteCheck> {
        write_check::check_writes(&self.session).await
    }

    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts> {
        insert::insert(&self.session, &rows, claim_for).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        claim::claim(&self.session, &request).await
    }

    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed> {
        commit::commit(&self.session, &commits).await
    }

    async fn release(&self, releases: Vec<Release>) -> Result<Released> {
        commit::release(&self.session, &releases).await
    }

    async fn inbox(&self, claim: ClaimRef) -> Result<Option<Vec<Signal>>> {
        inbox::inbox(&self.session, claim).await
    }

    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>> {
        lease::claims(&self.session, worker).await
    }

    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered> {
        deliver::deliver(&self.session, &signals, claim_for.as_ref()).await
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

    async fn time_out(&self, max: usize) -> Result<TimedOut> {
        time_out::time_out(&self.session, max).await
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        collect::collect(&self.session, request).await
    }

    async fn add_run_stats(&self, stats: RunStats) -> Result<()> {
        run_stats::add(&self.session, stats).await
    }

    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled> {
        operate::cancel(&self.session, &ids, extent, &note).await
    }

    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated> {
        operate::terminate(&self.session, &ids, extent, &note).await
    }

    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded> {
        cascade::cascade(&self.session, request).await
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        operate::retry(&self.session, &ids, &note).await
    }

    async fn repair(&self, ids: Vec<InstanceId>, note: Note) -> Result<Repaired> {
        repair::repair(&self.session, &ids, &note).await
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
        deliver::signal_or_insert(&self.session, &request).await
    }

    fn database_id(&self) -> &str {
        &self.database_id
    }

    async fn notify(&self, hints: Hints) -> Result<()> {
        listen::notify(&self.session, &hints).await
    }

    async fn listen(&self) -> Result<Option<Box<dyn Listen>>> {
        listen::listen(&self.session).await
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
        list::list(&self.session, &request).await
    }

    async fn count(&self, filter: Filter) -> Result<Count> {
        list::count(&self.session, &filter).await
    }

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>> {
        inspect::signals(&self.session, id, after).await
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>> {
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

    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        inspect::close_actions(&self.session, parent, after).await
    }

    async fn family(&self, id: InstanceId) -> Result<Option<Family>> {
        step_count::family(&self.session, id).await
    }

    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>> {
        step_count::rounds(&self.session, id).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        history_events::history(&self.session, request).await
    }

    async fn views(&self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>> {
        history_events::views(&self.session, id, name).await
    }

    async fn update(&self, id: InstanceId, update: &str) -> Result<Option<SentUpdate>> {
        inspect::update(&self.session, id, update).await
    }

    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>> {
        history_events::histories(&self.session, id).await
    }

    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts> {
        step_count::count_by_step(&self.session, request).await
    }

    async fn run_stats(&self, since: Timestamp) -> Result<RunStats> {
        run_stats::since(&self.session, since).await
    }

    async fn needing_repair(&self, scope: RepairScope) -> Result<NeedingRepair> {
        repair::needing_repair(&self.session, &scope).await
    }

    async fn doctor(&self) -> Result<Vec<outlast_core::Finding>> {
        crate::doctor::examine_database(&self.session).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(url: &str) -> String {
        database_id(&url.parse().unwrap(), "outlast")
    }

    #[test]
    fn a_place_names_servers_database_and_schema_without_the_password() {
        for (url, expected) in [
            (
                "postgres://me:hunter2@db.example:6543/shop",
                "postgres db.example:6543/shop outlast",
            ),
            (
                "host=one,two port=6543 dbname=shop target_session_attrs=read-write",
                "postgres one:6543,two:6543/shop outlast",
            ),
            (
                "postgres://one:1,two:2/shop",
                "postgres one:1,two:2/shop outlast",
            ),
            ("host=/run/pg user=me", "postgres /run/pg:5432/me outlast"),
            (
                "hostaddr=10.0.0.1 dbname=shop",
                "postgres 10.0.0.1:5432/shop outlast",
            ),
        ] {
            assert_eq!(id_of(url), expected);
        }
    }
}
