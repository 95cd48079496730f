//! `Sqlite`, the handle of a store, and its implementation of the contract's traits.
//!
//! The engine and the client call it through these traits. Each method checks its request, sends a
//! job to the writer thread or to a reader, and awaits the answer. No method here runs a
//! statement: callers may be on an async runtime's threads.

use crate::error::{self, Fault};
use crate::inspect::{list, step_count};
use crate::migrate::{MIGRATIONS, Migration};
use crate::open::{self, Connections};
use crate::threads::job::{Promise, job};
use crate::threads::mailbox::ThreadMailbox;
use crate::threads::reader;
use crate::threads::writer::{Waits, Writer};
use crate::tx::Tx;
use crate::verbs::claim::{self, UnfinishedWalks};
use crate::verbs::{
    cascade, collect, commit, deliver, fire, inbox, insert, lease, operate, reap, repair,
    run_stats, time_out,
};
use crate::{Options, Synchronous, history_events, inspect};
use async_trait::async_trait;
use outlast_core::{
    Cancelled, CascadeRequest, Cascaded, Child, ClaimOffer, ClaimRef, ClaimRequest, Claimed, Clock,
    CollectRequest, Collected, Commit, Committed, Count, DeleteAnswer, Delivered, Error, Event,
    Extent, Family, Filter, Fired, Heartbeat, HeldClaim, HistoryRequest, Inserts, Inspect,
    Instance, InstanceId, Invalid, ListRequest, NeedingRepair, NewInstance, NewSignal, NewWorker,
    Note, Operation, OperationId, Page, QueueSummary, ReapRequest, Reaped, Release, Released,
    RepairScope, Repaired, Result, Retried, RoundSummary, Rows, RunStats, RunSummary, SentUpdate,
    Signal, SignalId, SignalOrInsert, SignalRow, SignalledOrInserted, StepCountRequest, StepCounts,
    Store, Terminated, TimedOut, Timestamp, View, Worker, WorkerId, WriteCheck, limits,
};
use rusqlite::ErrorCode;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A store in an SQLite file, or in memory. Clones share it.
///
/// It needs no particular runtime. After the last handle is dropped, its threads finish the
/// waiting jobs and end. [`close`](Store::close) also waits for them.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Inner>,
}

struct Inner {
    /// Shared with all threads: a store has one clock (docs/decisions/0005).
    clock: Arc<dyn Clock>,
    database_id: String,
    /// The path and the settings that `doctor` cannot read from the database.
    examined: crate::doctor::ExaminedFile,
    /// Closed and dropped before the writer.
    ///
    /// The writer must release the file last, so that it can write the log back.
    readers: Option<ThreadMailbox>,
    writer: ThreadMailbox,
    transactions: Arc<AtomicU64>,
    /// Kept in memory only. After a restart, claims walk from the head of their queue again.
    unfinished_walks: Arc<UnfinishedWalks>,
}

impl Sqlite {
    /// Opens the file at `path`, creates it if it does not exist, and migrates its schema.
    ///
    /// Blocks the calling thread for a moment.
    pub fn open(path: impl AsRef<Path>) -> Result<Sqlite> {
        Sqlite::options().open(path)
    }

    /// Opens a store in memory that lives as long as its last handle.
    ///
    /// For tests, and for work that may be lost.
    pub fn in_memory() -> Result<Sqlite> {
        Sqlite::options().in_memory()
    }

    /// Returns options to open a store with other settings.
    pub fn options() -> Options {
        Options::default()
    }

