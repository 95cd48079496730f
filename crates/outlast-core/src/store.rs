//! The verbs of a store: the contract that each database implements.
//!
//! The engine and the client call them. The contract never runs user code, and never depends on a
//! hint for correctness.

use crate::{
    Cancelled, CascadeRequest, Cascaded, ClaimOffer, ClaimRef, ClaimRequest, Claimed,
    CollectRequest, Collected, Commit, Committed, DeleteAnswer, Delivered, Extent, Fired,
    Heartbeat, HeldClaim, Hints, Inserts, InstanceId, Listen, NewInstance, NewSignal, NewWorker,
    Note, ReapRequest, Reaped, Release, Released, Repaired, Result, Retried, RunStats, Signal,
    SignalOrInsert, SignalledOrInserted, Terminated, TimedOut, Timestamp, WorkerId, WriteCheck,
};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Queues in which an instance may have become claimable: hints for pickers.
///
/// A lost hint only delays a claim until the next poll.
pub type QueueNames = BTreeSet<String>;

/// A database that holds instances.
///
/// **Atomic.** Each verb is one transaction. Its effect is durable when the verb answers. A
/// database that crashes may forget the effect of two verbs. After a lost [`claim`](Store::claim)
/// another worker claims the step. Nothing depends on the counts of
/// [`add_run_stats`](Store::add_run_stats).
///
/// **Fence.** A claim is an instance and its [`revision`](crate::Revision). Verbs that act on a
/// claim write only where the revision still matches. Otherwise they answer *lost* and have no
/// effect: they consume, start, join and free nothing (I3). An outcome that keeps its claim adds
/// one to the revision. A later claim of the same instance is at least two revisions ahead,
/// because the first claim must end before. So a worker can distinguish a claim that it knows from
/// a claim that it does not know.
///
/// **Order of locks**, the same in every verb:
///
/// 1. the worker's row;
/// 2. the verb's own instances, by id;
/// 3. instances that get a place in a window;
/// 4. their parents, by id;
/// 5. the next instances in line of their partition keys.
///
/// Maintenance verbs skip rows that another transaction has locked. Stores retry a transaction
/// that the database reports as a deadlock, a bounded number of times.
///
/// **Lock, then read.** A verb that parks or wakes an instance locks it in one statement and reads
/// it in the next (docs/protocol.md, defect 2). So no wake-up is lost between the two.
///
/// **Bounds** are in [`limits`](crate::limits). `insert` and `deliver` refuse a whole batch that
/// has one bad row, and name the row. `commit` isolates the bad row and writes the others.
///
/// **Time** is the store's. Requests and answers carry delays as durations.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the current time of the store.
    async fn now(&self) -> Result<Timestamp>;

    /// Checks whether the database accepts writes now.
    ///
    /// Inserts a few pages of rows and deletes them in the same transaction.
    ///
    /// *Atomic*: the rows are never visible, and none is left. *Fence*: none. *Locks*: its own
    /// rows. *Bound*: [`Delays::PROBE_MAX`](crate::Delays::PROBE_MAX) rows. *Idempotent*. The
    /// answer holds for this moment and for a small write: a larger write can still find the disk
    /// full. A role that may only read gets an answer that says so. Every other failure is an
    /// error.
    async fn check_writes(&self) -> Result<WriteCheck>;

    /// Inserts instances.
    ///
    /// *Atomic*: inserts all rows that are not duplicates, or none. *Fence*: none. *Locks*: keys,
    /// in the order of (machine, key), so that two batches with the same keys cannot deadlock.
    /// *Bound*: [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent* for rows with a correlation
    /// key, while an instance holds that key. A duplicate is an answer, not an error (I9). Ids
    /// grow in the caller's order.
    ///
    /// With `claim_for`, that worker claims the rows that are claimable at once: they are
    /// executing, at revision 1. Rows that start later, have a partition key, or have a scope
    /// without `executing` are inserted as usual. Fails with
    /// [`LeaseExpired`](crate::Error::LeaseExpired) when the worker's lease has expired.
    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts>;

    /// Claims the most urgent eligible instances of a queue.
    ///
    /// Takes runnable rows of the registered machines whose `eligible_at` has passed (I10). Their
    /// order is priority, then `eligible_at`, then id. They become executing, with `revision + 1`.
    /// Of the rows that share a partition key it takes only the first. It takes none while a row
    /// of that key is executing (I8). The other rows of the key do not block the rows behind them.
    ///
    /// *Atomic*. *Fence*: the worker's lease must be valid, else
    /// [`LeaseExpired`](crate::Error::LeaseExpired). *Locks*: the worker's row, shared; the
    /// claimed rows, skipping locked ones. *Bound*: `max`, at most
    /// [`CLAIM_MAX`](crate::limits::CLAIM_MAX). *Not idempotent*: when the result of a claim is
    /// unknown, call [`claims_of`](Store::claims_of). A database that crashes may forget a claim
    /// and grant it again at the same revision, with the same step and state. Of the two workers,
    /// the first to commit wins and the other gets `Lost`.
    async fn claim(&self, request: ClaimRequest) -> Result<Claimed>;

    /// Writes outcomes. [`Outcome`](crate::Outcome) says how each changes its row.
    ///
    /// Writes an outcome with all its effects, or not at all:
    ///
    /// - consumes the received signals (I7);
    /// - starts the children;
    /// - counts the end in the parent's join, once per child and only for its current round (I6);
    /// - releases the correlation key when the status leaves its scope (I9);
    /// - lets the next instance of the partition key through.
    ///
    /// A child whose key is occupied is dropped. The step that joins finds it in
    /// [`Claim::dropped`](crate::Claim::dropped). The store starts children before it writes
    /// anything else of the batch. So a key that another outcome of the batch releases still
    /// counts as occupied. A park also reads its awaited children before that. A child that
    /// finishes in the same batch is counted afterwards, like any other.
    ///
    /// Finished children are counted once per parent: for the current round of a machine, and for
    /// each join set of a workflow. The counts of a workflow never go below 0.
    ///
    /// An outcome that keeps its claim answers the latest signal that was delivered since the
    /// claim. It covers every delivery that was acknowledged before the commit.
    ///
    /// Events are appended, views are replaced and replies are stored with an outcome that is
    /// written. An outcome that is lost, rejected or answered with a cancel writes none of them.
    ///
    /// A [reply](crate::NewReply) consumes its update, if that is not consumed yet, with any
    /// outcome. It comes before the look of a park into the inbox, and before an end empties it.
    /// The first reply stands. A reply to a signal that is no update of this instance is left out.
    ///
    /// *Atomic* per outcome. The batch is usually one transaction; the store splits it only to
    /// isolate a row that cannot be written. *Fence*: `revision`; a row whose fence does not match
    /// answers `Lost`. *Locks*: own rows, parents, next in line. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*: sent again, it answers `Lost`. A
    /// claim that occurs twice in a batch is lost the second time, unless the first outcome was
    /// rejected.
    ///
    /// The outcomes are shared, so the caller can retry them or continue with them afterwards.
    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed>;

    /// Releases claims unchanged: runnable, same `attempt` and `crashes`, `revision + 1`.
    ///
    /// *Atomic* for the batch. *Fence*: `revision`. *Locks*: own rows, next in line. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*: sent again, it answers `Lost`.
    async fn release(&self, releases: Vec<Release>) -> Result<Released>;

    /// Reads the unconsumed signals of a claim, oldest first; `None` when the claim is lost.
    ///
    /// A worker that keeps a claim calls this when a commit answers a
    /// [`latest_signal`](crate::Answer::Committed::latest_signal) that it has not seen. So the next
    /// step sees every signal that was delivered before that commit.
    ///
    /// The answer shows one moment, at which the claim was held: no signal of it was consumed. A
    /// signal that is delivered meanwhile may be missing. The answer to the next commit names it.
    /// *Atomic*. *Fence*: `revision`; nothing is written. *Locks*: none. *Bound*:
    /// [`INBOX_MAX`](crate::limits::INBOX_MAX). *Idempotent*.
    async fn inbox(&self, claim: ClaimRef) -> Result<Option<Vec<Signal>>>;

    /// Lists the claims that `worker` holds, by id, with revisions and unanswered cancels.
    ///
    /// A worker calls this when a broken call left it unsure which claims it was given. It
    /// [releases](Store::release) the claims that it does not know. The verb waits for a claim of
    /// this worker that the database is still executing.
    ///
    /// The answer shows one moment; running claims advance meanwhile. *Atomic*. *Fence*: none,
    /// nothing is written. *Locks*: the worker's row. *Bound*: the claims of one worker.
    /// *Idempotent*.
    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>>;

    /// Puts signals into inboxes and wakes the instances that wait for them.
    ///
    /// A signal wakes a target that awaits its name: an instance awaiting signals, or a workflow
    /// awaiting children. The target becomes runnable and eligible now; `awaits` is kept, the
    /// deadline is cleared. Otherwise the signal stays in the inbox. For a target that [needs
    /// all](crate::Park::needs_all) the verb removes the name from `awaits`, and wakes the target
    /// only when nothing is missing. Signals of one batch arrive in the caller's order, as if sent
    /// one by one: the first match wakes. A dedup key of an earlier signal makes a later one a
    /// duplicate. `Duplicate` takes precedence over `NoTarget`, and `NoTarget` over `InboxFull`.
    ///
    /// A signal to an executing target is noted on its row, at an unchanged revision. The next
    /// commit that keeps the claim answers it
    /// ([`latest_signal`](crate::Answer::Committed::latest_signal)).
    ///
    /// An [update](crate::NewSignal::update) is a signal whose sender waits for a reply. It is
    /// delivered like any other. After a `Duplicate` the sender asks the named instance what became
    /// of the update ([`Inspect::update`](crate::Inspect::update)).
    ///
    /// A dedup key is known when the instance was ever sent a signal with it. The signal may have
    /// been consumed and the instance may have finished. A signal addressed by key is compared
    /// with the latest [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) instances that hold or held the
    /// key. So a signal that is sent again does not reach the next holder.
    ///
    /// With `claim_for`, that worker claims the woken targets that it could claim at once. Their
    /// queue must be one of its queues and not paused, and it must have their machine. They must
    /// have no partition key and must never have fanned out. The claims happen after the whole
    /// batch has arrived. They are the same as later claims: executing, at `revision + 1`, with
    /// the inbox. The other targets are woken as usual. When the result is unknown, call
    /// [`claims_of`](Store::claims_of). Fails with [`LeaseExpired`](crate::Error::LeaseExpired)
    /// when the worker's lease has expired; then nothing is delivered.
    ///
    /// *Atomic* for the batch. *Fence*: the target must not have ended, checked under its lock
    /// (I7). *Locks*: with `claim_for` the worker's row, shared; the targets by id. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX) signals, with `claim_for`
    /// [`CLAIM_MAX`](crate::limits::CLAIM_MAX); [`INBOX_MAX`](crate::limits::INBOX_MAX) unconsumed
    /// signals per instance. *Idempotent* for signals with a dedup key, for as long as the
    /// instance is stored.
    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered>;

    /// Sends a signal to the holder of a correlation key, or starts an instance with it.
    ///
    /// When no instance holds the key, the verb starts one with the signal in its inbox. Of
    /// several concurrent callers one starts the instance, and the signals of all arrive.
    ///
    /// *Atomic*. *Locks*: the key, then the target. *Idempotent* like [`deliver`](Store::deliver),
    /// while the key is held. A finished holder whose scope still occupies the key is not
    /// replaced: the answer is `NoTarget`.
    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted>;

    /// Registers a worker. Its lease starts now.
    async fn register(&self, worker: NewWorker) -> Result<WorkerId>;

    /// Renews a worker's lease from now on.
    ///
    /// It is one small write, however many steps the worker runs.
    ///
    /// A late worker that is still registered is renewed. The fence protects the claims that were
    /// reaped meanwhile. *Idempotent*.
    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat>;

    /// Ends a worker's lease now.
    ///
    /// Removes the worker when it holds no claims. Otherwise its lease counts as expired from now,
    /// and [`reap`](Store::reap) returns its claims. *Idempotent*.
    async fn deregister(&self, worker: WorkerId) -> Result<()>;

    /// Returns claims of workers whose lease has expired.
    ///
    /// Their instances become runnable at the same step, with `attempt + 1`, `crashes + 1` and
    /// `revision + 1`; `awaits` is kept. An instance fails with [`gave_up`](crate::gave_up) after
    /// more than `crashes_max` counted crashes in a row ([`Crash`](crate::Crash)), with the
    /// effects of [`Outcome::Fail`](crate::Outcome::Fail). A crash counts when its worker held no
    /// other claim, or no other quarantined one. Claims are returned in the order of their ids. A
    /// worker without claims is removed.
    ///
    /// *Atomic*. *Locks*: the worker's row, own rows, parents, next in line; skips locked rows.
    /// *Bound*: `max` claims. *Idempotent*.
    async fn reap(&self, request: ReapRequest) -> Result<Reaped>;

    /// Wakes instances whose deadline has passed.
    ///
    /// This covers waits, joins and parks of workflows. They become runnable and eligible now;
    /// `attempt` and `awaits` are unchanged, the deadline is cleared. A timeout is a wake, not a
    /// failure. It decides a join ([`Joined::Deadline`](crate::Joined::Deadline)). A workflow that
    /// [needs all](crate::Park::needs_all) and lacks children or signals stays parked: only its
    /// deadline is cleared.
    ///
    /// *Atomic*. *Locks*: own rows by deadline, skipping locked ones. *Bound*: `max`, at most
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*.
    async fn fire(&self, max: usize) -> Result<Fired>;

    /// Fails instances that have taken too long, in any status.
    ///
    /// An instance has taken too long when its [`timeout`](crate::NewInstance::timeout) or the
    /// [`run_timeout`](crate::NewInstance::run_timeout) of its present run has passed. The error is
    /// [`PassedTimeout::reason`](crate::PassedTimeout::reason), of the timeout that has passed
    /// first; of two at one moment, that of the instance. The fence drops the outcome of a running
    /// step. The effects are those of [`Outcome::Fail`](crate::Outcome::Fail): `revision + 1`, an
    /// empty inbox, a join of the parent, a free place in the window, a released key, and a cascade
    /// to the children under a policy. A history that has begun gets the event
    /// [`TimedOut`](crate::EventKind::TimedOut). Nothing asks the machine, not even an unanswered
    /// cancel.
    ///
    /// *Atomic*. *Locks*: own rows by deadline, skipping locked ones; parents, next in line.
    /// *Bound*: `max`, at most [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*.
    async fn time_out(&self, max: usize) -> Result<TimedOut>;

    /// Removes instances that finished before the retention period, earliest first.
    ///
    /// Their signals, replies, operations and histories go with them. Children stay while their
    /// parent lives (docs/protocol.md, defect 6). Parents stay until the cascade of their end has
    /// reached all children. Operations of instances that are no longer stored are removed after
    /// the retention period.
    ///
    /// *Atomic*. *Locks*: own rows, skipping locked ones. *Bound*: `max`. *Idempotent*.
    async fn collect(&self, request: CollectRequest) -> Result<Collected>;

    /// Adds run counts to those of their minute.
    ///
    /// Deletes the counts that are older than [`RUN_STATS_KEPT`](crate::limits::RUN_STATS_KEPT).
    ///
    /// *Atomic*. *Locks*: the rows of the counts, in their order. *Bound*:
    /// [`RUN_STATS_MAX`](crate::limits::RUN_STATS_MAX). *Not idempotent*: the engine never resends
    /// counts that may have been added.
    async fn add_run_stats(&self, stats: RunStats) -> Result<()>;

    /// Requests instances to cancel. Each machine decides how it ends.
    ///
    /// | status | effect |
    /// |---|---|
    /// | parked | becomes runnable, eligible now; `awaits` is kept, the deadline is cleared |
    /// | runnable | becomes eligible now; it keeps its place behind a partition key |
    /// | executing | unchanged; its next outcome meets the cancel ([`Outcome`](crate::Outcome)) |
    /// | waiting for a place in a window | ends at once |
    ///
    /// The next claim carries the cancel. The revision is unchanged, so that no claim is lost.
    ///
    /// With [`Extent::Tree`] the [`cascade`](Store::cascade) also cancels the descendants, from
    /// all rounds up to the current one. It does so even when the instance has finished or was
    /// cancelled before.
    ///
    /// *Atomic* for the batch. *Locks*: own rows; for instances that never started also parents
    /// and next in line. *Idempotent*: sent again, it answers `AlreadyRequested`. Recorded when it
    /// changed anything.
    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled>;

    /// Ends instances as cancelled, in any status.
    ///
    /// The fence drops the outcome of a running step. The effects are those of
    /// [`Outcome::Cancel`](crate::Outcome::Cancel): `revision + 1`, an empty inbox, a join of the
    /// parent, a free place in the window, and a cascade to the children under a policy. Instances
    /// end in the order of their ids.
    ///
    /// With [`Extent::Tree`] the [`cascade`](Store::cascade) also ends the descendants, even when
    /// the instance had finished before.
    ///
    /// *Atomic* for the batch. *Locks*: own rows, parents, next in line. *Idempotent*: sent again,
    /// it answers `AlreadyEnded`. Recorded.
    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated>;

    /// Cancels or ends the children of a parent that has ended or joined without them.
    ///
    /// Ends, joins and trees leave this work behind in the database, so that none of them waits
    /// for thousands of children.
    ///
    /// Three events leave a cascade:
    ///
    /// - An instance ends with live children under a policy
    ///   ([`NewInstance::on_parent_close`](crate::NewInstance::on_parent_close)). The note is
    ///   [`ended_note`](crate::ended_note). It covers all rounds so far.
    /// - A join is decided while some of its children live, and its [`rest`](crate::Join::rest) is
    ///   not to abandon. The note is [`joined_note`](crate::joined_note). It covers the round of the
    ///   join.
    /// - An operator uses [`Extent::Tree`]. The note is the operator's. It covers all rounds up to
    ///   the current one.
    ///
    /// Children that a machine starts in answer to a cancel come later and are not covered.
    ///
    /// One call takes the oldest cascade that is not locked, and up to `max` of its children. It
    /// starts with the latest round and the highest id. It cancels or ends each live child
    /// according to the policy, as [`cancel`](Store::cancel) and [`terminate`](Store::terminate)
    /// do. It records each with the parent as the cause, and leaves the other children for the
    /// next call. A tree cascade leaves another cascade for each child that has fanned out,
    /// finished or not. It skips children that have finished or were cancelled before.
    ///
    /// *Atomic*. *Locks*: the cascade, skipping locked ones; own rows, parents, next in line.
    /// *Bound*: `max`. *Idempotent*.
    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded>;

    /// Restarts failed or cancelled instances at the step where they ended.
    ///
    /// They become runnable, eligible now, with `attempt` and `crashes` 0 and `revision + 1`;
    /// `finished_at` and `result` are cleared, `last_error` is kept. A released key stays released.
    /// While the parent still waits for that round, its join counts the child as pending again,
    /// unless the parent is a workflow. A requested cancel is dropped. Both timeouts are counted
    /// anew. Updates that the end has left unanswered stay [ended](crate::UpdateState::Ended).
    ///
    /// *Atomic* for the batch. *Locks*: own rows, parents. *Idempotent*: sent again, it answers
    /// `NotEndedBadly`. Recorded (I4).
    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried>;

    /// Repairs instances that nothing would ever wake.
    ///
    /// [`needing_repair`](crate::Inspect::needing_repair) finds them. No verb leaves one behind, so
    /// each was edited by hand or written by a bug.
    ///
    /// | [`RepairNeed`](crate::RepairNeed) | repair |
    /// |---|---|
    /// | `SignalArrived`, `NothingAwaited` | becomes runnable, as by a signal |
    /// | `ChildrenMiscounted` | its children are counted anew, and decide its join |
    /// | `ChildrenFinished` | becomes runnable with [`Joined::All`](crate::Joined::All); its counts stay |
    /// | `KeyIsFree`, `PlaceIsFree` | can be claimed |
    ///
    /// A workflow that is woken looks at its inbox and its children itself, so its counts need no
    /// repair.
    ///
    /// An instance is locked and then checked again. So an instance that needs no repair stays as
    /// it is, whatever happens at the same time. The revision stays: nothing that is repaired is
    /// claimed.
    ///
    /// *Atomic* for the batch. *Locks*: own rows that seem to need a repair. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*: sent again, it answers `NotNeeded`. Recorded when it changed anything, with
    /// [`RepairNeed::note`](crate::RepairNeed::note).
    async fn repair(&self, ids: Vec<InstanceId>, note: Note) -> Result<Repaired>;

    /// Removes finished instances now, with their signals, histories and operations.
    ///
    /// The delete itself stays recorded.
    ///
    /// *Atomic* for the batch. *Locks*: own rows. *Idempotent*: sent again, it answers `NotFound`.
    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>>;

    /// Pauses a queue: no instance of it is claimed. Running steps continue.
    ///
    /// Answers whether this changed anything. Recorded when it did.
    async fn pause(&self, queue: &str, note: Note) -> Result<bool>;

    /// Resumes a paused queue.
    ///
    /// Answers whether this changed anything. Recorded when it did.
    async fn resume(&self, queue: &str, note: Note) -> Result<bool>;

    /// Returns the identity of the database behind this store.
    ///
    /// Two stores in one process with the same identity pass hints to each other directly.
    fn database_id(&self) -> &str;

    /// Sends hints to other nodes, outside any transaction.
    ///
    /// A store without notifications does nothing. *Bound*: hints that do not fit in one message
    /// are left out.
    async fn notify(&self, hints: Hints) -> Result<()> {
        let _ = hints;
        Ok(())
    }

    /// Receives the hints of other nodes.
    ///
    /// `None` when this store has no notifications: then every node polls.
    async fn listen(&self) -> Result<Option<Box<dyn Listen>>> {
        Ok(None)
    }

    /// Closes the store.
    ///
    /// Waits for running verbs, then releases connections, threads and files. Every later verb
    /// answers [`Closed`](crate::Error::Closed).
    async fn close(&self);
}
