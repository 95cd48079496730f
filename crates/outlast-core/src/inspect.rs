//! Looking without touching: what the HTTP API, the dashboard and the command line ask.

use crate::limits::{self, Hidden, PAGE_MAX};
use crate::{
    Barrier, CancelRequest, Child, ClosePolicy, DroppedChild, Event, Family, Finding,
    HistoryRequest, InstanceId, Invalid, JoinProgress, Json, MachineOffer, OperationId, Parent,
    Result, Revision, RoundSummary, RunStats, RunSummary, Scope, SignalId, Status,
    StepCountRequest, StepCounts, Timestamp, Verb, WorkerId,
};
use async_trait::async_trait;
use std::fmt;

/// Questions about what a store holds.
///
/// Reads are bounded and never wait for a row that somebody writes. Each answer is one consistent
/// moment; two answers may be two moments.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// One instance, or `None` when there is none with this id.
    async fn get(&self, id: InstanceId) -> Result<Option<Instance>>;

    /// The instance of `machine` that holds the correlation key `key` now; else the latest that held it, which is the
    /// one with the highest id. `None` when no stored instance holds or held it.
    async fn find(&self, machine: &str, key: &str) -> Result<Option<Instance>>;

    /// A page of instances, newest first. It reads at most [`SCAN_MAX`](crate::limits::SCAN_MAX) instances, so a
    /// page whose filter few of them fit may be short, even empty, and say where to go on. With
    /// [`values`](ListRequest::values) it ends as well when these have
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes; one instance always fits. Without, states, results and
    /// dropped children are not read from the database.
    async fn list(&self, request: ListRequest) -> Result<Page>;

    /// How many instances fit, counted up to [`COUNT_MAX`](crate::limits::COUNT_MAX).
    async fn count(&self, filter: Filter) -> Result<Count>;

    /// Every signal of an instance that is stored, oldest first, with the tombstones of consumed
    /// ones; at most [`PAGE_MAX`](crate::limits::PAGE_MAX) after `after`, and at most
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of payloads. One signal always fits.
    async fn signals(&self, id: InstanceId, after: Option<SignalId>) -> Result<Rows<SignalRow>>;

    /// The children of an instance, of every round or of one, in the order of their ids; at most
    /// [`PAGE_MAX`](crate::limits::PAGE_MAX) after `after`, and at most
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of states, results and errors. One child always fits.
    async fn children(
        &self,
        id: InstanceId,
        round: Option<i32>,
        after: Option<InstanceId>,
    ) -> Result<Rows<Child>>;

    /// Every queue that has runnable or executing instances, or is paused, by name. Depths are counted
    /// up to [`COUNT_MAX`](crate::limits::COUNT_MAX) each.
    async fn queues(&self) -> Result<Vec<QueueSummary>>;

    /// Every registered worker, by id.
    async fn workers(&self) -> Result<Vec<Worker>>;

    /// What operators did, newest first: to one instance, or to anything. At most
    /// [`PAGE_MAX`](crate::limits::PAGE_MAX).
    async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>>;

    /// What was done to the children of an instance because of it: its end, its join, or a tree that was ended. In the
    /// order it was done, at most [`PAGE_MAX`](crate::limits::PAGE_MAX) after `after`.
    async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>>;

    /// How an instance and all that descend from it stand; `None` when there is no such instance. Counted up to
    /// [`COUNT_MAX`](crate::limits::COUNT_MAX) in all.
    async fn family(&self, id: InstanceId) -> Result<Option<Family>>;

    /// How the children of an instance stand, by round. Counted up to [`COUNT_MAX`](crate::limits::COUNT_MAX)
    /// children in all, the newest rounds first; answered in the order of the rounds.
    async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>>;

    /// Events of one run of a workflow, or of a machine that records its history, in their order; at most
    /// [`HISTORY_PAGE_MAX`](crate::limits::HISTORY_PAGE_MAX), and at most
    /// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes of their data. One event always fits. None when there
    /// is no such instance or run.
    async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>>;

    /// The runs whose history is stored, in their order; one without events is not there. A machine has one run.
    async fn histories(&self, id: InstanceId) -> Result<Vec<RunSummary>>;

    /// Counts a slice of all instances, in the order of their ids, by where they stand. Each slice is a moment
    /// of its own; a walk over all of them counts no instance twice.
    async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts>;

    /// What engines have run since the minute of `since`, summed over all of them: in the order of the fields, at
    /// most [`TRAFFIC_MAX`](crate::limits::TRAFFIC_MAX) of each kind, the newest.
    async fn run_stats(&self, since: Timestamp) -> Result<RunStats>;

    /// How the store and its database are: settings, space, what stands in the way. Each check that can be made is
    /// answered, also what is fine; one that the role may not make is left out.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}

