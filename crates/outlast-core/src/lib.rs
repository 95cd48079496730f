//! The contract of Outlast: what an instance is, how its status changes, and what a store must do.
//!
//! This crate has no runtime and no SQL. It holds the types that the engine, the stores, the HTTP
//! API and the command line share. A database implements its two traits: [`Store`], the verbs that
//! the engine calls, and [`Inspect`], the queries for people. `outlast-postgres` and
//! `outlast-sqlite` implement them. `outlast-conformance` tests that both behave alike.
//!
//! Read [`Store`] first. For each verb it says what is atomic and fenced, which locks it takes in
//! which order, its bound, and whether it may be repeated. The request and the answer of a verb
//! are in the module of the same name. The stores use the same file names.
//!
//! ```
//! use outlast_core::{Json, NewInstance, Outcome, Status};
//!
//! // A client inserts an instance …
//! let order = NewInstance::new("checkout", "start", Json::parse(r#"{"number":42}"#).unwrap())
//!     .correlation_key("order:42");
//! assert!(order.check().is_ok());
//!
//! // … and a worker commits an outcome for it.
//! let parked = Outcome::Wait {
//!     names: vec!["payment_confirmed".into()],
//!     step: "ship".into(),
//!     state: order.state.clone(),
//!     timeout: None,
//! };
//! assert!(parked.check().is_ok());
//! assert!(Status::AwaitingSignal.may_become(Status::Runnable));
//! ```

mod clock;
mod doctor;
mod error;
mod family;
mod hint;
mod history;
mod id;
mod inspect;
mod json;
pub mod key;
pub mod limits;
#[cfg(outlast_mutants)]
pub mod mutant;
mod status;
mod store;
pub mod text;
mod update;
mod verbs;
mod view;

pub use clock::{Clock, ManualClock, SystemClock, Timestamp, micros};
pub use doctor::{Finding, Severity, StoredTimes, WriteCheck, size, span};
pub use error::{Error, ErrorKind, Invalid, Result, Source};
pub use family::{
    Barrier, CancelRequest, CascadeAction, CascadeRequest, Cascaded, ClosePolicy, Extent, Family,
    Join, Joined, Until, ended_note, is_ended_note, joined_note,
};
pub use hint::{Hints, Listen};
pub use history::{
    BLOCKED, ChildRange, Due, Event, EventKind, Flowing, HistoryRequest, JoinProgress, JoinSet,
    JoinSets, NO_PROGRESS, NewEvent, Park, RunSummary,
};
pub use id::{InstanceId, OperationId, Revision, SignalId, WorkerId};
pub use inspect::step_count::{
    OVERDUE_AFTER, RETRIES_ALARMING, RoundSummary, StepCount, StepCountRequest, StepCounts,
};
pub use inspect::{
    Count, Deadline, Filter, Inspect, Instance, ListRequest, Liveness, Operation, Page,
    QueueSummary, Rows, SignalRow, WORKFLOW_STEP, Worker,
};
pub use json::Json;
pub use key::KeyText;
pub use status::{Scope, Status};
pub use store::{QueueNames, Store};
pub use update::{NewReply, Reply, ReplyKind, SentUpdate, UpdateState};
pub use verbs::claim::{
    Child, Claim, ClaimOffer, ClaimRequest, Claimed, DroppedChild, HeldClaim, MachineVersion,
    Parent, Signal,
};
pub use verbs::collect::{CollectRequest, Collected};
pub use verbs::commit::{
    Answer, ClaimRef, Commit, Committed, HistoryPosition, Links, Outcome, Proceed, Release,
    ReleaseAnswer, Released,
};
pub use verbs::deliver::{
    Delivered, Delivery, NewSignal, SignalOrInsert, SignalledOrInserted, Target,
};
pub use verbs::fire::Fired;
pub use verbs::insert::{Correlation, Inserted, Inserts, NewInstance, Start};
pub use verbs::lease::{Heartbeat, MachineOffer, NewWorker};
pub use verbs::operate::{
    CancelAnswer, Cancelled, DeleteAnswer, Note, Retried, RetryAnswer, TerminateAnswer, Terminated,
    Verb,
};
pub use verbs::reap::{Crash, CrashScene, QUARANTINE_AFTER, ReapRequest, Reaped, gave_up};
pub use verbs::repair::{NeedingRepair, RepairAnswer, RepairNeed, RepairScope, Repaired};
pub use verbs::run_stats::{DELAY_BINS, Delays, RunStats, Runs, minute_of};
pub use verbs::time_out::{PassedTimeout, TIMED_OUT, TimedOut};
pub use view::{NewView, View};
