//! Queries of the HTTP API, the dashboard and the command line. They never write.

pub(crate) mod step_count;

use crate::limits::{self, Hidden, PAGE_MAX};
use crate::{
    Barrier, CancelRequest, Child, ClosePolicy, DroppedChild, Event, Family, Finding,
    HistoryRequest, InstanceId, Invalid, JoinProgress, Json, MachineOffer, NeedingRepair,
    OperationId, Parent, RepairNeed, RepairScope, Result, Revision, RoundSummary, RunStats,
    RunSummary, Scope, SentUpdate, SignalId, Status, StepCountRequest, StepCounts, Timestamp, Verb,
    View, WorkerId,
};
use async_trait::async_trait;
use std::fmt;

/// Queries about the data of a store.
///
/// Reads are bounded and never wait for a row lock. Each answer shows one consistent moment; two
/// answers may show two moments.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// Returns one instance, or `None` when there is none with this id.
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>>;

    /// Finds the instance of `machine` with the correlation key `key`.
    ///
    /// Prefers the holder of the key; otherwise the one with the highest id that held it. `None`
    /// when no stored instance holds or held the key.
    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>>;

    /// Returns a page of instances, newest first.
    ///
    /// It reads at most [`SCAN_MAX`](crate::limits::SCAN_MAX) instances. So a page with a
    /// selective filter may be short, even empty, and still name a next page. With
    /// [`values`](ListRequest::values) it also ends at
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of values; one instance always
    /// fits. Without values, the query does not read states, results and dropped children.
    async fn list(&self, request: ListRequest) -> Result<Page>;

    /// Counts the instances that fit, up to [`COUNT_MAX`](crate::limits::COUNT_MAX).
    async fn count(&self, filter: Filter) -> Result<Count>;

    /// Returns the stored signals of an instance, oldest first, including tombstones.
    ///
    /// At most [`PAGE_MAX`](crate::limits::PAGE_MAX) after `after`, and at most
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of payloads. One signal always
    /// fits.
    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>>;

    /// Returns the children of an instance, of every round or of one, by id.
    ///
    /// At most [`PAGE_MAX`](crate::limits::PAGE_MAX) after `after`, and at most
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of states, results and errors. One
    /// child always fits.
    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>>;

    /// Returns every queue that is paused or has runnable or executing instances, by name.
    ///
    /// Counts each depth up to [`COUNT_MAX`](crate::limits::COUNT_MAX).
    async fn queues(&self) -> Result<Vec<QueueSummary>>;

    /// Returns every registered worker, by id.
    async fn workers(&self) -> Result<Vec<Worker>>;

    /// Returns the recorded operations, newest first: of one instance, or all.
    ///
    /// At most [`PAGE_MAX`](crate::limits::PAGE_MAX).
    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>>;

    /// Returns the operations that an instance caused on its children.
    ///
    /// The cause is its end, its join, or a tree. In the order of their ids, at most
    /// [`PAGE_MAX`](crate::limits::PAGE_MAX) after `after`.
    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>>;

    /// Counts an instance and its descendants by status; `None` when there is no such instance.
    ///
    /// Counts up to [`COUNT_MAX`](crate::limits::COUNT_MAX) in all.
    async fn family(&self, id: InstanceId) -> Result<Option<Family>>;

    /// Counts the children of an instance by round and status, in the order of the rounds.
    ///
    /// Counts up to [`COUNT_MAX`](crate::limits::COUNT_MAX) children in all, the newest rounds
    /// first.
    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>>;

    /// Returns events of one run of a workflow or a recorded machine, in order.
    ///
    /// At most [`HISTORY_PAGE_MAX`](crate::limits::HISTORY_PAGE_MAX) events, and at most
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of their data. One event always
    /// fits. Empty when there is no such instance or run.
    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>>;

    /// Returns the runs that have stored events, in order. A machine has one run.
    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>>;

    /// Returns the views of an instance, of all names or of one, by name.
    ///
    /// At most [`VIEWS_MAX`](crate::limits::VIEWS_MAX). Empty when there is no such instance.
    async fn views(&self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>>;

    /// Returns what became of an update of an instance, by its id.
    ///
    /// `None` when there is no such instance, when it was sent no signal with this dedup key, and
    /// when that signal wants no reply. The answer shows one moment.
    async fn update(&self, id: InstanceId, update: &str) -> Result<Option<SentUpdate>>;

    /// Counts a slice of all instances, in the order of their ids, by step and status.
    ///
    /// Each slice shows a different moment. A walk over all slices counts no instance twice.
    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts>;

    /// Returns the run counts of all engines since the minute of `since`, summed.
    ///
    /// In the order of the fields, at most [`RUN_STATS_MAX`](crate::limits::RUN_STATS_MAX) of each
    /// kind, the newest.
    async fn run_stats(&self, since: Timestamp) -> Result<RunStats>;

    /// Finds instances that nothing would ever wake: of one page of all instances, or of some ids.
    ///
    /// [`RepairNeed`] lists what it looks for. [`repair`](crate::Store::repair) repairs them. It
    /// takes no locks and sees one moment, so it finds no instance that is only busy.
    ///
    /// Reads at most [`BATCH_MAX`](crate::limits::BATCH_MAX) instances, and of a parked instance
    /// its inbox and the children that it waits for.
    async fn needing_repair(&self, scope: RepairScope) -> Result<NeedingRepair>;

    /// Checks the store and its database: settings, space, old snapshots.
    ///
    /// Reports every check that the role may make, including those without a problem.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}

/// The only step of every workflow.
pub const WORKFLOW_STEP: &str = "run";

/// A whole row. `Debug` shows neither state, result nor error.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the columns, explained in the schema and in Claim"
)]
pub struct Instance {
    pub id: InstanceId,
    pub machine: String,
    pub version: i32,
    pub step: String,
    pub state: Json,
    pub status: Status,
    pub revision: Revision,
    pub entered: Revision,
    pub trace: Option<String>,
    /// The output of a done instance, or the error value of a failed one, if it has one.
    pub result: Option<Json>,
    pub last_error: Option<String>,
    pub queue: String,
    pub priority: i16,
    pub eligible_at: Timestamp,
    pub attempt: i32,
    pub crashes: i32,
    pub partition_key: Option<String>,
    pub locked_by: Option<WorkerId>,
    pub awaits: Option<Vec<String>>,
    /// The latest end of its wait for a signal or for children. With
    /// [`needs_all`](Instance::needs_all): the earliest end.
    pub await_deadline: Option<Timestamp>,
    /// Whether it is parked until everything is there
    /// ([`Park::needs_all`](crate::Park::needs_all)). Then `awaits`, the deadline and the children
    /// are the missing ones.
    pub needs_all: bool,
    pub parent: Option<Parent>,
    /// Its position in its parent's fan-out.
    pub position: Option<i32>,
    /// What happens to it when its parent ends first.
    pub on_parent_close: ClosePolicy,
    /// Whether it waits for a place in the window of its parent's fan-out; `None` without a
    /// window.
    pub held: Option<bool>,
    pub cancel: Option<CancelRequest>,
    pub round: i32,
    /// The run of a workflow; 1 for other machines.
    pub run: i32,
    /// How many events the history of that run has.
    pub events: i32,
    /// The join sets of a workflow's last wait for children. `None` for other machines, and for a
    /// workflow that has started no children.
    pub joining: Option<Vec<JoinProgress>>,
    pub children_pending: i32,
    /// The join of its last fan-out, or of its last park with join sets. `None` before the first
    /// round.
    pub barrier: Option<Barrier>,
    pub dropped: Vec<DroppedChild>,
    pub correlation_key: Option<String>,
    pub correlation_scope: Option<Scope>,
    /// Whether it still occupies its correlation key.
    pub holds_key: bool,
    /// When it fails as timed out, over all its runs. It stays after the end.
    pub timeout_at: Option<Timestamp>,
    /// When it fails as timed out because of its present run. It stays after the end.
    pub run_timeout_at: Option<Timestamp>,
    pub inserted_at: Timestamp,
    pub updated_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

impl Instance {
    /// Returns when it fails as timed out; `None` when it never does, or has ended.
    pub fn times_out_at(&self) -> Option<Timestamp> {
        let moments = [self.timeout_at, self.run_timeout_at].into_iter().flatten();
        moments.min().filter(|_| !self.status.is_terminal())
    }