/// The one step of every workflow.
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
    /// Until when it waits at most: for a signal, or for its children.
    pub await_deadline: Option<Timestamp>,
    pub parent: Option<Parent>,
    /// Its position in its parent's fan-out.
    pub position: Option<i32>,
    /// What becomes of it when its parent ends before it does.
    pub on_parent_close: ClosePolicy,
    /// Whether it waits for a place in the window of its parent's fan-out; `None` when that has no window.
    pub held: Option<bool>,
    pub cancel: Option<CancelRequest>,
    pub round: i32,
    /// Which run of a workflow it is in; 1 for others.
    pub run: i32,
    /// How many events the history of that run has.
    pub events: i32,
    /// What a workflow waits for of its children's ends, part by part, or when it last waited for some. `None` for who is
    /// none, and for one that has started no children.
    pub joining: Option<Vec<JoinProgress>>,
    pub children_pending: i32,
    /// How its last fan-out joins, or its last park for ends; `None` when it has begun no round.
    pub barrier: Option<Barrier>,
    pub dropped: Vec<DroppedChild>,
    pub correlation_key: Option<String>,
    pub correlation_scope: Option<Scope>,
    /// Whether it still occupies its correlation key.
    pub holds_key: bool,
    pub inserted_at: Timestamp,
    pub updated_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

impl Instance {
    /// How many bytes its values have, as they count towards a page.
    pub fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |it| it.as_str().len());
        let error = self.last_error.as_ref().map_or(0, String::len);
        let reason = self.cancel.as_ref().map_or(0, |it| it.reason.len());
        let keys = self.dropped.iter().map(|it| it.key.len());
        self.state.as_str().len() + result + error + reason + keys.sum::<usize>()
    }

    /// Whether it has a history: it is a workflow, or a machine that records its transitions. One that has never been claimed
    /// has none yet.
    pub fn has_history(&self) -> bool {
        self.run > 1 || self.events > 0
    }

    /// Whether it is known to be a workflow: it has a history, and stands where all of them stand. A machine that records
    /// its transitions looks like one at a step with that very name; only its events tell then.
    pub fn is_workflow(&self) -> bool {
        self.has_history() && self.step == WORKFLOW_STEP
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
            .field("inserted_at", &self.inserted_at)
            .field("updated_at", &self.updated_at)
            .field("finished_at", &self.finished_at)
            .finish()
    }
}

/// Which instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this machine.
    pub machine: Option<String>,
    /// Of this version.
    pub version: Option<i32>,
    /// At this step.
    pub step: Option<String>,
    /// In one of these statuses; empty means any. [`Status::AwaitingSignal`] leaves out what sleeps.
    pub statuses: Vec<Status>,
    /// In this queue.
    pub queue: Option<String>,
    /// With this correlation key, held or released.
    pub correlation_key: Option<String>,
    /// With this partition key.
    pub partition_key: Option<String>,
    /// Spawned by this instance.
    pub parent: Option<InstanceId>,
    /// Inserted at or after this.
    pub inserted_from: Option<Timestamp>,
    /// Inserted before this.
    pub inserted_until: Option<Timestamp>,
    /// Ended at or after this. What has not ended does not fit.
    pub ended_from: Option<Timestamp>,
    /// Ended before this. What has not ended does not fit.
    pub ended_until: Option<Timestamp>,
    /// Its last error contains this, in the same letters. What a codec has encoded is not found.
    pub error: Option<String>,
    /// It has been retried at least so often at its step.
    pub attempts_from: Option<i32>,
    /// It waits for a signal or sleeps: with no deadline, or with one before this moment.
    pub deadline: Option<Deadline>,
}

/// A page to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Which instances.
    pub filter: Filter,
    /// Only instances with a lower id: what the page before gave as [`next`](Page::next).
    pub before: Option<InstanceId>,
    /// How many at most. Default: [`PAGE_DEFAULT`](crate::limits::PAGE_DEFAULT).
    pub limit: usize,
    /// Whether to read states, results and dropped children. Without them [`state`](Instance::state) is `null`,
    /// [`result`](Instance::result) is `None` and [`dropped`](Instance::dropped) is empty. Default: false.
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
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        self.filter.check()?;
        limits::check_batch("page", self.limit, PAGE_MAX)
    }
}

