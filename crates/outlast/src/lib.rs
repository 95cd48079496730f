//! Durable state machines and workflows on PostgreSQL and SQLite.
//!
//! You declare a machine as a Rust enum. The engine commits its state to PostgreSQL or SQLite
//! before the next step runs. So an instance survives a crash, a deploy or a lost node, and
//! continues at its last step.
//!
//! ```
//! use outlast::prelude::*;
//!
//! struct Checkout;
//!
//! #[derive(Serialize, Deserialize)]
//! #[serde(tag = "step", content = "state", rename_all = "snake_case")]
//! enum Order {
//!     Start { number: u64 },
//!     Ship { number: u64 },
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct PaymentConfirmed {
//!     amount: u64,
//! }
//!
//! impl Signal for PaymentConfirmed {
//!     const NAME: &'static str = "payment_confirmed";
//! }
//!
//! impl Machine for Checkout {
//!     const NAME: &'static str = "checkout";
//!     type State = Order;
//!     type Output = String;
//!
//!     async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
//!         Ok(match state {
//!             Order::Start { number } => wait_for([PaymentConfirmed::NAME])
//!                 .timeout(Duration::from_secs(3600))
//!                 .then(Order::Ship { number }),
//!             Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
//!                 Some(paid) => Outcome::done(format!("order {number}, paid {}", paid.amount)),
//!                 None => Outcome::fail("payment never came"),
//!             },
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(Sqlite::in_memory()?) // or Sqlite::open("shop.db")?, or Postgres::connect(url).await?
//!     .machine(Checkout)
//!     .queue("default", 100)
//!     .start()
//!     .await?;
//! let id = engine.insert(New::<Checkout>(Order::Start { number: 42 }).key("order:42")).await?;
//! engine.signal(Checkout::key("order:42"), PaymentConfirmed { amount: 100 }).dedup("evt-7").await?;
//! let receipt = engine.wait(id, Duration::from_secs(5)).await?;
//! assert_eq!(receipt, "order 42, paid 100");
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The guarantee
//!
//! When a step completes, its new state is committed before any other code of that instance runs.
//! After a crash before the commit the whole step runs again. Nothing runs exactly once: your
//! effects must be idempotent, and [`Context::idempotency_key`] gives them a key for that.
//!
//! # Where to read on
//!
//! - [`machine`]: the traits that you implement.
//! - [`engine`]: runs machines.
//! - [`client`]: starts, signals and waits for instances.
//! - [`testing`]: runs machines in a test, with a clock that the test sets.
//! - [`metrics`] and [`trace`]: what the engine reports.
//! - [`codec`]: encrypts payloads before they reach the database.
//!
//! # Features
//!
//! `sqlite` (default) and `postgres` enable the stores. `rusqlite`, `sqlx-0_8`, `sqlx-0_9` and
//! `tokio-postgres` let you insert and signal inside your transactions ([`transaction`]).
//! `encryption` enables the built-in [`codec`].

pub mod client;
pub mod codec;
pub mod engine;
mod error;
mod hub;
mod lease;
pub mod machine;
pub mod metrics;
pub mod testing;
pub mod trace;
pub mod transaction;
pub mod workflow;

pub use client::{Client, Inserted};
pub use engine::{Engine, EngineBuilder, Roles};
pub use error::{SetupError, WaitError};
pub use machine::{
    ChildHandle, ChildOf, Context, Failure, FanOut, History, Id, Job, JobError, Key, Machine, New,
    Outcome, Signal, StepError, StepResult, fan_out, sleep, wait_for,
};
pub use outlast_core::{
    Barrier, CancelAnswer, CancelRequest, Child, ChildRange, Clock, ClosePolicy, Count, DELAY_BINS,
    Deadline, Delays, DeleteAnswer, Delivery, DroppedChild, Error, ErrorKind, Event, EventKind,
    Family, Filter, Finding, HistoryRequest, Inspect, Instance, InstanceId, Invalid, JoinProgress,
    Joined, Json, ListRequest, MachineOffer, ManualClock, NewInstance, NewSignal, Note,
    OVERDUE_AFTER, Operation, OperationId, Page, Parent, QueueSummary, RETRIES_ALARMING,
    RetryAnswer, RoundSummary, Rows, RunStats, RunSummary, Runs, Scope, Severity,
    Signal as Message, SignalRow, Status, StepCount, StepCountRequest, StepCounts, Store, Target,
    TerminateAnswer, Timestamp, Until, Verb, Worker, WriteCheck, limits, minute_of,
};
#[cfg(feature = "postgres")]
pub use outlast_postgres::{self as postgres, Postgres};
#[cfg(feature = "sqlite")]
pub use outlast_sqlite::{self as sqlite, Sqlite};
pub use workflow::{Flow, FlowError, FlowErrorKind, FlowResult, Run, Workflow};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The imports of a program with machines.
///
/// ```
/// use outlast::prelude::*;
///
/// # fn main() -> Result<(), outlast::Error> {
/// let client = Client::new(Sqlite::in_memory()?);
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    #[cfg(feature = "postgres")]
    pub use crate::Postgres;
    #[cfg(feature = "sqlite")]
    pub use crate::Sqlite;
    pub use crate::{
        Client, ClosePolicy, Context, Delivery, Engine, Failure, Flow, FlowError, FlowResult,
        History, Id, Inserted, InstanceId, Job, JobError, Joined, Machine, New, Note, Outcome,
        Roles, Run, Scope, Signal, Status, StepError, StepResult, WaitError, Workflow, fan_out,
        sleep, wait_for,
    };
    pub use serde::{Deserialize, Serialize};
    pub use std::time::Duration;
}
