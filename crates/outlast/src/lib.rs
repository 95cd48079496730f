//! Durable state machines and workflows on PostgreSQL and SQLite.
//!
//! A machine is an enum whose variants are its steps; a job and a workflow are `async` functions.
//! The engine commits every completed step to the database before the next one runs. So an
//! instance survives a crash, a deploy or a lost node, and continues where it was.
//!
//! ```
//! use outlast::prelude::*;
//!
//! #[steps] // the enum is the machine: a variant is a step, its fields are the state of that step
//! enum Order {
//!     Reserve { number: u64 },
//!     Charge { number: u64 },
//!     Ship { number: u64 },
//! }
//!
//! struct Purchase {
//!     bank: Bank, // what the steps need
//! }
//!
//! impl Machine for Purchase {
//!     const NAME: &'static str = "purchase";
//!     type State = Order;
//!     type Output = String;
//!
//!     async fn step(&self, order: Order, cx: &Context) -> StepResult<Self> {
//!         match order {
//!             Order::Reserve { number } => wait_for::<Paid>().timeout(DAY).then(Order::Charge { number }),
//!             Order::Charge { number } => {
//!                 self.bank.charge(number, cx.idempotency_key()).await?;
//!                 next(Order::Ship { number })
//!             }
//!             Order::Ship { number } => done(format!("order {number} is on its way")),
//!         }
//!     }
//! }
//!
//! #[derive(Signal, Serialize, Deserialize)]
//! struct Paid {
//!     amount: u64,
//! }
//!
//! #[job(attempts = 5, queue = "mail")] // retried until it succeeds
//! async fn send_mail(mail: Mail, smtp: Data<Smtp>, cx: &Context) -> Result<MessageId, MailError> {
//!     smtp.send(mail, cx.idempotency_key()).await
//! }
//!
//! #[job]
//! async fn print_label(number: u64) -> std::io::Result<String> {
//!     Ok(format!("label {number}"))
//! }
//!
//! #[workflow] // each call is recorded; after a crash the function continues where it was
//! async fn fulfil(flow: Flow, order: NewOrder, warehouse: Data<Warehouse>) -> FlowResult<Receipt> {
//!     let hold = flow.step("reserve", async || warehouse.reserve(&order).await).await?;
//!     let (label, mails) = flow
//!         .all((
//!             flow.run(print_label::with(order.number)),
//!             order.mails.into_iter().map(|mail| flow.run(send_mail::with(mail))).collect::<Vec<_>>(),
//!         ))
//!         .await?;
//!     let Some(paid) = flow.signal::<Paid>().timeout(DAY).await? else {
//!         return flow.fail("payment never came");
//!     };
//!     Ok(Receipt { hold, label, mails, paid: paid.amount })
//! }
//!
//! #[tokio::main]
//! async fn main() -> outlast::Result<()> {
//!     # std::env::set_current_dir(tempfile::tempdir()?.keep())?;
//!     let engine = Engine::sqlite("shop.db")? // or Engine::postgres(url).await?
//!         .register(Purchase { bank: Bank::connect()? })
//!         .register(fulfil)
//!         .register(send_mail)
//!         .register(print_label)
//!         .provide(Smtp::connect()?)
//!         .provide(Warehouse::connect()?)
//!         .start()
//!         .await?;
//!
//!     let order = engine.start(Purchase::with(Order::Reserve { number: 42 }).key("order:42")).await?;
//!     order.signal(Paid { amount: 100 }).dedup("evt-7").await?;
//!     println!("{}", order.output().timeout(MINUTE).await?);
//!     # let mails = vec![Mail { to: "ada@example.org".into() }];
//!     # let order = engine.start(fulfil::with(NewOrder { number: 7, mails })).await?;
//!     # order.signal(Paid { amount: 90 }).await?;
//!     # assert_eq!(order.output().timeout(MINUTE).await?.hold, "hold 7");
//!     engine.shutdown().await
//! }
//! # #[derive(Serialize, Deserialize)] struct Mail { to: String }
//! # #[derive(Debug, Serialize, Deserialize)] struct MessageId(String);
//! # #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
//! # enum MailError { #[error("{0} is no address")] NoAddress(String) }
//! # #[derive(Serialize, Deserialize)] struct NewOrder { number: u64, mails: Vec<Mail> }
//! # #[derive(Debug, Serialize, Deserialize)]
//! # struct Receipt { hold: String, label: String, mails: Vec<MessageId>, paid: u64 }
//! # struct Bank; struct Smtp; struct Warehouse;
//! # impl Bank {
//! #     fn connect() -> std::io::Result<Bank> { Ok(Bank) }
//! #     async fn charge(&self, _: u64, _key: String) -> std::io::Result<()> { Ok(()) }
//! # }
//! # impl Smtp {
//! #     fn connect() -> std::io::Result<Smtp> { Ok(Smtp) }
//! #     async fn send(&self, mail: Mail, key: String) -> Result<MessageId, MailError> {
//! #         if mail.to.contains('@') { Ok(MessageId(key)) } else { Err(MailError::NoAddress(mail.to)) }
//! #     }
//! # }
//! # impl Warehouse {
//! #     fn connect() -> std::io::Result<Warehouse> { Ok(Warehouse) }
//! #     async fn reserve(&self, order: &NewOrder) -> std::io::Result<String> { Ok(format!("hold {}", order.number)) }
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
//! - [`machine`](mod@machine): machines, jobs, signals, outcomes, fan-out.
//! - [`workflow`](mod@workflow): workflows and their calls.
//! - [`client`]: starts, finds and signals instances; [`Handle`] does everything with one.
//! - [`engine`]: runs steps and does the maintenance.
//! - [`testing`]: runs machines in a test, with a clock that the test sets.
//! - [`metrics`] and [`trace`]: what the engine reports.
//! - [`codec`]: encrypts payloads before they reach the database.
//! - [`transaction`]: starts and signals inside your transactions.
//! - [`store`]: the contract of a store, and the rows that queries return.
//!
//! # Features
//!
//! `macros` (default) enables [`#[steps]`](macro@steps), [`#[job]`](macro@job),
//! [`#[workflow]`](macro@workflow) and `#[derive(Signal)]`; the traits work without it. `sqlite`
//! (default) and `postgres` enable the stores. `rusqlite`, `sqlx-0_8`, `sqlx-0_9` and
//! `tokio-postgres` let you start and signal inside your transactions. `encryption` enables the
//! built-in [`codec`].