    /// Returns what it does or waits for, in one word.
    ///
    /// `need` is what [`needing_repair`](Inspect::needing_repair) has found for it.
    pub fn liveness(&self, need: Option<RepairNeed>) -> Liveness {
        match self.status {
            Status::Done | Status::Failed | Status::Cancelled => Liveness::Ended,
            _ if need.is_some() => Liveness::RepairNeeded,
            Status::Runnable => Liveness::Queued,
            Status::Executing => Liveness::Running,
            Status::AwaitingSignal => Liveness::WaitingForSignal,
            Status::Sleeping => Liveness::WaitingForTime,
            Status::AwaitingChildren => Liveness::WaitingForChild,
        }
    }

    /// Returns the size of its values in bytes, as counted towards a page.
    pub fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |it| it.as_str().len());
        let error = self.last_error.as_ref().map_or(0, String::len);
        let reason = self.cancel.as_ref().map_or(0, |it| it.reason.len());
        let keys = self.dropped.iter().map(|it| it.key.len());
        self.state.as_str().len() + result + error + reason + keys.sum::<usize>()
    }

    /// Whether it has a history: it is a workflow, or a machine that records its transitions.
    ///
    /// An instance that was never claimed has none yet.
    pub fn has_history(&self) -> bool {
        self.run > 1 || self.events > 0
    }

    /// Whether it is known to be a workflow: it has a history and is at the step of all workflows.
    ///
    /// A machine that records its transitions looks the same at a step of that name. Then only its
    /// events show the difference.
    pub fn is_workflow(&self) -> bool {
        self.has_history() && self.step == WORKFLOW_STEP
    }
}