    /// Returns the migrations that [`open`](Sqlite::open) applies, oldest first, for review.
    pub fn migrations() -> &'static [Migration] {
        MIGRATIONS
    }

    /// Returns the schema version of the file at `path`; 0 when it has no schema. Changes nothing.
    pub fn schema_version(path: impl AsRef<Path>) -> Result<i64> {
        open::schema_version(path.as_ref())
    }

    /// Returns how many transactions this store has committed since it was opened.
    ///
    /// Verbs that wait together share a transaction.
    pub fn transactions(&self) -> u64 {
        self.inner.transactions.load(Ordering::Relaxed)
    }

    pub(crate) fn start(options: Options, path: Option<&Path>) -> Result<Sqlite> {
        let Connections { writer, readers } = open::open(&options, path)?;
        // After the file is opened: only the path of a file that exists has a canonical form.
        let database_id = database_id(path)?;
        let examined = crate::doctor::ExaminedFile {
            file: open::file(path).map(Path::to_owned),
            synchronous: options.synchronous,
        };
        let transactions = Arc::new(AtomicU64::new(0));
        let clock = options.clock;
        // Where a commit never waits for the disk, a claim has no wait to save. The writer then
        // keeps the level that the user has set.
        let waits = match (open::file(path), options.synchronous) {
            (Some(_), Synchronous::Full) => Waits::ForTheDisk,
            (None, _) | (_, Synchronous::Normal | Synchronous::Off) => Waits::Never,
        };
        let readers = if readers.is_empty() {
            None
        } else {
            Some(reader::start(readers, clock.clone()).map_err(no_thread)?)
        };
        let writer =
            Writer::start(writer, clock.clone(), transactions.clone(), waits).map_err(no_thread)?;
        Ok(Sqlite {
            inner: Arc::new(Inner {
                clock,
                database_id,
                examined,
                readers,
                writer,
                transactions,
                unfinished_walks: Arc::default(),
            }),
        })
    }

    /// Runs `verb` in the writer's transaction. The answer is durable.
    ///
    /// A verb whose effect may be forgotten calls [`ask`] instead: a claim, and run statistics.
    async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        verb: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        ask(&self.inner.writer, operation, Promise::Durable, verb).await
    }

    /// Runs `question` on a reader, or on the writer where there is only one connection.
    ///
    /// It writes nothing, so its answer need not be durable.
    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        question: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let mailbox = self.inner.readers.as_ref().unwrap_or(&self.inner.writer);
        ask(mailbox, operation, Promise::Forgettable, question).await
    }

    /// Fails when the store is closed, or when the request breaks a limit of the contract.
    ///
    /// Runs on the caller's thread: the one writer has no time for checks. A request that must not
    /// be stored never reaches a statement (docs/protocol.md, defect 12).
    fn admit(
        &self,
        operation: &'static str,
        check: impl FnOnce() -> Result<(), Invalid>,
    ) -> Result<()> {
        // Also for requests that need no job, such as an empty batch.
        if self.inner.writer.is_closed() {
            return Err(Error::Closed { operation });
        }
        check().map_err(|invalid| invalid.during(operation))
    }
}

/// Sends a verb to a thread and awaits its answer.
///
/// A caller that drops the future before the verb's turn takes it back. After that the verb takes
/// effect without a reader of its answer, as if the connection to a server broke.
async fn ask<T: Send + 'static>(
    mailbox: &ThreadMailbox,
    operation: &'static str,
    promise: Promise,
    verb: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
) -> Result<T> {
    let (job, answer) = job(operation, promise, verb);
    mailbox.put(operation, job).await?;
    // Only a thread that has ended drops a job without an answer.
    answer.await.map_err(|_| Error::Closed { operation })?
}

/// Returns the identity of the database at `path`.
///
/// Two spellings of one path give one identity. Each store in memory has a different one.
fn database_id(path: Option<&Path>) -> Result<String> {
    static IN_MEMORY: AtomicU64 = AtomicU64::new(0);
    let Some(path) = open::file(path) else {
        let nth = IN_MEMORY.fetch_add(1, Ordering::Relaxed);
        return Ok(format!("sqlite memory {nth}"));
    };
    let path = path.canonicalize().map_err(|error| Error::Unusable {
        operation: "open",
        reason: format!("{} cannot be found any more", path.display()),
        source: Some(Box::new(error)),
    })?;
    Ok(format!("sqlite {}", path.display()))
}