#[doc(hidden)]
pub mod __private;
pub mod client;
pub mod codec;
mod definition;
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

pub use client::{Client, Handle};
pub use definition::{Data, Durable, Fails, Id, Key, New};
pub use engine::{Engine, Roles};
pub use error::{Error, LookupError, Result, SetupError, SignalError, WaitError};
pub use machine::{
    Context, Failure, History, Job, JobError, Machine, Outcome, Signal, StepError, StepResult,
};
pub use outlast_core::{self as store, InstanceId, Note, Status};
#[cfg(feature = "macros")]
pub use outlast_macros::{Signal, job, steps, workflow};
#[cfg(feature = "postgres")]
pub use outlast_postgres::{self as postgres, Postgres};
#[cfg(feature = "sqlite")]
pub use outlast_sqlite::{self as sqlite, Sqlite};
pub use workflow::{Flow, FlowError, FlowResult, Workflow};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The imports of a program with machines, jobs and workflows.
///
/// ```
/// use outlast::prelude::*;
///
/// #[job]
/// async fn greet(name: String) -> std::io::Result<String> {
///     Ok(format!("Hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> outlast::Result<()> {
/// let engine = Engine::sqlite_in_memory()?.register(greet).start().await?;
/// let greeting = engine.start(greet::with("Ada".into())).await?;
/// assert_eq!(greeting.output().timeout(MINUTE).await?, "Hello Ada");
/// engine.shutdown().await
/// # }
/// ```
pub mod prelude {
    pub use crate::definition::{DAY, Data, HOUR, MINUTE};
    pub use crate::engine::Engine;
    pub use crate::machine::{
        Context, Machine, Signal, StepResult, done, fail, fail_with, fan_out, next, retry, sleep,
        wait_for,
    };
    pub use crate::workflow::{Flow, FlowResult};
    #[cfg(feature = "macros")]
    pub use outlast_macros::{Signal, job, steps, workflow};
    pub use serde::{Deserialize, Serialize};
    pub use std::time::Duration;
}