/// What an instance does or waits for, and whether anything would wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// It is in its queue, or waits for its turn to get there.
    Queued,
    /// A worker runs it.
    Running,
    /// It waits for a signal, and perhaps for a deadline.
    WaitingForSignal,
    /// It waits for a moment.
    WaitingForTime,
    /// It waits for a child. A workflow may wait for signals and a moment, too.
    WaitingForChild,
    /// Nothing would ever wake it: [`repair`](crate::Store::repair) does.
    RepairNeeded,
    /// It has ended.
    Ended,
}

impl Liveness {
    /// Returns the word for it, the same in every interface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Liveness::Queued => "queued",
            Liveness::Running => "running",
            Liveness::WaitingForSignal => "waiting_for_signal",
            Liveness::WaitingForTime => "waiting_for_time",
            Liveness::WaitingForChild => "waiting_for_child",
            Liveness::RepairNeeded => "repair_needed",
            Liveness::Ended => "ended",
        }
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("id", &self.id)
            .field("machine", &self.machine)
            .field("version", &self.version)
            .field("step", &self.step)
            .field("state", &self.state)
            .field("status", &self.status)
            .field("revision", &self.revision)
            .field("entered", &self.entered)
            .field("trace", &self.trace)
            .field("result", &self.result)
            .field("last_error", &self.last_error.as_deref().map(Hidden))
            .field("queue", &self.queue)
            .field("priority", &self.priority)
            .field("eligible_at", &self.eligible_at)
            .field("attempt", &self.attempt)
            .field("crashes", &self.crashes)
            .field("partition_key", &self.partition_key)
            .field("locked_by", &self.locked_by)
            .field("awaits", &self.awaits)
            .field("await_deadline", &self.await_deadline)
            .field("needs_all", &self.needs_all)
            .field("parent", &self.parent)
            .field("position", &self.position)
            .field("on_parent_close", &self.on_parent_close)
            .field("held", &self.held)
            .field("cancel", &self.cancel)
            .field("round", &self.round)
            .field("run", &self.run)
            .field("events", &self.events)
            .field("joining", &self.joining)
            .field("children_pending", &self.children_pending)
            .field("barrier", &self.barrier)
            .field("dropped", &self.dropped)
            .field("correlation_key", &self.correlation_key)
            .field("correlation_scope", &self.correlation_scope)
            .field("holds_key", &self.holds_key)
            .field("timeout_at", &self.timeout_at)
            .field("run_timeout_at", &self.run_timeout_at)
            .field("inserted_at", &self.inserted_at)
            .field("updated_at", &self.updated_at)
            .field("finished_at", &self.finished_at)
            .finish()
    }
}

