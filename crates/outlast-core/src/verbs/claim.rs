//! Claims: the right to run one step of an instance, with the data of that step.
//!
//! Pickers request claims; stores answer them. A claim never outlives its worker's lease.

use crate::limits::{self, CLAIM_MAX, Hidden, MACHINES_MAX, QUEUES_MAX};
use crate::{
    CancelRequest, ClaimRef, ClosePolicy, InstanceId, Invalid, Joined, Json, Links, NewInstance,
    Revision, SignalId, Status, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One version of a machine that a worker can run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineVersion {
    /// The machine's name.
    pub machine: String,
    /// Its version.
    pub version: i32,
}

impl MachineVersion {
    /// Creates a reference to `machine` in `version`.
    pub fn new(machine: impl Into<String>, version: i32) -> MachineVersion {
        MachineVersion {
            machine: machine.into(),
            version,
        }
    }
}

impl fmt::Display for MachineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.machine, self.version)
    }
}

/// A worker's request for claims.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The worker; its lease must be valid.
    pub worker: WorkerId,
    /// The queue to claim from.
    pub queue: String,
    /// The machines it can run; rows of other machines are left alone.
    pub machines: Arc<[MachineVersion]>,
    /// The largest number of claims.
    pub max: usize,
}

impl ClaimRequest {
    /// Checks whether a store can answer it.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_name("queue", &self.queue)?;
        limits::check_batch("claim", self.max, CLAIM_MAX)?;
        limits::check_batch("machines", self.machines.len(), MACHINES_MAX)
    }
}

/// A worker's offer to claim at once the rows that a verb makes claimable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOffer {
    /// The worker; its lease must be valid.
    pub worker: WorkerId,
    /// The queues to claim from.
    pub queues: Vec<String>,
    /// The machines it can run.
    pub machines: Arc<[MachineVersion]>,
}

impl ClaimOffer {
    /// Checks the offer for a verb that makes at most `rows` rows claimable.
    pub fn check(&self, rows: usize) -> Result<(), Invalid> {
        limits::check_batch("claim", rows, CLAIM_MAX)?;
        limits::check_batch("queues", self.queues.len(), QUEUES_MAX)?;
        for queue in &self.queues {
            limits::check_name("queue", queue)?;
        }
        limits::check_batch("machines", self.machines.len(), MACHINES_MAX)
    }
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// The claims, most urgent first.
    pub claims: Vec<Claim>,
    /// How long until the next row of this queue becomes eligible. `None` when no row is
    /// scheduled, and when `more` is set.
    pub next_due_in: Option<Duration>,
    /// Whether another request may find more at once.
    pub more: bool,
    /// Whether the queue is paused. A paused queue grants no claims.
    pub paused: bool,
}

/// The right to run one step, with the data that the step may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The instance.
    pub id: InstanceId,
    /// The fence: an outcome must name it.
    pub revision: Revision,
    /// The machine's name.
    pub machine: String,
    /// The machine's version.
    pub version: i32,
    /// The step to run.
    pub step: String,
    /// The state of that step.
    pub state: Json,
    /// The queue it was claimed from.
    pub queue: String,
    /// Its priority in that queue.
    pub priority: i16,
    /// The revision at which the instance entered this step; 0 when it was inserted there.
    ///
    /// Retries, releases and reaps leave it unchanged. So id, step and this revision identify one
    /// visit of the step, however often it runs.
    pub entered: Revision,
    /// The trace it belongs to.
    pub trace: Option<String>,
    /// How often this step was tried before.
    pub attempt: i32,
    /// How many of those attempts ended with the death of the worker.
    pub crashes: i32,
    /// Its partition key.
    pub partition_key: Option<String>,
    /// Its correlation key, held or released.
    pub correlation_key: Option<String>,
    /// The parent that started it.
    pub parent: Option<Parent>,
    /// Its position in its parent's fan-out, counted from 0.
    pub position: Option<i32>,
    /// How many fan-outs it has made.
    pub round: i32,
    /// The run of a workflow, counted from 1; 1 for other machines.
    pub run: i32,
    /// How many events the history of that run has.
    pub events: i32,
    /// The names of the wait before this step; empty without one. After a wait that [needed
    /// all](crate::Park::needs_all): the names that are still missing.
    pub awaits: Vec<String>,
    /// Every unconsumed signal, oldest first.
    pub inbox: Vec<Signal>,
    /// The children of the current round, in the order of the fan-out, as of this claim.
    ///
    /// Empty for a workflow, which reads the children it awaits itself. All have finished, with
    /// three exceptions: the join was decided without them, a cancel came first, or an operator
    /// retried them.
    pub children: Vec<Child>,
    /// Children of the current round that were not started because their key was occupied.
    pub dropped: Vec<DroppedChild>,
    /// Why the join of the current round woke the instance.
    ///
    /// It stays until the next fan-out. `None` without a join, and when a cancel came first.
    pub joined: Option<Joined>,
    /// The child of the current round whose failure was counted first
    /// ([`Barrier::first_failure`](crate::Barrier)).
    pub first_failure: Option<InstanceId>,
    /// The requested cancel, answered or not.
    pub cancel: Option<CancelRequest>,
    /// Whether it has a place in a window of its parent's children, for which siblings wait.
    pub windowed: bool,
    /// How long it was eligible before the claim, including waits for a partition key or a window.
    pub waited: Duration,
    /// When it was claimed, by the store's clock. `None` for a claim made by an insert.
    pub claimed_at: Option<Timestamp>,
}