impl Filter {
    /// Whether it names what could be stored. What could not is refused by the database of one store and never found by
    /// that of another.
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
            .map_or(Ok(()), |error| limits::check_key("error", error))?;
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

    /// The statuses as they are stored, each once; empty means any.
    pub fn stored_statuses(&self) -> Vec<Status> {
        let mut stored: Vec<Status> = self.statuses.iter().map(|it| it.stored()).collect();
        stored.sort_unstable();
        stored.dedup();
        stored
    }

    /// Which of the rows that are stored as awaiting a signal fit: only those that sleep, only those that do not, or
    /// with `None` all of them.
    pub fn asleep(&self) -> Option<bool> {
        let sleeping = self.statuses.contains(&Status::Sleeping);
        let awaiting = self.statuses.contains(&Status::AwaitingSignal);
        (sleeping != awaiting).then_some(sleeping)
    }

    /// Whether an instance could be found by this machine and correlation key.
    pub fn check_holder(machine: &str, key: &str) -> Result<(), Invalid> {
        limits::check_name("machine", machine)?;
        limits::check_key("correlation key", key)
    }
}

/// What is asked of the deadline of instances that wait for a signal or sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// There is none.
    None,
    /// It is before this.
    Before(Timestamp),
}

/// A page of instances.
///
/// **A short page is not the end, and neither is an empty one.** The end is where [`next`](Page::next) is `None`: a page
/// ends as well when it has read its bound, and most of what it read may not have fitted the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The instances, newest first.
    pub instances: Vec<Instance>,
    /// What to ask the next page with, as [`before`](ListRequest::before); `None` when this was the last.
    pub next: Option<InstanceId>,
}

/// A page of rows that belong to one instance.
///
/// It reads like the `Vec` of its rows. **A short page is not the end**: a page ends as well when its values have
/// [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes. [`more`](Rows::more) tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T> {
    /// The rows, in their order.
    pub rows: Vec<T>,
    /// Whether rows follow the last one of this page.
    pub more: bool,
}

impl<T> Rows<T> {
    /// Cuts rows to a page: at most `limit` rows and at most [`PAGE_BYTES_MAX`](crate::limits::PAGE_BYTES_MAX) bytes, of
    /// which each row has as many as `bytes` says. The first row always fits. Reads no row beyond the page but one.
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

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly so many.
    Exactly(u64),
    /// At least so many: counting stopped there.
    AtLeast(u64),
}

/// A signal as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalRow {
    /// Its id.
    pub id: SignalId,
    /// Whom it was sent to.
    pub target: InstanceId,
    /// Its name.
    pub name: String,
    /// What it carries; gone from a tombstone.
    pub payload: Option<Json>,
    /// The sender's key against doubles.
    pub dedup_key: Option<String>,
    /// When it arrived.
    pub inserted_at: Timestamp,
    /// When it was consumed or dropped: then it is a tombstone that only remembers the dedup key.
    pub consumed_at: Option<Timestamp>,
}

impl SignalRow {
    /// How many bytes its payload has.
    pub fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, |it| it.as_str().len())
    }
}

/// A queue at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    /// Its name.
    pub name: String,
    /// Whether it gives out work.
    pub paused: bool,
    /// How many are runnable and due, those behind a partition key among them. Children that wait for a place in a
    /// window are in no queue yet.
    pub eligible: Count,
    /// How many wait for their time.
    pub delayed: Count,
    /// How many are executing.
    pub executing: Count,
    /// Since when the longest-waiting eligible one could have been claimed.
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
    /// The queues it works on.
    pub queues: Vec<String>,
    /// The machines it runs.
    pub machines: Vec<MachineOffer>,
    /// When it registered.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub heartbeat_at: Timestamp,
    /// Until when it counts as alive.
    pub lease_expires_at: Timestamp,
}

/// Something an operator did, or a parent to its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its id; they grow.
    pub id: OperationId,
    /// What.
    pub verb: Verb,
    /// To which instance.
    pub instance: Option<InstanceId>,
    /// To which queue.
    pub queue: Option<String>,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// The parent because of which it was done, when it was done by a cascade.
    pub cause: Option<InstanceId>,
    /// What the instance was before.
    pub status_before: Option<Status>,
    /// When.
    pub at: Timestamp,
}