/// A filter for instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this machine.
    pub machine: Option<String>,
    /// Of this version.
    pub version: Option<i32>,
    /// At this step.
    pub step: Option<String>,
    /// In one of these statuses; empty means any. [`Status::AwaitingSignal`] excludes sleeping
    /// instances.
    pub statuses: Vec<Status>,
    /// In this queue.
    pub queue: Option<String>,
    /// With this correlation key, held or released.
    pub correlation_key: Option<String>,
    /// With this partition key.
    pub partition_key: Option<String>,
    /// Started by this instance.
    pub parent: Option<InstanceId>,
    /// Inserted at or after this moment.
    pub inserted_from: Option<Timestamp>,
    /// Inserted before this moment.
    pub inserted_until: Option<Timestamp>,
    /// Finished at or after this moment. Live instances do not fit.
    pub ended_from: Option<Timestamp>,
    /// Finished before this moment. Live instances do not fit.
    pub ended_until: Option<Timestamp>,
    /// Its last error contains this text, case-sensitive. Errors that a codec has encoded do not
    /// match.
    pub error: Option<String>,
    /// It has been retried at least this often at its step.
    pub attempts_from: Option<i32>,
    /// It waits for a signal or sleeps, without a deadline or with one before this moment.
    pub deadline: Option<Deadline>,
}

/// A page to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// The filter.
    pub filter: Filter,
    /// Only instances with a lower id: the [`next`](Page::next) of the page before.
    pub before: Option<InstanceId>,
    /// The largest number of instances. Default: [`PAGE_DEFAULT`](crate::limits::PAGE_DEFAULT).
    pub limit: usize,
    /// Whether to read states, results and dropped children. Without them
    /// [`state`](Instance::state) is `null`, [`result`](Instance::result) is `None` and
    /// [`dropped`](Instance::dropped) is empty. Default: false.
    pub values: bool,
}

impl Default for ListRequest {
    fn default() -> ListRequest {
        ListRequest {
            filter: Filter::default(),
            before: None,
            limit: limits::PAGE_DEFAULT,
            values: false,
        }
    }
}

impl ListRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        self.filter.check()?;
        limits::check_batch("page", self.limit, PAGE_MAX)
    }
}

impl Filter {
    /// Checks whether its values could be stored.
    ///
    /// One database refuses a value that could not, and the other never finds it. The check makes
    /// both stores refuse it.
    pub fn check(&self) -> Result<(), Invalid> {
        let names = [
            ("machine", &self.machine),
            ("step", &self.step),
            ("queue", &self.queue),
        ];
        for (what, name) in names {
            name.as_deref()
                .map_or(Ok(()), |name| limits::check_name(what, name))?;
        }
        let keys = [
            ("correlation key", &self.correlation_key),
            ("partition key", &self.partition_key),
        ];
        for (what, key) in keys {
            key.as_deref()
                .map_or(Ok(()), |key| limits::check_key(what, key))?;
        }
        self.error
            .as_deref()
            .map_or(Ok(()), limits::check_error_part)?;
        let before = match self.deadline {
            Some(Deadline::Before(moment)) => Some(moment),
            Some(Deadline::None) | None => None,
        };
        let moments = [
            ("inserted_from", self.inserted_from),
            ("inserted_until", self.inserted_until),
            ("ended_from", self.ended_from),
            ("ended_until", self.ended_until),
            ("deadline", before),
        ];
        for (what, moment) in moments {
            moment.map_or(Ok(()), |moment| limits::check_moment(what, moment))?;
        }
        Ok(())
    }

    /// Returns the statuses as stored, each once; empty means any.
    pub fn stored_statuses(&self) -> Vec<Status> {
        let mut stored: Vec<Status> = self.statuses.iter().map(|it| it.stored()).collect();
        stored.sort_unstable();
        stored.dedup();
        stored
    }

    /// Selects among the rows that are stored as awaiting a signal.
    ///
    /// `true` selects sleeping instances, `false` the others, `None` both.
    pub fn asleep(&self) -> Option<bool> {
        let sleeping = self.statuses.contains(&Status::Sleeping);
        let awaiting = self.statuses.contains(&Status::AwaitingSignal);
        (sleeping != awaiting).then_some(sleeping)
    }

    /// Checks a machine name and a correlation key for a lookup.
    pub fn check_holder(machine: &str, key: &str) -> Result<(), Invalid> {
        limits::check_name("machine", machine)?;
        limits::check_key("correlation key", key)
    }
}

/// A condition on the deadline of instances that wait for a signal or sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// There is no deadline.
    None,
    /// The deadline is before this moment.
    Before(Timestamp),
}