fn no_thread(error: io::Error) -> Error {
    Error::Transient {
        operation: "open",
        reason: "no thread can be started; the system is at its limit of threads or memory".into(),
        source: Some(Box::new(error)),
    }
}

fn check_batch<T>(operation: &'static str, rows: &[T]) -> Result<(), Invalid> {
    limits::check_batch(operation, rows.len(), limits::BATCH_MAX)
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("closed", &self.inner.writer.is_closed())
            .field("transactions", &self.transactions())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn now(&self) -> Result<Timestamp> {
        self.admit("now", || Ok(()))?;
        Ok(self.inner.clock.now())
    }

    async fn check_writes(&self) -> Result<WriteCheck> {
        self.admit("check_writes", || Ok(()))?;
        if self.inner.examined.is_nearly_full() {
            return Ok(WriteCheck::DiskFull);
        }
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("write-check-does-not-write") {
            return Ok(WriteCheck::Works);
        }
        let written = self
            .write("check_writes", run_stats::write_and_remove)
            .await;
        // A full disk and a read-only file are answers here. Every other fault is an error.
        match written.as_ref().map_err(error::code) {
            Ok(()) => Ok(WriteCheck::Works),
            Err(Some(ErrorCode::ReadOnly)) => Ok(WriteCheck::ReadOnly),
            Err(Some(ErrorCode::DiskFull)) => Ok(WriteCheck::DiskFull),
            Err(_) => written.map(|()| WriteCheck::Works),
        }
    }

    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts> {
        self.admit("insert", || NewInstance::check_all(&rows))?;
        if rows.is_empty() {
            return Ok(Inserts::default());
        }
        self.write("insert", move |tx| insert::insert(tx, &rows, claim_for))
            .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claimed> {
        self.admit("claim", || request.check())?;
        let unfinished = self.inner.unfinished_walks.clone();
        let claim = move |tx: &Tx<'_>| claim::claim(tx, &unfinished, &request);
        // The contract lets a crash forget a claim: its worker is gone too, and another worker
        // claims the step. A claim with an insert or a delivery is as durable as these.
        ask(&self.inner.writer, "claim", Promise::Forgettable, claim).await
    }

    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed> {
        self.admit("commit", || Commit::check_batch(&commits))?;
        if commits.is_empty() {
            return Ok(Committed::default());
        }
        // Decided here, on the caller's thread, so that the one writer has less to do.
        let answers = Commit::foregone(&commits);
        self.write("commit", move |tx| commit::commit(tx, &commits, answers))
            .await
    }

    async fn release(&self, releases: Vec<Release>) -> Result<Released> {
        self.admit("release", || check_batch("release", &releases))?;
        if releases.is_empty() {
            return Ok(Released::default());
        }
        self.write("release", move |tx| commit::release(tx, &releases))
            .await
    }

    async fn inbox(&self, claim: ClaimRef) -> Result<Option<Vec<Signal>>> {
        self.read("inbox", move |tx| inbox::of_claim(tx, claim))
            .await
    }

    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>> {
        self.admit("claims_of", || Ok(()))?;
        let question = move |tx: &Tx<'_>| lease::claims(tx, worker);
        // Queued behind the writer's jobs: a claim that was requested before must run first.
        let writer = &self.inner.writer;
        ask(writer, "claims_of", Promise::Forgettable, question).await
    }

    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered> {
        self.admit("deliver", || {
            NewSignal::check_delivery(&signals, claim_for.as_ref())
        })?;
        if signals.is_empty() {
            return Ok(Delivered::default());
        }
        self.write("deliver", move |tx| {
            deliver::deliver(tx, &signals, claim_for.as_ref())
        })
        .await
    }

    async fn register(&self, worker: NewWorker) -> Result<WorkerId> {
        self.admit("register", || worker.check())?;
        self.write("register", move |tx| lease::register(tx, &worker))
            .await
    }

    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat> {
        self.admit("heartbeat", || limits::check_lease(lease))?;
        self.write("heartbeat", move |tx| lease::heartbeat(tx, worker, lease))
            .await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.admit("deregister", || Ok(()))?;
        self.write("deregister", move |tx| lease::deregister(tx, worker))
            .await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.admit("reap", || request.check())?;
        self.write("reap", move |tx| reap::reap(tx, request)).await
    }

    async fn fire(&self, max: usize) -> Result<Fired> {
        self.admit("fire", || {
            limits::check_batch("fire", max, limits::BATCH_MAX)
        })?;
        self.write("fire", move |tx| fire::fire(tx, max)).await
    }

    async fn time_out(&self, max: usize) -> Result<TimedOut> {
        self.admit("time_out", || {
            limits::check_batch("time_out", max, limits::BATCH_MAX)
        })?;
        self.write("time_out", move |tx| time_out::time_out(tx, max))
            .await
    }

    async fn collect(&self, request: CollectRequest) -> Result<Collected> {
        self.admit("collect", || request.check())?;
        self.write("collect", move |tx| collect::collect(tx, request))
            .await
    }

    async fn add_run_stats(&self, stats: RunStats) -> Result<()> {
        self.admit("record", || stats.check())?;
        if stats.is_empty() {
            return Ok(());
        }
        let stats = stats.in_order();
        // No decision depends on these counts, so they never make a commit wait for the disk.
        let record = move |tx: &Tx<'_>| run_stats::add(tx, &stats);
        ask(&self.inner.writer, "record", Promise::Forgettable, record).await
    }

    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled> {
        self.admit("cancel", || {
            check_batch("cancel", &ids).and_then(|()| note.check())
        })?;
        if ids.is_empty() {
            return Ok(Cancelled::default());
        }
        self.write("cancel", move |tx| operate::cancel(tx, &ids, extent, &note))
            .await
    }

    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated> {
        self.admit("terminate", || {
            check_batch("terminate", &ids).and_then(|()| note.check())
        })?;
        if ids.is_empty() {
            return Ok(Terminated::default());
        }
        self.write("terminate", move |tx| {
            operate::terminate(tx, &ids, extent, &note)
        })
        .await
    }

    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded> {
        self.admit("cascade", || request.check())?;
        self.write("cascade", move |tx| cascade::cascade(tx, request))
            .await
    }

    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried> {
        self.admit("retry", || {
            check_batch("retry", &ids).and_then(|()| note.check())
        })?;
        if ids.is_empty() {
            return Ok(Retried::default());
        }
        self.write("retry", move |tx| operate::retry(tx, &ids, &note))
            .await
    }

    async fn repair(&self, ids: Vec<InstanceId>, note: Note) -> Result<Repaired> {
        self.admit("repair", || {
            check_batch("repair", &ids).and_then(|()| note.check())
        })?;
        if ids.is_empty() {
            return Ok(Repaired::default());
        }
        self.write("repair", move |tx| repair::repair(tx, &ids, &note))
            .await
    }

    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>> {
        self.admit("delete", || {
            check_batch("delete", &ids).and_then(|()| note.check())
        })?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.write("delete", move |tx| operate::delete(tx, &ids, &note))
            .await
    }

    async fn pause(&self, queue: &str, note: Note) -> Result<bool> {
        self.admit("pause", || {
            limits::check_name("queue", queue).and_then(|()| note.check())
        })?;
        let queue = queue.to_owned();
        self.write("pause", move |tx| operate::pause(tx, &queue, &note))
            .await
    }

    async fn resume(&self, queue: &str, note: Note) -> Result<bool> {
        self.admit("resume", || {
            limits::check_name("queue", queue).and_then(|()| note.check())
        })?;
        let queue = queue.to_owned();
        self.write("resume", move |tx| operate::resume(tx, &queue, &note))
            .await
    }

    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted> {
        self.admit("signal_or_insert", || request.check())?;
        self.write("signal_or_insert", move |tx| {
            deliver::signal_or_insert(tx, &request)
        })
        .await
    }

    fn database_id(&self) -> &str {
        &self.inner.database_id
    }

    async fn close(&self) {
        // The last connection that closes writes the log back. A reader's cannot write.
        if let Some(readers) = &self.inner.readers {
            readers.close().await;
        }
        self.inner.writer.close().await;
    }
}

#[async_trait]
impl Inspect for Sqlite {
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>> {
        self.read("get", move |tx| inspect::get(tx, id)).await
    }

    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>> {
        self.admit("find", || Filter::check_holder(machine, key))?;
        let (machine, key) = (machine.to_owned(), key.to_owned());
        self.read("find", move |tx| inspect::find(tx, &machine, &key))
            .await
    }

    async fn list(&self, request: ListRequest) -> Result<Page> {
        self.admit("list", || request.check())?;
        self.read("list", move |tx| list::list(tx, &request)).await
    }

    async fn count(&self, filter: Filter) -> Result<Count> {
        self.admit("count", || filter.check())?;
        self.read("count", move |tx| list::count(tx, &filter)).await
    }

    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>> {
        self.read("signals", move |tx| inspect::signals(tx, id, after))
            .await
    }

    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>> {
        self.read("children", move |tx| {
            inspect::children(tx, id, round, after)
        })
        .await
    }

    async fn queues(&self) -> Result<Vec<QueueSummary>> {
        self.read("queues", inspect::queues).await
    }

    async fn workers(&self) -> Result<Vec<Worker>> {
        self.read("workers", inspect::workers).await
    }

    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        self.read("operations", move |tx| inspect::operations(tx, instance))
            .await
    }

    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        self.read("close_actions", move |tx| {
            inspect::close_actions(tx, parent, after)
        })
        .await
    }

    async fn family(&self, id: InstanceId) -> Result<Option<Family>> {
        self.read("family", move |tx| step_count::family(tx, id))
            .await
    }

    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>> {
        self.read("rounds", move |tx| step_count::rounds(tx, id))
            .await
    }

    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        self.admit("history", || request.check())?;
        self.read("history", move |tx| history_events::history(tx, request))
            .await
    }

    async fn views(&self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>> {
        let name = name.map(str::to_owned);
        self.read("views", move |tx| {
            history_events::views(tx, id, name.as_deref())
        })
        .await
    }

    async fn update(&self, id: InstanceId, update: &str) -> Result<Option<SentUpdate>> {
        self.admit("update", || SentUpdate::check_id(update))?;
        let update = update.to_owned();
        self.read("update", move |tx| inspect::update(tx, id, &update))
            .await
    }

    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>> {
        self.read("histories", move |tx| history_events::histories(tx, id))
            .await
    }

    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts> {
        self.admit("count_by_step", || request.check())?;
        self.read("count_by_step", move |tx| {
            step_count::count_by_step(tx, request)
        })
        .await
    }

    async fn run_stats(&self, since: Timestamp) -> Result<RunStats> {
        self.admit("run_stats", || limits::check_moment("since", since))?;
        self.read("run_stats", move |tx| run_stats::since(tx, since))
            .await
    }

    async fn needing_repair(&self, scope: RepairScope) -> Result<NeedingRepair> {
        self.admit("needing_repair", || scope.check())?;
        self.read("needing_repair", move |tx| {
            repair::needing_repair(tx, &scope)
        })
        .await
    }

    async fn doctor(&self) -> Result<Vec<outlast_core::Finding>> {
        let examined = self.inner.examined.clone();
        self.read("examine", move |tx| {
            crate::doctor::examine_database(tx, &examined)
        })
        .await
    }
}
