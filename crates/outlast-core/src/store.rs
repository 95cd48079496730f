//! The verbs of a store.

use crate::{
    Cancelled, CascadeRequest, Cascaded, ClaimOffer, ClaimRequest, Claimed, CollectRequest,
    Collected, Commit, Committed, DeleteAnswer, Delivered, Extent, Fired, Heartbeat, HeldClaim,
    Hints, Inserts, InstanceId, Listen, NewInstance, NewSignal, NewWorker, Note, ReapRequest,
    Reaped, ReconcileRequest, Reconciled, Release, Released, Result, Retried, RunStats,
    SignalOrInsert, SignalledOrInserted, Terminated, Timestamp, WorkerId, WriteCheck,
};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Names of queues in which something may have become claimable: hints for pickers. Nothing is lost
/// when one is (correctness never rests on them).
pub type QueueNames = BTreeSet<String>;

/// A place where instances live.
///
/// **Atomic.** Each verb is one transaction: all of it is seen, or nothing. An answer means that it
/// is durable. There are two exceptions, whose effect may be forgotten by a database that crashes:
/// [`claim`](Store::claim), which only means that somebody else claims the step, and
/// [`record`](Store::record), whose counts nothing depends on.
///
/// **Fence.** A claim is an instance and its [`revision`](crate::Revision). Verbs that act on a claim
/// write only where the revision is still the same; otherwise they answer *lost* and have no effect
/// at all: nothing is consumed, spawned, joined or freed (I3). An outcome that keeps its claim moves it one
/// revision on; another claim of the same instance is at least two further, since the first must end and the
/// second begin. So a claim that a worker knows of is told from one that it does not know of.
///
/// **Order of locks**, the same in every verb: the worker's row; the verb's own instances by id;
/// those who get a place in a window; their parents by id; the next in line of their partition keys. Verbs of maintenance skip what
/// somebody else holds. What the databases still find to be a deadlock is tried again a bounded
/// number of times.
///
/// **Look after locking.** Whoever parks and whoever wakes lock the instance first, in a statement of
/// its own, and look only then (docs/protocol.md, defect 2): no wake-up is lost between them.
///
/// **Bounds** are in [`limits`](crate::limits). Verbs of callers (`insert`, `deliver`) refuse a batch
/// with one bad row whole, naming the row; verbs of the engine (`commit`) isolate it.
///
/// **Time** is the store's. Delays go in and come out as durations.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The store's present moment.
    async fn now(&self) -> Result<Timestamp>;

    /// Whether the database takes writes now: commits a few pages of rows and removes them in the same transaction.
    ///
    /// *Atomic*: nobody ever sees the rows, and nothing is left. *Fence*: none. *Locks*: its own rows. *Bound*:
    /// [`Delays::PROBE_MAX`](crate::Delays::PROBE_MAX) rows. *Idempotent*. The answer is of this moment and of a small
    /// write: a larger write can still find the disk full. A role that may only read is told so, and the database
    /// has answered then. Whatever else goes wrong is an error.
    async fn check_writes(&self) -> Result<WriteCheck>;

    /// Brings instances in.
    ///
    /// *Atomic*: all rows that are not duplicates, or none. *Fence*: none. *Locks*: keys, in the order
    /// of (machine, key), so that two batches with the same keys cannot deadlock. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent* for rows with a correlation key, as long
    /// as its holder occupies it; a duplicate is an answer, not an error (I9). Ids are given in the
    /// caller's order.
    ///
    /// With `claim_for`, rows that could be claimed at once come back claimed by that worker:
    /// executing, at revision 1. Rows that start later, have a partition key, or a scope without
    /// `executing` are inserted as usual. Fails with
    /// [`LeaseExpired`](crate::Error::LeaseExpired) when the worker's lease is not alive.
    async fn insert(&self, rows: Vec<NewInstance>, claim_for: Option<WorkerId>) -> Result<Inserts>;

    /// Takes the most urgent eligible instances of a queue.
    ///
    /// Runnable rows of the registered machines whose `eligible_at` has come (I10), by priority, then
    /// `eligible_at`, then id, become executing with `revision + 1`. Of the rows that share a
    /// partition key only the first in that order is taken, and only when none of that key is
    /// executing (I8); the others do not block what is behind them.
    ///
    /// *Atomic*. *Fence*: the worker's lease must be alive, else
    /// [`LeaseExpired`](crate::Error::LeaseExpired). *Locks*: the worker's row, shared; the rows,
    /// skipping what others hold. *Bound*: `max`, at most
    /// [`CLAIM_MAX`](crate::limits::CLAIM_MAX). *Not idempotent*: when the result of a claim is
    /// unknown, ask [`claims_of`](Store::claims_of). A claim that a crashed database has forgotten may be
    /// given again at the same revision, for the same step and state; of the two workers the first to
    /// commit is written and the other is lost.
    async fn claim(&self, request: ClaimRequest) -> Result<Claimed>;

    /// Writes outcomes; see [`Outcome`](crate::Outcome) for what each does to its row.
    ///
    /// An outcome is written with everything that belongs to it, or not at all: signals consumed (I7),
    /// children started, the parent's join counted once per child and only for its current round
    /// (I6), the correlation key released when the status leaves its scope (I9), the next in line of
    /// a partition key let through.
    ///
    /// A child whose key is occupied is dropped and listed in
    /// [`Claim::dropped`](crate::Claim::dropped) of the step that joins. Children are started before
    /// anything else of the batch is written: a key that another outcome of the batch releases is still
    /// occupied for them. Workflows look at the children they wait for before that too: an end in the same batch has not
    /// come yet for a park, and is counted with it afterwards like any.
    ///
    /// JoinSets are counted per parent, in one go: of the present round of a machine, of each part that a
    /// workflow waits for. A workflow's counts do not go below 0.
    ///
    /// Events are appended with any outcome that is written, and with none that is lost, rejected or answered with a
    /// cancel. A claim that is named twice in a batch is lost the second time whatever the first was answered, unless
    /// that was rejected.
    ///
    /// *Atomic* per outcome; the batch is usually one transaction, and is taken apart only to isolate a
    /// row that cannot be written. *Fence*: `revision`; a row whose fence does not match answers
    /// `Lost`. *Locks*: own rows, parents, next in line. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*: sent again, it answers `Lost`. Naming one
    /// claim twice in a batch commits the first and loses the second.
    ///
    /// The outcomes are shared: whoever sends them keeps them, to try again or to go on with what was written.
    async fn commit(&self, commits: Arc<Vec<Commit>>) -> Result<Committed>;

    /// Gives claims back untouched: runnable, `attempt` and `crashes` as they were, `revision + 1`.
    ///
    /// *Atomic* for the batch. *Fence*: `revision`. *Locks*: own rows, next in line. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*: sent again, it answers `Lost`.
    async fn release(&self, releases: Vec<Release>) -> Result<Released>;

    /// Everything that executes for `worker`, by id, with its revision now and a cancel that waits to be answered: for a worker that does not
    /// know what a broken call gave it, and [releases](Store::release) what it has no other trace of. A claim
    /// of the worker that the database is still at, though nobody waits for it any more, is waited for.
    ///
    /// The answer is of one moment; claims that the worker runs meanwhile move on. *Atomic*. *Fence*: none,
    /// nothing is written. *Locks*: the worker's row. *Bound*: what one worker holds. *Idempotent*.
    async fn claims_of(&self, worker: WorkerId) -> Result<Vec<HeldClaim>>;

    /// Puts signals into inboxes and wakes who waits for them.
    ///
    /// A signal wakes its target when that is awaiting signals, or is a workflow awaiting children, and its name is among
    /// the awaited; the target becomes runnable, eligible now, `awaits` kept, the deadline cleared. Otherwise it waits
    /// in the inbox. Signals of one batch arrive in the caller's order, as if sent one by one: the first
    /// match wakes, a dedup key of an earlier one makes a duplicate. Duplicate goes before no target,
    /// no target before a full inbox.
    ///
    /// A dedup key is known when the instance was sent a signal with it, whatever became of the signal and of the
    /// instance. For a signal by key it is known when any of the latest
    /// [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) instances was that hold or held the key: a signal that is sent again
    /// does not reach the next holder.
    ///
    /// With `claim_for`, targets that this batch woke come back claimed by that worker when it could claim
    /// them at once: their queue is among its queues and not paused, it has their machine, they have no
    /// partition key and have never fanned out. They are taken when the whole batch has arrived, and are
    /// what a later claim would have given: executing, at `revision + 1`, with their inbox. The others are
    /// woken as usual. When the result is unknown, ask [`claims_of`](Store::claims_of). Fails with
    /// [`LeaseExpired`](crate::Error::LeaseExpired) when the worker's lease is not alive; then nothing is
    /// delivered.
    ///
    /// *Atomic* for the batch. *Fence*: the target must not have ended, looked at under its lock (I7).
    /// *Locks*: with `claim_for` the worker's row, shared; the targets by id. *Bound*:
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX) signals, with `claim_for`
    /// [`CLAIM_MAX`](crate::limits::CLAIM_MAX); [`INBOX_MAX`](crate::limits::INBOX_MAX) unconsumed per
    /// instance. *Idempotent* for signals with a dedup key, for as long as the instance is stored.
    async fn deliver(
        &self,
        signals: Vec<NewSignal>,
        claim_for: Option<ClaimOffer>,
    ) -> Result<Delivered>;

    /// Sends a signal to the instance that holds a correlation key; starts that instance, with the signal
    /// in its inbox, when nobody holds the key. Of several callers at once, one starts it and the signals
    /// of all arrive.
    ///
    /// *Atomic*. *Locks*: the key, then the target. *Idempotent* as [`deliver`](Store::deliver) is, while
    /// the key is held. A holder that has ended and still occupies its key (its scope says so) is not
    /// replaced: the answer is `NoTarget`.
    async fn signal_or_insert(&self, request: SignalOrInsert) -> Result<SignalledOrInserted>;

    /// Registers a worker, whose lease runs from now.
    async fn register(&self, worker: NewWorker) -> Result<WorkerId>;

    /// Lets the lease run anew from now. One small write, however much the worker runs.
    ///
    /// A worker that is late but was not removed yet is renewed: what was reaped of it is protected by
    /// the fence. *Idempotent*.
    async fn heartbeat(&self, worker: WorkerId, lease: Duration) -> Result<Heartbeat>;

    /// JoinSets a lease at once. The worker is removed when it holds no claims; otherwise it counts as
    /// expired from now, and [`reap`](Store::reap) returns what it held. *Idempotent*.
    async fn deregister(&self, worker: WorkerId) -> Result<()>;

    /// Returns claims of workers whose lease has expired: runnable where they were, `attempt + 1`,
    /// `crashes + 1`, `revision + 1`, `awaits` kept. An instance with more than `crashes_max` crashes in a row
    /// that count ([`Crash`](crate::Crash)) fails with [`gave_up`](crate::gave_up), as if it had stopped.
    /// A crash counts when its worker held no other claim, or no other suspect. Claims go by id; a worker
    /// with nothing left is removed.
    ///
    /// *Atomic*. *Locks*: the worker's row, own rows, parents, next in line; skips what others hold.
    /// *Bound*: `max` claims. *Idempotent*.
    async fn reap(&self, request: ReapRequest) -> Result<Reaped>;

    /// Wakes waits, joins and parks of workflows whose deadline has come: runnable, eligible now, `attempt` and `awaits` as they were,
    /// the deadline cleared. A timeout is a wake, not a failure. A join is decided by it
    /// ([`Joined::Deadline`](crate::Joined::Deadline)).
    ///
    /// *Atomic*. *Locks*: own rows by deadline, skipping what others hold. *Bound*: `max`, at most
    /// [`BATCH_MAX`](crate::limits::BATCH_MAX). *Idempotent*.
    async fn fire(&self, max: usize) -> Result<Fired>;

    /// Removes instances that ended longer ago than the retention, with their signals and operations,
    /// earliest end first. Children are spared while their parent lives (docs/protocol.md, defect 6), and parents while their
    /// children are still to be told of the end. Records of
    /// operations that belong to no stored instance go when they are older than the retention.
    ///
    /// Histories go with their instance.
    ///
    /// *Atomic*. *Locks*: own rows, skipping what others hold. *Bound*: `max`. *Idempotent*.
    async fn collect(&self, request: CollectRequest) -> Result<Collected>;

    /// Looks at one page of instances for joins that miscount, for workflows that wait though all children of a part
    /// have ended, and for holds nobody would end, and mends them. It should never find any. Such a workflow is woken ([`Joined::All`](crate::Joined::All)); what it has counted
    /// stays as it is, here and otherwise.
    ///
    /// *Atomic*. *Locks*: own rows by id. *Bound*: `max`. *Idempotent*.
    async fn reconcile(&self, request: ReconcileRequest) -> Result<Reconciled>;

    /// Adds counts of what was run to those of the minute, and forgets those older than
    /// [`TRAFFIC_KEPT`](crate::limits::TRAFFIC_KEPT).
    ///
    /// *Atomic*. *Locks*: the rows of the counts, in their order. *Bound*:
    /// [`TRAFFIC_MAX`](crate::limits::TRAFFIC_MAX). *Not idempotent*: what may have been counted is not sent again.
    async fn add_run_stats(&self, stats: RunStats) -> Result<()>;

    /// Asks instances to end. Each answers by what its machine decides.
    ///
    /// One that waits, for signals or for children, is woken: runnable, eligible now, `awaits` kept, the deadline
    /// cleared. One that is runnable is eligible now, if it was not; it keeps its place behind a partition key. Of one
    /// that executes nothing else changes, and its next outcome meets the cancel ([`Outcome`](crate::Outcome)). One that
    /// still waits for a place in a window ends at once. The next claim carries the cancel. The revision stays: a
    /// claim is not lost by it.
    ///
    /// With [`Extent::Tree`] those that descend from it, from rounds up to its present one, are asked too, by
    /// [`cascade`](Store::cascade): also when the instance itself has ended or was asked before.
    ///
    /// *Atomic* for the batch. *Locks*: own rows, and of those that never started parents and next in line.
    /// *Idempotent*: sent again, it answers `AlreadyRequested`. Recorded when it changed anything.
    async fn cancel(&self, ids: Vec<InstanceId>, extent: Extent, note: Note) -> Result<Cancelled>;

    /// JoinSets instances as cancelled, whatever they do: a running step's outcome is dropped by the fence.
    /// `revision + 1`, the inbox emptied, the parent joined, a place in a window passed on, children under a policy to
    /// be told, as with [`Outcome::Cancel`](crate::Outcome::Cancel). Several are ended in the order of their ids.
    ///
    /// With [`Extent::Tree`] those that descend from it are ended too, by [`cascade`](Store::cascade): also when the
    /// instance itself had ended before.
    ///
    /// *Atomic* for the batch. *Locks*: own rows, parents, next in line. *Idempotent*: sent again, it
    /// answers `AlreadyEnded`. Recorded.
    async fn terminate(
        &self,
        ids: Vec<InstanceId>,
        extent: Extent,
        note: Note,
    ) -> Result<Terminated>;

    /// Tells children what became of their parent: durable work that ends of parents, joins and trees leave behind, so
    /// that none of them waits for thousands of children.
    ///
    /// A cascade is left by the end of an instance that has live children under a policy
    /// ([`NewInstance::on_parent_close`](crate::NewInstance::on_parent_close)), with [`ended_note`](crate::ended_note); by
    /// a join that is decided while children of it live, when its [`rest`](crate::Join::rest) says so, with
    /// [`joined_note`](crate::joined_note); and by [`Extent::Tree`], with the operator's note. It covers the children of
    /// some rounds: at an end of all so far, at a join of that round, for a tree of all up to the present one. Children of
    /// a machine's answer to a cancel come later and are not in it.
    ///
    /// One call takes the oldest cascade that nobody holds and up to `max` of its children, the latest round and the
    /// highest id first, asks or ends each that lives as the policy says (as [`cancel`](Store::cancel) and
    /// [`terminate`](Store::terminate) do), records it with the parent as its cause, and leaves the rest for the next
    /// call. A cascade of a tree leaves one for each child that has fanned out, ended or not. What has ended, or was asked
    /// before, is left alone.
    ///
    /// *Atomic*. *Locks*: the cascade, skipping what others hold; own rows, parents, next in line. *Bound*: `max`.
    /// *Idempotent*.
    async fn cascade(&self, request: CascadeRequest) -> Result<Cascaded>;

    /// Starts failed or cancelled instances again at the step where they ended: runnable, eligible now,
    /// `attempt` and `crashes` 0, `revision + 1`, `finished_at` cleared, `last_error` kept. A key that was
    /// released stays released. While the parent still waits for that round, the child counts again, unless the parent is a
    /// workflow. A cancel that was requested is forgotten.
    ///
    /// *Atomic* for the batch. *Locks*: own rows, parents. *Idempotent*: sent again, it answers
    /// `NotEndedBadly`. Recorded (I4).
    async fn retry(&self, ids: Vec<InstanceId>, note: Note) -> Result<Retried>;

    /// Removes ended instances now, with their signals, histories and operations; the delete itself stays recorded.
    ///
    /// *Atomic* for the batch. *Locks*: own rows. *Idempotent*: sent again, it answers `NotFound`.
    async fn delete(&self, ids: Vec<InstanceId>, note: Note) -> Result<Vec<DeleteAnswer>>;

    /// Stops a queue from giving out work; what runs goes on. Answers whether that changed anything.
    /// Recorded when it did.
    async fn pause(&self, queue: &str, note: Note) -> Result<bool>;

    /// Lets a queue give out work again. Answers whether that changed anything. Recorded when it did.
    async fn resume(&self, queue: &str, note: Note) -> Result<bool>;

    /// Names the database behind this store: two stores with one name in one process tell each other
    /// directly what has become worth looking at.
    fn place(&self) -> &str;

    /// Tells other nodes what may have become worth looking at, outside any transaction. A store without
    /// a way to tell does nothing. *Bound*: what does not fit in one message is left out.
    async fn notify(&self, hints: Hints) -> Result<()> {
        let _ = hints;
        Ok(())
    }

    /// Hears what other nodes tell. `None` when this store has no way to: then everybody polls.
    async fn listen(&self) -> Result<Option<Box<dyn Listen>>> {
        Ok(None)
    }

    /// Closes the store: waits for what is under way, then lets go of connections, threads and files.
    /// Every verb after it answers [`Closed`](crate::Error::Closed).
    async fn close(&self);
}