/// A page of instances.
///
/// **A short page is not the end, and neither is an empty one.** The last page has
/// [`next`](Page::next) `None`. A page also ends when it has read its bound, and most rows that it
/// read may not fit the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The instances, newest first.
    pub instances: Vec<Instance>,
    /// The [`before`](ListRequest::before) of the next page; `None` on the last page.
    pub next: Option<InstanceId>,
}

/// A page of rows that belong to one instance.
///
/// It dereferences to the `Vec` of its rows. **A short page is not the end**: a page also ends
/// when its values have [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes.
/// [`more`](Rows::more) says whether rows follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// Whether rows follow the last one of this page.
    pub more: bool,
}

impl<T> Rows<T> {
    /// Cuts rows to a page by number and by size.
    ///
    /// A page has at most `limit` rows and [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX)
    /// bytes. `bytes` returns the size of a row. The first row always fits. Reads at most one row
    /// beyond the page.
    pub fn cut<E>(
        rows: impl IntoIterator<Item = Result<T, E>>,
        limit: usize,
        bytes: impl Fn(&T) -> usize,
    ) -> Result<Rows<T>, E> {
        let mut page = Rows::default();
        let mut read: usize = 0;
        for row in rows {
            let row = row?;
            read += bytes(&row);
            let has_bytes = read > limits::PAGE_BYTES_MAX && !page.rows.is_empty();
            if has_bytes || page.rows.len() >= limit {
                page.more = true;
                break;
            }
            page.rows.push(row);
        }
        Ok(page)
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Rows<T> {
        Rows {
            rows: Vec::new(),
            more: false,
        }
    }
}

impl<T> std::ops::Deref for Rows<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.rows
    }
}

impl<T> IntoIterator for Rows<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Rows<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl<T: PartialEq> PartialEq<Vec<T>> for Rows<T> {
    fn eq(&self, other: &Vec<T>) -> bool {
        self.rows == *other
    }
}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for Rows<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.rows == *other
    }
}

/// A count with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The exact number.
    Exactly(u64),
    /// At least this number: counting stopped at the bound.
    AtLeast(u64),
}

/// A signal as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalRow {
    /// Its id.
    pub id: SignalId,
    /// The instance it was sent to.
    pub target: InstanceId,
    /// Its name.
    pub name: String,
    /// Its payload; a tombstone has none.
    pub payload: Option<Json>,
    /// The sender's key against duplicates. For an update, its id.
    pub dedup_key: Option<String>,
    /// Whether it is an update: its sender waits for a reply.
    pub wants_reply: bool,
    /// When it arrived.
    pub inserted_at: Timestamp,
    /// When it was consumed or dropped. It is then a tombstone, which keeps the dedup key, and the
    /// reply to an update ([`Inspect::update`]).
    pub consumed_at: Option<Timestamp>,
}

impl SignalRow {
    /// Returns the size of its payload in bytes.
    pub fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, |it| it.as_str().len())
    }
}

/// The depth and state of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    /// Its name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// How many are runnable and due, including those behind a partition key. Children that wait
    /// for a place in a window are not in a queue yet.
    pub eligible: Count,
    /// How many are runnable but not due yet.
    pub delayed: Count,
    /// How many are executing.
    pub executing: Count,
    /// Since when the longest-waiting eligible instance has been claimable.
    pub oldest_eligible_at: Option<Timestamp>,
}

/// A worker as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its program's version.
    pub version: String,
    /// The queues it claims from.
    pub queues: Vec<String>,
    /// The machines it runs.
    pub machines: Vec<MachineOffer>,
    /// When it registered.
    pub started_at: Timestamp,
    /// When it last sent a heartbeat.
    pub heartbeat_at: Timestamp,
    /// When its lease expires.
    pub lease_expires_at: Timestamp,
}

/// A recorded operation of an operator, or of a parent on its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its id; ids grow.
    pub id: OperationId,
    /// The verb.
    pub verb: Verb,
    /// The instance, if it was done to one.
    pub instance: Option<InstanceId>,
    /// The queue, if it was done to one.
    pub queue: Option<String>,
    /// The person or parent that did it.
    pub by: String,
    /// The reason.
    pub reason: Option<String>,
    /// The parent that caused it, when a cascade did it.
    pub cause: Option<InstanceId>,
    /// The status of the instance before.
    pub status_before: Option<Status>,
    /// When it was done.
    pub at: Timestamp,
}
