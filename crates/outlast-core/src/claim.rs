//! Taking work: the right to run one step of an instance.

use crate::limits::{self, CLAIM_MAX, Hidden, MACHINES_MAX, QUEUES_MAX};
use crate::{
    CancelRequest, ClaimRef, ClosePolicy, InstanceId, Invalid, Joined, Json, Links, NewInstance,
    Revision, SignalId, Status, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A machine in one version: what a worker can run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineVersion {
    /// The machine's name.
    pub machine: String,
    /// Its version.
    pub version: i32,
}

impl MachineVersion {
    /// `machine` in `version`.
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

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims; its lease must be alive.
    pub worker: WorkerId,
    /// From which queue.
    pub queue: String,
    /// What it can run; rows of anything else are not touched.
    pub machines: Arc<[MachineVersion]>,
    /// How many at most.
    pub max: usize,
}

impl ClaimRequest {
    /// Whether it can be answered.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_name("queue", &self.queue)?;
        limits::check_batch("claim", self.max, CLAIM_MAX)?;
        limits::check_batch("machines", self.machines.len(), MACHINES_MAX)
    }
}

/// A worker that takes at once what a verb makes claimable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOffer {
    /// Who claims; its lease must be alive.
    pub worker: WorkerId,
    /// From which queues.
    pub queues: Vec<String>,
    /// What it can run.
    pub machines: Arc<[MachineVersion]>,
}

impl ClaimOffer {
    /// Whether a verb that makes at most `rows` claimable can be asked for their claims.
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
    /// How long until the next row of this queue becomes eligible. `None` when nothing is scheduled,
    /// and when `more` says to ask again at once.
    pub next_due_in: Option<Duration>,
    /// Whether asking again at once may bring more.
    pub more: bool,
    /// Whether the queue is paused, so that nothing was given.
    pub paused: bool,
}

/// The right to run one step, with everything the step may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The instance.
    pub id: InstanceId,
    /// The fence: an outcome must name it.
    pub revision: Revision,
    /// Which machine.
    pub machine: String,
    /// In which version.
    pub version: i32,
    /// Which step.
    pub step: String,
    /// With which state.
    pub state: Json,
    /// The queue it came from.
    pub queue: String,
    /// Its priority there.
    pub priority: i16,
    /// The revision at which the instance came to this step; 0 when it was inserted there. Retries,
    /// releases and reaps leave it alone, so that with the id and the step it names one visit of the
    /// step however often that is run.
    pub entered: Revision,
    /// The trace it belongs to.
    pub trace: Option<String>,
    /// How often this step was tried before.
    pub attempt: i32,
    /// How many of those tries ended with the death of the worker.
    pub crashes: i32,
    /// Its partition key.
    pub partition_key: Option<String>,
    /// Its correlation key, held or released.
    pub correlation_key: Option<String>,
    /// Who spawned it.
    pub parent: Option<Parent>,
    /// Its position in its parent's fan-out, counted from 0.
    pub position: Option<i32>,
    /// How many fan-outs it has made.
    pub round: i32,
    /// Which run of a workflow it is, counted from 1; 1 for others.
    pub run: i32,
    /// How many events the history of that run has.
    pub events: i32,
    /// The names of the wait that led here; empty when it was none.
    pub awaits: Vec<String>,
    /// Every signal it has not consumed, oldest first.
    pub inbox: Vec<Signal>,
    /// The children of the current round, in the order they were asked for, as they stand after this
    /// claim. A workflow's are not here: it knows whom it waits for and asks for those. They have ended, unless the join was decided without them, a cancel came first, or an operator retried
    /// one of them.
    pub children: Vec<Child>,
    /// Children of the current round that were not started because their key was occupied.
    pub dropped: Vec<DroppedChild>,
    /// Why the join of the current round woke the instance. It stays until the next fan-out; `None` when nothing was
    /// joined, and when a cancel came first.
    pub joined: Option<Joined>,
    /// The child of the current round whose bad end was counted first ([`Barrier::first_failure`](crate::Barrier)).
    pub first_failure: Option<InstanceId>,
    /// The cancel that was requested, answered or not.
    pub cancel: Option<CancelRequest>,
    /// Whether it has a place in a window of its parent's children, for which others wait.
    pub windowed: bool,
    /// How long it had been eligible when it was claimed, with the wait for a partition key or for a place in a window.
    pub waited: Duration,
    /// When that was, by the store's clock; `None` where nobody was told, at an insert that handed it over.
    pub claimed_at: Option<Timestamp>,
}

impl Claim {
    /// The claim on a row that a store inserted and handed over in one.
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

    /// What an outcome of this claim must name.
    pub fn reference(&self) -> ClaimRef {
        ClaimRef {
            id: self.id,
            revision: self.revision,
        }
    }

    /// What it is tied to, for its commit.
    pub fn links(&self) -> Links {
        Links {
            parent: self.parent.is_some(),
            partition_key: self.partition_key.is_some(),
            children: self.round > 0,
            window: self.windowed,
        }
    }

    /// Whether the machine is to decide about a cancel, instead of running its step.
    pub fn is_to_answer_cancel(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| !cancel.answered)
    }

    /// The signals the wait was for: those of the inbox whose name was awaited.
    pub fn awaited(&self) -> impl Iterator<Item = &Signal> {
        self.inbox
            .iter()
            .filter(|signal| self.awaits.contains(&signal.name))
    }
}

/// A claim as the store has it for its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// Which claim.
    pub claim: ClaimRef,
    /// A cancel that was requested and is not answered yet.
    pub cancel: Option<CancelRequest>,
}

/// A signal that waits to be consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its id.
    pub id: SignalId,
    /// Its name.
    pub name: String,
    /// What it carries.
    pub payload: Json,
    /// The sender's key against doubles.
    pub dedup_key: Option<String>,
    /// When it arrived.
    pub inserted_at: Timestamp,
}

/// Who spawned an instance, and in which of its fan-outs.
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
    /// What becomes of it when its parent ends before it does.
    pub on_parent_close: ClosePolicy,
    /// Whether it waits for a place in the window of its round: it has not started.
    pub held: bool,
    /// Its machine.
    pub machine: String,
    /// Its machine's version.
    pub version: i32,
    /// Which run of a workflow it is in; 1 for others.
    pub run: i32,
    /// Where it stands; terminal for the children of a round that has joined.
    pub status: Status,
    /// Its last state.
    pub state: Json,
    /// Its result, when it is done.
    pub result: Option<Json>,
    /// Its error, when it failed or was cancelled.
    pub last_error: Option<String>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Child {
    /// How many bytes its values have, as they count towards a page.
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
    /// Who holds the key; `None` when the holder ended while the fan-out looked.
    pub holder: Option<InstanceId>,
}