impl Claim {
    /// Creates the claim on a row that a store inserted and claimed in one statement.
    pub fn at_insert(row: NewInstance, id: InstanceId, revision: Revision) -> Claim {
        Claim {
            id,
            revision,
            machine: row.machine,
            version: row.version,
            step: row.step,
            state: row.state,
            queue: row.queue,
            priority: row.priority,
            entered: Revision(0),
            trace: row.trace,
            attempt: 0,
            crashes: 0,
            partition_key: row.partition_key,
            correlation_key: row.correlation.map(|correlation| correlation.key),
            parent: None,
            position: None,
            round: 0,
            run: 1,
            events: 0,
            awaits: Vec::new(),
            inbox: Vec::new(),
            children: Vec::new(),
            dropped: Vec::new(),
            joined: None,
            first_failure: None,
            cancel: None,
            windowed: false,
            waited: Duration::ZERO,
            claimed_at: None,
        }
    }

    /// Returns the reference that an outcome of this claim must name.
    pub fn reference(&self) -> ClaimRef {
        ClaimRef {
            id: self.id,
            revision: self.revision,
        }
    }

    /// Returns the links of the instance, for its commit.
    pub fn links(&self) -> Links {
        Links {
            parent: self.parent.is_some(),
            partition_key: self.partition_key.is_some(),
            children: self.round > 0,
            window: self.windowed,
        }
    }

    /// Whether the machine must answer a cancel instead of running its step.
    pub fn is_to_answer_cancel(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| !cancel.answered)
    }

    /// Returns the awaited signals: those of the inbox whose name was awaited.
    pub fn awaited(&self) -> impl Iterator<Item = &Signal> {
        self.inbox
            .iter()
            .filter(|signal| self.awaits.contains(&signal.name))
    }
}

/// A claim as the store records it for its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// The claim.
    pub claim: ClaimRef,
    /// The requested cancel, if it is not answered yet.
    pub cancel: Option<CancelRequest>,
}

/// An unconsumed signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its id.
    pub id: SignalId,
    /// Its name.
    pub name: String,
    /// Its payload.
    pub payload: Json,
    /// The sender's key against duplicates. For an update, its id.
    pub dedup_key: Option<String>,
    /// Whether it is an update: its sender waits for a reply.
    pub wants_reply: bool,
    /// When it arrived.
    pub inserted_at: Timestamp,
}

/// The parent of an instance, and the fan-out that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The parent.
    pub id: InstanceId,
    /// The parent's fan-out, counted from 1.
    pub round: i32,
}

/// A child as its parent sees it. `Debug` shows neither state, result nor error.
#[derive(Clone, PartialEq, Eq)]
pub struct Child {
    /// The child.
    pub id: InstanceId,
    /// The parent's fan-out that started it.
    pub round: i32,
    /// Its position in that fan-out, counted from 0.
    pub position: i32,
    /// What happens to it when its parent ends first.
    pub on_parent_close: ClosePolicy,
    /// Whether it waits for a place in the window of its round and has not started.
    pub held: bool,
    /// Its machine.
    pub machine: String,
    /// Its machine's version.
    pub version: i32,
    /// The run of a workflow; 1 for other machines.
    pub run: i32,
    /// Its status; terminal for the children of a round that has joined.
    pub status: Status,
    /// Its last state.
    pub state: Json,
    /// Its output when it is done; its error value, if any, when it failed.
    pub result: Option<Json>,
    /// Its error, when it failed or was cancelled.
    pub last_error: Option<String>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Child {
    /// Returns the size of its values in bytes, as counted towards a page.
    pub fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |it| it.as_str().len());
        let error = self.last_error.as_ref().map_or(0, String::len);
        self.state.as_str().len() + result + error
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id)
            .field("round", &self.round)
            .field("position", &self.position)
            .field("on_parent_close", &self.on_parent_close)
            .field("held", &self.held)
            .field("machine", &self.machine)
            .field("version", &self.version)
            .field("run", &self.run)
            .field("status", &self.status)
            .field("state", &self.state)
            .field("result", &self.result)
            .field("last_error", &self.last_error.as_deref().map(Hidden))
            .field("finished_at", &self.finished_at)
            .finish()
    }
}

/// A child that was not started because its correlation key was occupied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedChild {
    /// Its position in the fan-out, counted from 0.
    pub position: u32,
    /// Its machine.
    pub machine: String,
    /// The occupied key.
    pub key: String,
    /// The instance that holds the key; `None` when it ended while the fan-out looked.
    pub holder: Option<InstanceId>,
}
